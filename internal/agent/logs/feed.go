package logs

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"unicode/utf8"
)

// maxLine is the longest line in bytes; a longer one comes in parts.
const maxLine = 64 << 10

// source is text that grows at its end and may lose its begin.
type source interface {
	// read returns errGap for text that is gone, and io.EOF at the end.
	read(p []byte, at int64) (int, error)
	// first returns the offset of the first text at or after at.
	first(at int64) int64
}

// feed reads the lines of a stream, one after another.
type feed struct {
	source
	// at is where the next line begins, until where the text to read ends.
	at, until int64
	// breaks are offsets at which a line ends anyway, in order.
	breaks []int64
	// whole says that the last line counts although it has no newline yet.
	whole bool
	// most is the longest line.
	most int
	// scanned counts the bytes that were read.
	scanned int64

	buffer []byte
	err    error
}

// line is a line without its newline, or a loss. It begins at from and the next one at to.
type line struct {
	from, to int64
	text     []byte
	lost     int64
}

// next returns the next line; ok is false at the end, and if text cannot be read: then err says why.
func (f *feed) next() (l line, ok bool) {
	for {
		stop := f.stop()
		if l, ok := f.cut(stop); ok {
			return l, true
		}
		if f.at+int64(len(f.buffer)) >= stop {
			return line{}, false
		}
		switch err := f.fill(stop); {
		case err == nil:
		case errors.Is(err, errGap) && len(f.buffer) > 0:
			return f.take(len(f.buffer), 0), true
		case errors.Is(err, errGap):
			return f.skip(stop), true
		case errors.Is(err, io.EOF):
			return line{}, false
		default:
			f.err = err
			return line{}, false
		}
	}
}

// stop is where the line ends that begins at at, whatever its text is.
func (f *feed) stop() int64 {
	for len(f.breaks) > 0 && f.breaks[0] <= f.at {
		f.breaks = f.breaks[1:]
	}
	if len(f.breaks) > 0 {
		return min(f.until, f.breaks[0])
	}
	return f.until
}

// cut takes a line from the buffer, if there is a complete one.
func (f *feed) cut(stop int64) (line, bool) {
	if i := bytes.IndexByte(f.buffer, '\n'); i >= 0 && i <= f.most {
		return f.take(i, 1), true
	}
	if len(f.buffer) >= f.most {
		return f.take(wholeRunes(f.buffer[:f.most]), 0), true
	}
	ended := f.at+int64(len(f.buffer)) == stop && (f.whole || len(f.breaks) > 0 && f.breaks[0] == stop)
	if len(f.buffer) > 0 && ended {
		return f.take(len(f.buffer), 0), true
	}
	return line{}, false
}

// wholeRunes is the length of a text without the begin of a character at its end.
func wholeRunes(text []byte) int {
	for n := len(text) - 1; n > len(text)-utf8.UTFMax && n > 0; n-- {
		if utf8.RuneStart(text[n]) && !utf8.FullRune(text[n:]) {
			return n
		}
	}
	return len(text)
}

func (f *feed) take(length, newline int) line {
	l := line{from: f.at, text: f.buffer[:length:length]}
	f.buffer = f.buffer[length+newline:]
	f.at += int64(length + newline)
	l.to = f.at
	return l
}

// fill reads more text into the buffer.
func (f *feed) fill(stop int64) error {
	at := f.at + int64(len(f.buffer))
	part := make([]byte, min(stop-at, maxLine))
	n, err := f.read(part, at)
	if err != nil {
		return err
	}
	f.scanned += int64(n)
	f.buffer = append(slices.Clip(f.buffer), part[:n]...)
	return nil
}

// skip goes on after a gap, and returns it as a loss: nobody has read that text, whoever has removed it.
func (f *feed) skip(stop int64) line {
	l := line{from: f.at, to: min(f.first(f.at+1), stop)}
	l.lost = l.to - l.from
	f.at = l.to
	return l
}

// maxTail is how much of the end of a stream a search for its last lines reads, in bytes.
const maxTail = 8 << 20

// lastLines returns where the last lines begin that match, at most n, in order. It looks at the last maxTail bytes, and
// stops when it is late.
func (f *feed) lastLines(n int, match func([]byte) bool, late func() bool) []int64 {
	for window := int64(maxLine); ; window *= 4 {
		window = min(window, maxTail)
		try := feed{
			source: f.source, at: max(f.at, f.until-window), until: f.until, breaks: f.breaks, whole: true,
			most: f.most,
		}
		cutLine := try.at > f.at && !slices.Contains(f.breaks, try.at)
		var found []int64
		for l, ok := try.next(); ok && !late(); l, ok = try.next() {
			if cutLine && l.lost == 0 { // the window begins inside this line
				cutLine = false
				continue
			}
			if l.lost == 0 && match(l.text) {
				found = append(found, l.from)
			}
			if len(found) > 2*n {
				found = append(found[:0], found[len(found)-n:]...)
			}
		}
		if len(found) >= n || try.err != nil || window == maxTail || late() || f.until-window <= f.at {
			return found[max(len(found)-n, 0):]
		}
	}
}
