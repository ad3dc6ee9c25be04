package ready

import (
	"bytes"
	"errors"
	"io"
	"io/fs"

	"golang.org/x/sys/unix"

	"drover/internal/agent/trail"
	"drover/internal/pattern"
)

// Log is the state of a log file before a start, so that only later lines count.
type Log struct {
	// Path is absolute; empty if there is no log.
	Path string
	// Device, Inode and Size are those of the file; all zero when there was none.
	Device, Inode uint64
	Size          int64
}

// MarkLog records the present length of a log file, which visit opens. A file that is missing or unreadable counts
// from its beginning.
func MarkLog(path string, visit trail.Visit) Log {
	l := Log{Path: path}
	_ = visit(path, func(way *trail.Trail) error {
		st := way.Stat()
		//nolint:unconvert // the width is the architecture's
		l.Device, l.Inode, l.Size = uint64(st.Dev), st.Ino, st.Size
		return nil
	})
	return l
}

const (
	// maxRead is how much of a log one attempt reads. maxLine is the longest line that is checked completely. Both are
	// in bytes.
	maxRead = 16 << 20
	maxLine = 64 << 10
)

// tail reads the lines that were added to a log since a start, attempt by attempt.
type tail struct {
	log   Log
	visit trail.Visit
	// rest is the beginning of an unfinished line.
	rest []byte
}

var errNoFile = errors.New("not a regular file")

// find reports whether a line since the last call matches. It also checks an unfinished last line, so that a log
// without a newline at its end counts. A missing file is not an error. It reads a file that was replaced or cut from
// its beginning.
func (t *tail) find(line *pattern.Pattern) (found bool, err error) {
	err = t.visit(t.log.Path, func(way *trail.Trail) (err error) {
		found, err = t.readFile(way, line)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return found, err
}

// readFile reports whether the new lines of the log have a match. It begins anew if the file was replaced or truncated.
func (t *tail) readFile(way *trail.Trail, line *pattern.Pattern) (bool, error) {
	if !way.IsRegular() {
		return false, errNoFile
	}
	file, err := way.Open()
	if err != nil {
		return false, err
	}
	defer file.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return false, err
	}
	//nolint:unconvert // as above
	if device := uint64(st.Dev); device != t.log.Device || st.Ino != t.log.Inode || st.Size < t.log.Size {
		t.log.Device, t.log.Inode, t.log.Size, t.rest = device, st.Ino, 0, nil
	}
	return t.read(io.NewSectionReader(file, t.log.Size, maxRead), line)
}

// read reads the new lines.
func (t *tail) read(from io.Reader, line *pattern.Pattern) (bool, error) {
	buffer := make([]byte, maxLine)
	for {
		n, err := from.Read(buffer)
		t.log.Size += int64(n)
		text := append(t.rest, buffer[:n]...)
		for {
			one, after, whole := bytes.Cut(text, []byte("\n"))
			if !whole {
				break
			}
			if line.Match(bytes.TrimRight(one, "\r")) {
				return true, nil
			}
			text = after
		}
		t.rest = bytes.Clone(text[max(0, len(text)-maxLine):])
		switch {
		case errors.Is(err, io.EOF):
			return len(t.rest) > 0 && line.Match(bytes.TrimRight(t.rest, "\r")), nil
		case err != nil:
			return false, err
		}
	}
}
