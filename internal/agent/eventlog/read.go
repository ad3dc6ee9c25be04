package eventlog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"syscall"
)

// walkResult is the result of a walk.
type walkResult struct {
	damaged int // lines that are not events
	// end is the position up to which everything was read.
	end position
}

// walk reads the events after a position, oldest first, until the end or until visit returns false. The position stays
// before the event for which visit returned false. A line is valid until visit returns, and includes its newline. walk
// skips damaged lines, and the half line that a power failure can leave at the end. It skips an unreadable segment and
// returns the error. But if the agent is short of descriptors or memory, it stops there.
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

// short reports whether the failure is a lack of descriptors or memory, so that a retry may succeed.
func short(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

// segment walks one segment; false means that visit returned false.
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
				return true, ignoreEOF(err)
			}
		case err != nil:
			return true, ignoreEOF(err)
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

// ignoreEOF turns the end of the file into success.
func ignoreEOF(err error) error {
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

// name matches the beginning of an event's line.
var name = regexp.MustCompile(`^\{"stream":"\w+","seq":[1-9]`)

// isEvent reports whether a line is an event. An event needs a stream and a number.
func isEvent(line []byte) bool { return name.Match(line) && json.Valid(line) }

// Pending returns the lines of the oldest unacknowledged events in order, including those of earlier agents: at most
// maxEvents, and none after the line that reaches maxBytes. more says that there are others. It reads files, but does
// not block Append.
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
			return events, false // later events must wait too
		case l.restore(err):
			return l.Pending(maxEvents, maxBytes)
		case len(events) == 0 && !more:
			l.advance(from, t, err) // only damage: do not read it again
		}
	}
	for _, line := range waiting {
		if more || !take(line) {
			break
		}
	}
	return events, more
}

// restore writes the events of the open segment again if a walk has failed because somebody has removed the segment.
// The events that the server has are sent again, and it drops them.
func (l *Log) restore(failure error) (restored bool) {
	if !errors.Is(failure, fs.ErrNotExist) {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	text, removed := l.files.removed(l.position)
	if !removed {
		return false
	}
	l.cfg.Log.Warn("somebody has removed events: writing them again", "directory", l.cfg.Dir)
	lines := slices.Collect(bytes.Lines(text))
	l.queue = slices.Concat(lines, l.queue)
	l.drain()
	l.marks.reopen()
	return true
}

// unread returns the position, the segments with unacknowledged data, and the waiting lines.
func (l *Log) unread() (position, []segment, [][]byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.position, l.files.after(l.position), slices.Clone(l.queue)
}

// Acknowledge drops events that Pending has returned: Pending does not return them again, also after a restart. The
// position is written to disk but not synced: after a power failure some events may be sent again.
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
		if t, err := walk(l.cfg.Dir, from, segments, has); !l.restore(err) {
			l.advance(from, t, err)
		}
	}
	var latest last
	_ = json.Unmarshal(events[len(events)-1], &latest) // Pending has returned it
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acknowledged = latest
	for len(l.queue) > 0 && has(l.queue[0]) {
		l.queue = l.queue[1:]
	}
	l.trim()
	l.logLost()
}

// advance moves the position to the end of a walk.
func (l *Log) advance(from position, t walkResult, err error) {
	if err != nil {
		l.cfg.Log.Error("cannot read a part of the event log", "error", err, "skipped", !short(err))
	}
	if t.damaged > 0 {
		l.cfg.Log.Warn("skipped damaged lines of the event log", "lines", t.damaged, "segment", from.segment)
		l.cfg.Lost()
	}
	l.mu.Lock()
	if l.position.before(t.end) {
		l.position = t.end
	}
	l.mu.Unlock()
	l.marks.write(t.end)
}
