// Package eventlog keeps the events of processes on the agent's disk until the server has them, and for some days
// more. It owns the files, the numbers of the events and the bounds of both. Other packages decide what an event is,
// and send it. Append returns once the kernel has an event; the event is on disk a moment later. If the agent dies,
// no event is lost, and the next agent does not write it again. If the power fails, only the events of the last moment
// are lost, and their numbers are never used again.
package eventlog

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"drover/internal/idle"

	"drover/internal/process"
)

// Config is what a log needs.
type Config struct {
	// Dir is the log's own directory; it is made with mode 0700.
	Dir string
	// Booted is when the host was booted, in Unix milliseconds: of another boot, a pid says nothing.
	Booted int64
	// Age is how long an event is kept at most; a week when 0.
	Age time.Duration
	// Lost is called when events were lost. It must not block; nil when nobody needs to know.
	Lost func()
	// Now is the wall clock; time.Now when nil.
	Now func() time.Time
	Log *slog.Logger
}

// maxWaiting is how many events wait in memory while the disk takes none.
const maxWaiting = 1000

// Log is an open log. Its methods may be called from any goroutine, but there is one reader: Pending and Acknowledge
// are not called at the same time.
type Log struct {
	cfg    Config
	stream string
	// wake tells Run that there is something to sync or to write.
	wake  chan struct{}
	marks *positionFile

	mu       sync.Mutex
	seq      uint64
	files    files
	position position // everything before it is acknowledged
	// acknowledged is the last acknowledged event since Open or Rewind.
	acknowledged last
	// queue has the lines that the disk did not take yet, oldest first. lostCount counts the events that were dropped
	// because there were too many.
	queue     [][]byte
	lostCount int
	// confessed counts the lost events that an events-lost event has reported.
	confessed int
	// failing says that the last write failed.
	failing bool
	// earlier are the last events of earlier agents, by process; nil until the first event.
	earlier   map[process.ID]earlier
	inherited []segment // to read them from
}

// Open opens the log in a directory and begins a new stream. Events of earlier streams are still pending. Open fails
// if it cannot make or read the directory; damage in a file costs only the damaged lines. Run must run for the log,
// and Close closes it.
func Open(cfg Config) (*Log, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Lost == nil {
		cfg.Lost = func() {}
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot create the directory of the event log: %w", err)
	}
	all, err := list(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("cannot read the event log: %w", err)
	}
	m := openMarks(cfg.Dir, cfg.Log)
	l := &Log{
		cfg: cfg, stream: newStream(), wake: make(chan struct{}, 1), marks: m, position: m.read(),
		files: files{dir: cfg.Dir, limits: standard(cfg.Age), create: create, all: all}, inherited: newest(all),
	}
	// The position may name a segment that was lost in a power failure: do not use its number again.
	l.files.next = l.position.segment + 1
	if n := len(all); n > 0 {
		l.files.next = max(l.files.next, all[n-1].number+1)
	}
	l.trim()
	return l, nil
}

// newStream returns a unique name for a stream.
func newStream() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

// Append adds an event. It sets the stream and the number, and the current time if At is 0; it cuts texts that are too
// long. It does not wait for the disk. If the disk takes nothing, the event stays in memory and is reported from
// there. If too many events wait, the oldest are lost, and an events-lost event says how many. Append drops an event
// that the agent before has written, and whose state that agent could not store any more.
func (l *Log) Append(e process.Event) {
	l.mu.Lock()
	l.drain()
	if !l.again(&e) {
		l.keep(e)
	}
	l.mu.Unlock()
	l.nudge()
}

// keep numbers an event and writes it, or adds it to waiting. The caller holds the lock, also for the functions below.
func (l *Log) keep(e process.Event) {
	l.seq++
	e.Stream, e.Seq = l.stream, l.seq
	if e.At == 0 {
		e.At = l.cfg.Now().UnixMilli()
	}
	line := encode(e)
	if len(l.queue) == 0 && l.write(line) {
		return
	}
	l.queue = append(l.queue, line)
	if len(l.queue) > maxWaiting {
		l.lostCount += weight(l.queue[0])
		l.queue = slices.Delete(l.queue, 0, 1)
	}
}

// weight is how many events are lost if a line is lost.
func weight(line []byte) int {
	var e struct {
		Kind    process.EventKind `json:"kind"`
		Attempt int               `json:"attempt"`
	}
	if json.Unmarshal(line, &e) == nil && e.Kind == process.EventsLost {
		return e.Attempt
	}
	return 1
}

// write reports whether it wrote the line.
func (l *Log) write(line []byte) bool {
	rotated, err := l.files.write(line, l.cfg.Now())
	if err != nil {
		if !l.failing {
			l.cfg.Log.Error("cannot write event, keeping it in memory", "error", err)
		}
		l.failing = true
		return false
	}
	if l.failing {
		l.cfg.Log.Info("writing events again")
	}
	l.failing = false
	if rotated {
		l.trim()
	}
	return true
}

// drain writes the waiting lines until a write fails.
func (l *Log) drain() {
	for len(l.queue) > 0 {
		if !l.write(l.queue[0]) {
			return
		}
		l.queue = slices.Delete(l.queue, 0, 1)
	}
	l.logLost()
}

// logLost reports how many events were lost, once nothing is waiting.
func (l *Log) logLost() {
	if l.lostCount == 0 || len(l.queue) > 0 {
		return
	}
	n := l.lostCount
	l.confessed += n
	l.lostCount = 0
	l.cfg.Log.Warn("lost events", "events", n)
	l.cfg.Lost()
	l.keep(process.Event{Kind: process.EventsLost, Attempt: n, Actor: process.Actor{Kind: process.ActorPolicy}})
}

// trim removes segments beyond the limits.
func (l *Log) trim() {
	lost, err := l.files.trim(l.position, l.cfg.Now())
	if err != nil {
		l.cfg.Log.Warn("cannot remove old events", "error", err)
	}
	l.lostCount += lost
}

func (l *Log) nudge() { idle.Wake(l.wake) }

// Close closes the files. Run must have returned.
func (l *Log) Close() error {
	err := l.sync()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := errors.Join(err, l.files.close(), l.marks.close()); err != nil {
		return fmt.Errorf("cannot close the event log: %w", err)
	}
	return nil
}
