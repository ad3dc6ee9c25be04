package faults_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"drover/internal/agent"
	"drover/internal/agent/orders"
	"drover/internal/agent/record"
	"drover/internal/agent/report"
	"drover/internal/agent/specstore"
	"drover/internal/process"
	"drover/internal/server/engine"
	"drover/internal/server/store"
)

// Moments that are not one of the list.
const (
	never   = ""
	listing = "list"  // writes down every moment that is passed
	atStart = "start" // dies at the first write after a start
)

// reporting is what an agent does that is no write.
const reporting = "agent: Report"

// anybody is the process of a drover that counts its moments from its start on.
const anybody = "*"

// moments are the points between which nothing that lasts happens in a drover: before and after each commit, each
// journal write, each send, report and acknowledgement. They count from the first order for the process they wait for;
// every child has one list of them.
type moments struct {
	at   string
	of   string // the process
	list string

	// full is the write that fails, forever says that each one after it does, too.
	full    string
	forever bool

	mu    sync.Mutex
	armed bool
	seen  map[string]int
	// filled says that a write has failed.
	filled bool
}

func newMoments(list string) *moments {
	at := os.Getenv(momentVariable)
	of := os.Getenv(processVariable)
	full, forever := strings.CutSuffix(os.Getenv(fullVariable), "…")
	return &moments{
		at: at, of: of, list: list, full: full, forever: forever, seen: map[string]int{},
		armed: at == atStart || of == anybody,
	}
}

// arm begins to count if the process is the one.
func (m *moments) arm(process string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.armed = m.armed || m.of == process
}

// armFor begins to count if one of the orders is for the process.
func (m *moments) armFor(orders []record.Entry) {
	if slices.ContainsFunc(orders, func(e record.Entry) bool { return e.Process.Name == m.of }) {
		m.arm(m.of)
	}
}

// pass is called at a moment, and does not return from the one to die at.
func (m *moments) pass(name string, n int, when string) {
	moment := fmt.Sprintf("%s %d %s", name, n, when)
	switch m.at {
	case listing:
		f, err := os.OpenFile(m.list, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			_, _ = fmt.Fprintln(f, moment) // the test misses it
			_ = f.Close()
		}
	case moment, atStart:
		_ = unix.Kill(unix.Getpid(), syscall.SIGKILL)
		select {}
	}
}

func (m *moments) around(name string, do func() error) error {
	m.mu.Lock()
	if !m.armed {
		m.mu.Unlock()
		return do()
	}
	m.seen[name]++
	n := m.seen[name]
	fails := m.full != "" && (m.full == fmt.Sprintf("%s %d", name, n) || m.filled && m.forever && name != reporting)
	m.filled = m.filled || fails
	m.mu.Unlock()
	if fails {
		return syscall.ENOSPC
	}
	m.pass(name, n, "before")
	err := do()
	m.pass(name, n, "after")
	return err
}

// dyingLink dies before a send, or after the agent's receipt has come and nobody has heard of it.
type dyingLink struct {
	engine.Link
	*moments
}

func (l *dyingLink) Send(ctx context.Context, agent string, envelope []byte) (reply []byte, err error) {
	err = l.around("Send", func() error {
		reply, err = l.Link.Send(ctx, agent, envelope)
		return err
	})
	return reply, err
}

// dyingStore dies around the commits of an operation.
type dyingStore struct {
	store.Store
	*moments
}

func (s *dyingStore) CreateTask(ctx context.Context, t *store.Task, row store.AuditRow, until time.Time,
	limit int,
) (items []store.Item, err error) {
	s.arm(t.Requests[0].Process.Name)
	err = s.around("CreateTask", func() error {
		items, err = s.Store.CreateTask(ctx, t, row, until, limit)
		return err
	})
	return items, err
}

func (s *dyingStore) LeaseItems(ctx context.Context, now, until time.Time, limit int) (items []store.Item, err error) {
	err = s.around("LeaseItems", func() error {
		items, err = s.Store.LeaseItems(ctx, now, until, limit)
		return err
	})
	return items, err
}

func (s *dyingStore) MarkSent(ctx context.Context, ids []string, resend time.Time) error {
	return s.around("MarkSent", func() error { return s.Store.MarkSent(ctx, ids, resend) })
}

func (s *dyingStore) MarkAccepted(ctx context.Context, ids []string, until time.Time) error {
	return s.around("MarkAccepted", func() error { return s.Store.MarkAccepted(ctx, ids, until) })
}

func (s *dyingStore) Begin(ctx context.Context, agent string, deadlines map[string]time.Time) error {
	return s.around("Begin", func() error { return s.Store.Begin(ctx, agent, deadlines) })
}

func (s *dyingStore) Finish(ctx context.Context, given []store.ReportedOutcome) (tasks []string, err error) {
	err = s.around("Finish", func() error {
		tasks, err = s.Store.Finish(ctx, given)
		return err
	})
	return tasks, err
}

func (s *dyingStore) PutObserved(ctx context.Context, from store.ReportMark, rows []store.Observed,
	gone []store.Removal,
) error {
	return s.around("PutObserved", func() error { return s.Store.PutObserved(ctx, from, rows, gone) })
}

func (s *dyingStore) ReplaceObserved(ctx context.Context, from store.ReportMark, rows []store.Observed,
	keep []process.ID,
) (known bool, err error) {
	err = s.around("ReplaceObserved", func() (err error) {
		known, err = s.Store.ReplaceObserved(ctx, from, rows, keep)
		return err
	})
	return known, err
}

// dyingReports dies before a report, or after it has been acknowledged and nobody here knows.
type dyingReports struct {
	report.Link
	*moments
}

func (l *dyingReports) Report(ctx context.Context, data []byte) (reply []byte, err error) {
	err = l.around(reporting, func() error {
		reply, err = l.Link.Report(ctx, data)
		return err
	})
	return reply, err
}

// dyingQueue dies before what an agent has been asked is carried out, or before the receipt that holds the answer or
// says that it will come.
type dyingQueue struct {
	orders.Queue
	*moments
}

func (q *dyingQueue) Submit(entries []record.Entry) {
	q.armFor(entries)
	_ = q.around("agent: Submit", func() error { // which never fails
		q.Queue.Submit(entries)
		return nil
	})
}

// dyingDisk dies around the writes of an agent.
type dyingDisk struct {
	agent.Disk
	*moments
}

func (d *dyingDisk) Accept(entries []record.Entry) (fresh, known []record.Entry, err error) {
	d.armFor(entries)
	err = d.around("agent: Accept", func() error {
		fresh, known, err = d.Disk.Accept(entries)
		return err
	})
	return fresh, known, err
}

func (d *dyingDisk) PutProgress(item string, p record.Progress) error {
	return d.around("agent: PutProgress", func() error { return d.Disk.PutProgress(item, p) })
}

func (d *dyingDisk) PutRuntime(id process.ID, r record.Runtime) error {
	return d.around("agent: PutRuntime", func() error { return d.Disk.PutRuntime(id, r) })
}

func (d *dyingDisk) PutRecord(r record.Record) error {
	return d.around("agent: PutRecord", func() error { return d.Disk.PutRecord(r) })
}

func (d *dyingDisk) Finish(item string, id process.ID, o process.Outcome, c specstore.Change) error {
	return d.around("agent: Finish", func() error { return d.Disk.Finish(item, id, o, c) })
}

func (d *dyingDisk) Acknowledge(items []string) error {
	return d.around("agent: Acknowledge", func() error { return d.Disk.Acknowledge(items) })
}
