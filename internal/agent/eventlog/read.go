package eventlog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"regexp"
	"slices"
	"syscall"
)

// walkResult is what came of a walk.
type walkResult struct {
	damaged int // lines that are no events
	// end is how far everything has been looked at.
	end position
}

// walk reads the events after a position, oldest first, until there are no more or visit says that it is enough; the
// one that it says it of is not passed. A line, which has its end, is valid until visit returns. What is damaged is
// skipped, and so is the half line that a power failure may leave at the end. A segment that cannot be read is passed
// over, and is the error, unless it is the agent that is short of something: then nothing behind it is read now.
func walk(dir string, from position, segments []segment, visit func(line []byte) bool) (t walkResult, err error) {
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
func (t *walkResult) segment(dir string, at position, s segment, visit func(line []byte) bool) (bool, error) {
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
			if !isEvent(line) {
				t.damaged++
			} else if !visit(line) {
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

// name is what the line of an event begins with.
var name = regexp.MustCompile(`^\{"stream":"\w+","seq":[1-9]`)

// isEvent reports whether a line is an event; an event without a name is none.
func isEvent(line []byte) bool { return name.Match(line) && json.Valid(line) }

// Pending returns the lines of the oldest events that are not acknowledged, those of earlier lives of the agent too, in
// their order: at most maxEvents, and none after those that already take maxBytes. More says that there are others. It
// reads files, but does not hold up Append.
func (l *Log) Pending(maxEvents, maxBytes int) (events [][]byte, more bool) {
	from, segments, waiting := l.unread()
	size := 0
	take := func(line []byte) bool {
		if len(events) >= maxEvents || size >= maxBytes {
			more = true
			return false
		}
		events = append(events, bytes.Clone(line[:len(line)-1]))
		size += len(line)
		return true
	}
	if len(segments) > 0 {
		t, err := walk(l.cfg.Dir, from, segments, take)
		switch {
		case short(err):
			return events, false // what comes later waits with the rest
		case len(events) == 0 && !more:
			l.advance(from, t, err) // nothing but damage: it need not be read again
		}
	}
	for _, line := range waiting {
		if more || !take(line) {
			break
		}
	}
	return events, more
}

// unread returns where the unacknowledged begins, the segments that hold some of it, and what waits.
func (l *Log) unread() (position, []segment, [][]byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.position, l.files.after(l.position), slices.Clone(l.waiting)
}

// Acknowledge drops events that Pending has returned: they are not returned again, nor after a restart. It is noted on
// disk but not synced: after a power failure some may be told once more.
func (l *Log) Acknowledge(events [][]byte) {
	if len(events) == 0 {
		return
	}
	told := make(map[string]bool, len(events))
	for _, e := range events {
		told[string(e)] = true
	}
	has := func(line []byte) bool { return told[string(line[:len(line)-1])] }
	from, segments, _ := l.unread()
	if len(segments) > 0 {
		t, err := walk(l.cfg.Dir, from, segments, has)
		l.advance(from, t, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.waiting) > 0 && has(l.waiting[0]) {
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
