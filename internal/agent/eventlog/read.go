package eventlog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"syscall"

	"drover/internal/process"
)

// readEvent is an event in a file.
type readEvent struct {
	event process.Event
	size  int
}

// walkResult is what came of a walk.
type walkResult struct {
	damaged int // lines that are no events
	// end is how far everything has been looked at.
	end position
}

// walk reads the events after a position, oldest first, until there are no more or visit says that it is enough; the
// one that it says it of is not passed. What is damaged is skipped, and so is the half line that a power failure may
// leave at the end. A segment that cannot be read is passed over, and is the error, unless it is the agent that is
// short of something: then nothing behind it is read now.
func walk(dir string, from position, segments []segment, visit func(readEvent) bool) (t walkResult, err error) {
	t.end = from
	for _, s := range segments {
		at := position{segment: s.number}
		if from.segment == s.number {
			at = from
		}
		goOn, failure := t.segment(dir, at, s, visit)
		err = errors.Join(err, failure)
		if !goOn || short(failure) {
			return t, err
		}
		t.end = position{segment: s.number, offset: s.size}
	}
	return t, err
}

// short reports whether the next try may well find what this one did not: descriptors or memory.
func short(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

// segment walks one of them; false says that it is enough.
func (t *walkResult) segment(dir string, at position, s segment, visit func(readEvent) bool) (bool, error) {
	f, err := os.Open(s.path(dir))
	if err != nil {
		return true, err
	}
	defer f.Close()
	left := s.size - at.offset
	r := bufio.NewReaderSize(io.NewSectionReader(f, at.offset, left), int(min(max(left, 16), longestLine)))
	for {
		line, err := r.ReadSlice('\n')
		at.offset += int64(len(line))
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			n, err := skipLine(r)
			at.offset += n
			t.damaged++
			if err != nil {
				return true, known(err)
			}
		case err != nil:
			return true, known(err)
		default:
			if e, ok := parse(line); !ok {
				t.damaged++
			} else if !visit(readEvent{event: e, size: len(line)}) {
				return false, nil
			}
		}
		t.end = at
	}
}

// known takes the end of a file for what it is.
func known(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// skipLine reads to the end of a line that is too long.
func skipLine(r *bufio.Reader) (n int64, err error) {
	for {
		line, err := r.ReadSlice('\n')
		n += int64(len(line))
		if !errors.Is(err, bufio.ErrBufferFull) {
			return n, err
		}
	}
}

// parse reads a line; an event without a name is none.
func parse(line []byte) (e process.Event, ok bool) {
	err := json.Unmarshal(bytes.TrimSuffix(line, []byte("\n")), &e)
	return e, err == nil && e.Stream != "" && e.Seq > 0
}

// Pending returns the oldest events that are not acknowledged, those of earlier lives of the agent too, in their order:
// at most maxEvents, and none after those that already take maxBytes. More says that there are others. It reads files,
// but does not hold up Append.
func (l *Log) Pending(maxEvents, maxBytes int) (events []process.Event, more bool) {
	from, segments, waiting := l.unread()
	bytes := 0
	take := func(e process.Event, size int) bool {
		if len(events) >= maxEvents || bytes >= maxBytes {
			more = true
			return false
		}
		events = append(events, e)
		bytes += size
		return true
	}
	if len(segments) > 0 {
		t, err := walk(l.cfg.Dir, from, segments, func(f readEvent) bool { return take(f.event, f.size) })
		switch {
		case short(err):
			return events, false // what comes later waits with the rest
		case len(events) == 0 && !more:
			l.advance(from, t, err) // nothing but damage: it need not be read again
		}
	}
	for _, e := range waiting {
		if more || !take(e.event, len(e.line)) {
			break
		}
	}
	return events, more
}

// unread returns where the unacknowledged begins, the segments that hold some of it, and what waits.
func (l *Log) unread() (position, []segment, []entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.position, l.files.after(l.position), append([]entry(nil), l.waiting...)
}

// Acknowledge drops events that Pending has returned: they are not returned again, nor after a restart. It is noted on
// disk but not synced: after a power failure some may be told once more.
func (l *Log) Acknowledge(events []process.Event) {
	if len(events) == 0 {
		return
	}
	type name struct {
		stream string
		seq    uint64
	}
	has := make(map[name]bool, len(events))
	for i := range events {
		has[name{events[i].Stream, events[i].Seq}] = true
	}
	from, segments, _ := l.unread()
	if len(segments) > 0 {
		t, err := walk(l.cfg.Dir, from, segments, func(f readEvent) bool {
			return has[name{
				f.event.Stream,
				f.event.Seq,
			}]
		})
		l.advance(from, t, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.waiting) > 0 && has[name{l.waiting[0].event.Stream, l.waiting[0].event.Seq}] {
		l.waiting = l.waiting[1:]
	}
	l.trim()
	l.logLost()
}

// advance moves the position over what has been looked at.
func (l *Log) advance(from position, t walkResult, err error) {
	if err != nil {
		l.cfg.Log.Error("cannot read a part of the event log", "error", err, "skipped", !short(err))
	}
	if t.damaged > 0 {
		l.cfg.Log.Warn("skipped damaged lines of the event log", "lines", t.damaged, "segment", from.segment)
	}
	l.mu.Lock()
	if l.position.before(t.end) {
		l.position = t.end
	}
	l.mu.Unlock()
	l.marks.write(t.end)
}
