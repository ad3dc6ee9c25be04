package processes

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "drover/api/v1"
	"drover/internal/pattern"
	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/api/call"
	"drover/internal/server/api/hosts"
	"drover/internal/server/edge"
	"drover/internal/server/gate"
	"drover/internal/server/store"
	"drover/internal/wire"
)

// Logs asks the agents of hosts about logs.
type Logs interface {
	// Ask returns a piece of a log within the bounds of package wire. It blocks for some seconds at most.
	Ask(ctx context.Context, agent string, q wire.LogQuestion) (wire.LogAnswer, error)
	// Live compares running processes with their specs. It blocks for some seconds at most.
	Live(ctx context.Context, agent string, q wire.LiveQuestion) (wire.LiveAnswer, error)
	// Usage returns what a process has used. It blocks for some seconds at most.
	Usage(ctx context.Context, agent string, q wire.UsageQuestion) (wire.UsageAnswer, error)
}

const (
	// mostLogs is the largest number of logs that one call reads: one for each host and copy.
	mostLogs = 500
	// logMemory is how much text of all its logs a call holds, in bytes; each log may send leastPiece.
	logMemory  = 4 << 20
	leastPiece = 8 << 10
	// logsAbreast is how many logs a call reads at the same time, unless it follows them.
	logsAbreast = 16
	// logWrite is how long a reader may take to receive one write: it may be a person at a pager.
	logWrite = 10 * time.Minute
	// logPause is the least time between two questions to a host that has no text, logRetry the time until a host is
	// asked again that did not answer.
	logPause = 500 * time.Millisecond
	logRetry = 3 * time.Second
	// maxEmpty is how many consecutive answers without a line a call accepts from a host that claims to have more.
	maxEmpty = 1000
)

// ReadLogs streams what a process wrote on its hosts, a line of JSON for each line.
func (h *Handler) ReadLogs(ctx context.Context, c *call.Call) (call.Reply, error) {
	id := process.ID{Namespace: c.Request.PathValue("namespace"), Name: c.Request.PathValue("name")}
	c.Audit.Target = edge.Clip(id.String())
	if c.Principal.On(access.ReadLogs, id.Namespace).Nowhere() { // before it parses any expression
		return call.Reply{}, call.Forbidden(access.Missing{Operation: access.ReadLogs, Subject: id.String()})
	}
	choice, which := hosts.ChoiceOf(&c.Params), ChoiceOf(&c.Params)
	q, err := logQuestion(&c.Params, id)
	if err != nil {
		return call.Reply{}, err
	}
	r := logReader{h: h, c: c, id: id, hostKeys: h.hosts.KeysOf(choice)}
	if err := r.find(ctx, which); err != nil {
		return call.Reply{}, err
	}
	leave, free := h.Readers.Enter(c.Principal.App, call.MaxStreams)
	if !free {
		return call.Reply{}, call.Busy(fmt.Sprintf("the app reads %d logs at the same time", call.MaxStreams),
			int(call.Heartbeat/time.Second))
	}
	defer leave()
	c.Audit.Targets = len(r.logs)
	if err := h.Audit.NoteAudit(ctx, c.Row()); err != nil {
		return call.Reply{}, call.Failure("record the call", err)
	}
	c.Audited = true
	q.Limit = min(max(logMemory/len(r.logs), leastPiece), wire.MaxLogText)
	r.run(ctx, q)
	return call.Reply{Written: true}, nil
}

// logQuestion reads the parameters of a question about a log.
func logQuestion(p *call.Params, id process.ID) (q wire.LogQuestion, err error) {
	q = wire.LogQuestion{
		Process: id, Stream: p.Choice("stream", v1.StreamStdout, v1.StreamStderr, v1.StreamFile, v1.StreamOutput),
		Run: p.Number("run", -1_000_000, 0), Tail: p.Number("tail", 0, wire.MaxLogTail), Grep: p.Text("grep"),
	}
	if since := p.Time("since"); !since.IsZero() {
		q.Since = max(since.UnixMilli(), 1)
	}
	if follow := p.Flag("follow"); follow != nil {
		q.Follow = *follow
	}
	q.New = p.Text("tail") == "0"
	if q.Follow && q.Run != 0 {
		p.Fail(call.Invalid("run", "is %d: expected 0 with follow, because an earlier run has ended", q.Run))
	}
	if _, err := pattern.Parse(q.Grep); err != nil {
		p.Fail(call.Invalid("grep", "%v", err))
	}
	return q, p.Done()
}

// logReader is one call that reads a log.
type logReader struct {
	h        *Handler
	c        *call.Call
	id       process.ID
	hostKeys []string // the keys of the hosts that the caller chose; nil for all
	// logs are the logs that the caller may read, of the process or its copies. hosts is the number of their hosts.
	logs  []oneLog
	hosts int

	mu      sync.Mutex
	control *http.ResponseController
	gone    bool
	checked time.Time
}

// oneLog is the log of a process on a host.
type oneLog struct {
	id    process.ID
	agent store.Agent
}

// find finds the logs of the process and its copies on the hosts of the caller's choice.
func (r *logReader) find(ctx context.Context, which Choice) error {
	reach := r.c.Principal.On(access.ReadLogs, r.id.Namespace)
	f := store.ObservedFilter{Process: r.id, Copies: true, Agents: r.hostKeys}
	which.Narrow(&f)
	hosts := map[string]bool{}
	err := r.h.EachObserved(ctx, f, func(o *store.Observed) {
		if agent, known := r.h.Directory.ByKey(o.Agent); known && reach.Covers(gate.Host(agent)) && which.Matches(o) {
			r.logs = append(r.logs, oneLog{o.Process, agent})
			hosts[agent.Key] = true
		}
	})
	r.hosts = len(hosts)
	switch {
	case err != nil:
		return err
	case len(r.logs) == 0:
		return unknownProcess(r.id, which)
	case len(r.logs) > mostLogs:
		return call.Invalid("host", "selects %d logs on %d hosts: expected at most %d logs", len(r.logs), r.hosts, mostLogs)
	}
	return nil
}

