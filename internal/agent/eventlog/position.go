package eventlog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// position is a place in the log: a segment and an offset in it.
type position struct {
	segment uint64
	offset  int64
}

func (p position) before(q position) bool {
	return p.segment < q.segment || p.segment == q.segment && p.offset < q.offset
}

// passed reports whether a segment lies before the position.
func (p position) passed(s segment) bool {
	return s.number < p.segment || s.number == p.segment && s.size <= p.offset
}

// positionFile stores a position in a file with one line. The line has a fixed length, so that one write replaces it.
type positionFile struct {
	path    string
	file    *os.File // nil if it could not be opened
	log     *slog.Logger
	failing bool
}

const (
	markForm = "%020d %020d\n"
	markSize = 42
)

// openMarks opens the file. Without the file the log works, and sends its events again after a restart.
func openMarks(dir string, log *slog.Logger) *positionFile {
	m := &positionFile{path: filepath.Join(dir, "acknowledged"), log: log}
	file, err := os.OpenFile(m.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		m.logFailure(err)
		return m
	}
	m.file = file
	return m
}

// read returns the stored position. If the position is unreadable, the agent sends all events again, and the server
// drops the duplicates.
func (f *positionFile) read() position {
	if f.file == nil {
		return position{}
	}
	data, err := io.ReadAll(io.NewSectionReader(f.file, 0, markSize))
	if err != nil {
		f.logFailure(err)
		return position{}
	}
	if len(data) == 0 {
		return position{}
	}
	p, ok := parseMark(string(data))
	if !ok {
		f.log.Warn("record of acknowledged events is damaged, resending all events", "path", f.path)
		return position{}
	}
	return p
}

// parseMark accepts only the exact format of write.
func parseMark(line string) (position, bool) {
	first, second, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
	segment, errSegment := strconv.ParseUint(first, 10, 64)
	offset, errOffset := strconv.ParseInt(second, 10, 64)
	if errSegment != nil || errOffset != nil || segment > 1<<62 || offset < 0 ||
		line != fmt.Sprintf(markForm, segment, offset) {
		return position{}, false
	}
	return position{segment: segment, offset: offset}, true
}

func (f *positionFile) write(p position) {
	if f.file == nil {
		return
	}
	if _, err := f.file.WriteAt(fmt.Appendf(nil, markForm, p.segment, p.offset), 0); err != nil {
		f.logFailure(err)
	}
}

// reopen makes the file again after somebody has removed it.
func (f *positionFile) reopen() {
	_ = f.close() // nothing that was written to it counts any more
	*f = *openMarks(filepath.Dir(f.path), f.log)
}

// logFailure logs the first failure.
func (f *positionFile) logFailure(err error) {
	if !f.failing {
		f.log.Error("cannot store acknowledged events", "error", err)
	}
	f.failing = true
}

func (f *positionFile) close() error {
	if f.file == nil {
		return nil
	}
	if err := f.file.Close(); err != nil && !errors.Is(err, fs.ErrClosed) {
		return err
	}
	return nil
}
