package logs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// reader reads one stream at any offset, from the rotated files and from the file that is written. It is used by one
// goroutine.
type reader struct {
	s        *stream
	segments []segment
	marks    []mark
	live     *os.File // nil if there is no file
	// packed is the text of the last member that was read, and memberFrom its offset.
	packed     []byte
	memberFrom int64
}

// errGap says that there is no text at an offset.
var errGap = errors.New("no text is left here")

func (s *stream) reader(marks []mark) (*reader, error) {
	live, err := os.Open(s.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot open log: %w", err)
	}
	return &reader{s: s, live: live, segments: segmentsOf(s.log.dir, s.name), marks: marks}, nil
}

func (r *reader) close() {
	if r.live != nil {
		_ = r.live.Close()
	}
}

// end is the present length of the stream.
func (r *reader) end() int64 {
	if r.live == nil {
		return r.s.base.Load()
	}
	for {
		base := r.s.base.Load()
		info, err := r.live.Stat()
		if err != nil {
			return base
		}
		if r.s.base.Load() == base {
			return max(base+info.Size(), r.s.freed.Load())
		}
	}
}

// first returns the offset of the first text at or after at.
func (r *reader) first(at int64) int64 {
	best := max(at, r.s.freed.Load())
	r.segments = segmentsOf(r.s.log.dir, r.s.name) // after freed was read: they have all older text
	for _, g := range r.segments {
		if g.to > at {
			best = min(best, max(at, g.from))
		}
	}
	return best
}

// begin returns where reading begins: at the first text from at on, or at the loss right before it.
func (r *reader) begin(at int64) int64 {
	first := r.first(at)
	for i := len(r.marks) - 1; i >= 0; i-- {
		if m := &r.marks[i]; m.kind == markLost && m.stream == r.s.index && m.from < first && m.to >= first {
			first = max(m.from, at)
		}
	}
	return first
}

// read implements source. Text that a rotation has moved meanwhile is in a new file.
func (r *reader) read(p []byte, at int64) (int, error) {
	n, err := r.readKnown(p, at)
	if errors.Is(err, errGap) {
		r.segments = segmentsOf(r.s.log.dir, r.s.name)
		n, err = r.readKnown(p, at)
	}
	return n, err
}

// readKnown reads from the files that are known.
func (r *reader) readKnown(p []byte, at int64) (int, error) {
	if n := r.fromPacked(p, at); n > 0 {
		return n, nil
	}
	for i := range r.segments {
		g := &r.segments[i]
		if at < g.from || at >= g.to {
			continue
		}
		n, err := r.fromSegment(g, p, at)
		if errors.Is(err, fs.ErrNotExist) {
			return 0, errGap // it was removed meanwhile
		}
		return n, err
	}
	return r.fromLive(p, at)
}

func (r *reader) fromPacked(p []byte, at int64) int {
	if at < r.memberFrom || at >= r.memberFrom+int64(len(r.packed)) {
		return 0
	}
	return copy(p, r.packed[at-r.memberFrom:])
}

func (r *reader) fromSegment(g *segment, p []byte, at int64) (int, error) {
	if !g.packed {
		return g.read(p, at)
	}
	file, err := os.Open(g.path)
	if err != nil {
		return 0, err
	}
	defer file.Close() //nolint:errcheck // nothing was written
	if r.packed, r.memberFrom, err = g.member(file, at); err != nil {
		r.packed = nil
		return 0, fmt.Errorf("cannot read rotated log: %w", err)
	}
	return r.fromPacked(p, at), nil
}

func (r *reader) fromLive(p []byte, at int64) (int, error) {
	base := r.s.base.Load()
	switch {
	case at < r.s.freed.Load():
		return 0, errGap
	case r.live == nil:
		return 0, io.EOF
	}
	n, err := r.live.ReadAt(p, at-base)
	if r.s.freed.Load() > at || r.s.base.Load() != base {
		return 0, errGap // it was cut meanwhile: a rotated file may have the text now
	}
	if n > 0 || errors.Is(err, io.EOF) {
		err = nil
	}
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

// lostBytes is how many of the bytes from from to to are noted as lost.
func (r *reader) lostBytes(from, to int64) (n int64) {
	for _, m := range r.marks {
		if m.kind == markLost && m.stream == r.s.index {
			n += max(min(to, m.to)-max(from, m.from), 0)
		}
	}
	return n
}

// ends returns the first and the last bytes of a part of the stream, and the number of bytes between them.
func (r *reader) ends(from, to int64, keep int64) (head, tail []byte, between int64) {
	begin := r.first(from)
	if begin >= to {
		return nil, nil, r.lostBytes(from, to)
	}
	between = r.lostBytes(from, begin)
	if to-begin <= 2*keep {
		text, gaps := r.all(begin, to)
		if gaps == 0 && between == 0 {
			return text, nil, 0
		}
		cut := min(int64(len(text)), keep)
		return text[:cut], text[cut:], between + gaps
	}
	head, gaps := r.all(begin, begin+keep)
	tail, more := r.all(to-keep, to)
	return head, tail, between + gaps + more + max(to-keep-begin-keep, 0)
}

// all returns the text of a part of the stream that is there, and how many bytes of it are not.
func (r *reader) all(from, to int64) (text []byte, missing int64) {
	for at := from; at < to; {
		part := make([]byte, to-at)
		n, err := r.read(part, at)
		switch {
		case err == nil:
			text = append(text, part[:n]...)
			at += int64(n)
		case errors.Is(err, errGap):
			next := min(r.first(at+1), to)
			missing += next - at
			at = next
		default:
			return text, missing + to - at
		}
	}
	return text, missing
}