// run reads all logs and writes their lines. A host is asked for more when its last piece is with the reader, so a
// slow reader holds one piece of each log in memory.
func (r *logReader) run(ctx context.Context, q wire.LogQuestion) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := context.AfterFunc(r.h.Stopping, stop) //nolint:contextcheck // the end of the handler ends the call
	defer ended()
	r.control, r.checked = http.NewResponseController(r.c.Response), r.h.Now()
	header := r.c.Response.Header()
	header.Set("Content-Type", "application/x-ndjson")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Drover-Hosts", strconv.Itoa(r.hosts))
	header.Set("X-Drover-Logs", strconv.Itoa(len(r.logs)))
	header.Set("X-Accel-Buffering", "no") // a proxy must not hold lines back
	r.c.Response.WriteHeader(http.StatusOK)
	if q.New && !q.Follow {
		return // it asks for no line
	}
	abreast := logsAbreast
	if q.Follow {
		abreast = len(r.logs)
	}
	var readers sync.WaitGroup
	places := make(chan struct{}, abreast)
	if q.Follow {
		readers.Go(func() { r.beat(ctx) })
	}
	for _, log := range r.logs {
		places <- struct{}{}
		readers.Go(func() {
			defer func() { <-places }()
			r.read(ctx, stop, log, q)
		})
	}
	readers.Wait()
}

// beat writes empty lines, so that the reader can tell a quiet log from a lost server.
func (r *logReader) beat(ctx context.Context) {
	tick := time.NewTicker(call.Heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			r.write([]byte("\n"))
		case <-ctx.Done():
			return
		}
	}
}

// read reads one log to its end, or until ctx ends if it follows the log.
func (r *logReader) read(ctx context.Context, stop func(), log oneLog, q wire.LogQuestion) {
	source := v1.LogLine{Host: r.h.hosts.View(log.agent).ID, Name: log.id.Name}
	fails := func(problem string) []byte {
		line := source
		line.Error = problem
		return encodeLine(line)
	}
	q.Process = log.id
	told, empty := "", 0
	for ctx.Err() == nil {
		asked := time.Now()
		a, err := r.h.Logs.Ask(ctx, log.agent.Key, q)
		if ctx.Err() != nil {
			return
		}
		problem := a.Error
		if err != nil {
			problem = err.Error()
		}
		if problem != told && problem != "" && !r.write(fails(problem)) {
			stop()
			return
		}
		told = problem
		switch {
		case problem != "" && (err == nil && a.Cursor == "" || !q.Follow):
			return
		case problem != "":
			pause := logRetry
			if a.Cursor != "" { // the host can go on after it
				q.Cursor = a.Cursor
			}
			if a.More {
				pause = logPause
			}
			sleep(ctx, pause)
			continue
		}
		if !r.write(linesOf(source, &a)) || !r.allowed(ctx) {
			stop()
			return
		}
		if empty++; len(a.Blocks) > 0 {
			empty = 0
		}
		switch {
		case !a.More && !q.Follow:
			return
		case empty > maxEmpty && a.More:
			r.write(fails("the host sends no lines"))
			return
		case !a.More:
			sleep(ctx, logPause-time.Since(asked))
		}
		if q.New = false; a.Cursor != "" { // all of a log that begins from now on is new
			q.Cursor = a.Cursor
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// allowed reads the rights of the reader again when they are due; false means that the stream ends.
func (r *logReader) allowed(ctx context.Context) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.h.Now()
	if now.Sub(r.checked).Abs() < call.Recheck {
		return true
	}
	r.checked = now
	if r.h.Authenticate(ctx, r.c) != nil {
		return false
	}
	reach := r.c.Principal.On(access.ReadLogs, r.id.Namespace)
	return !slices.ContainsFunc(r.logs, func(l oneLog) bool { return !reach.Covers(gate.Host(l.agent)) })
}

// write writes lines to the reader; false means that the reader is gone or too slow.
func (r *logReader) write(lines []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(lines) == 0 || r.gone {
		return !r.gone
	}
	_ = r.control.SetWriteDeadline(time.Now().Add(logWrite)) // a test recorder has no deadline
	_, err := r.c.Response.Write(lines)
	if err == nil {
		err = r.control.Flush()
	}
	r.gone = err != nil
	return !r.gone
}

// linesOf returns an answer as lines of JSON. source has the fields that all lines share.
func linesOf(source v1.LogLine, a *wire.LogAnswer) []byte {
	var out bytes.Buffer
	for i := range a.Blocks {
		b := &a.Blocks[i]
		line := source
		line.Time, line.Stream, line.Run, line.Lost = call.MilliTime(b.Time), b.Stream, b.Run, b.Lost
		if b.Lost > 0 {
			out.Write(encodeLine(line))
			continue
		}
		for text := range strings.SplitSeq(string(b.Text), "\n") {
			line.Text = strings.ToValidUTF8(text, "\uFFFD")
			out.Write(encodeLine(line))
		}
	}
	return out.Bytes()
}

func encodeLine(l v1.LogLine) []byte {
	text, _ := json.Marshal(l) // a plain struct always encodes
	return append(text, '\n')
}
