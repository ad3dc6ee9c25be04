package eventlog

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"drover/internal/durable"
)

// limits bound the log. segment is the size of one file in bytes; the other sizes are for all files together.
type limits struct {
	segment int64
	// Above acknowledged, the log removes segments that the server has, before they reach age. Above all, it removes
	// other segments too.
	acknowledged int64
	all          int64
	age          time.Duration
}

func standard(age time.Duration) limits {
	return limits{segment: 1 << 20, acknowledged: 32 << 20, all: 64 << 20, age: cmp.Or(age, 7*24*time.Hour)}
}

// file is an open segment.
type file interface {
	io.ReaderAt
	Write(line []byte) (int, error)
	Truncate(size int64) error
	Sync() error
	Close() error
}

func create(path string) (file, error) {
	return durable.Open(path, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
}

// segment is one file. It has events of one stream, one line of JSON each. Later streams never write to it.
type segment struct {
	number uint64
	size   int64
	// changed is the time of the last write.
	changed time.Time
}

// The name of a file has so many digits: the order of the names is that of the numbers.
const (
	digits    = 20
	extension = ".jsonl"
)

func (s segment) path(dir string) string {
	return filepath.Join(dir, fmt.Sprintf("%0*d%s", digits, s.number, extension))
}

// block is the smallest disk space of a file, in bytes.
const block = 4 << 10

func (s segment) room() int64 { return (s.size + block - 1) / block * block }

// list returns the segments in a directory, oldest first.
func list(dir string) ([]segment, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []segment
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), extension)
		number, err := strconv.ParseUint(name, 10, 64)
		if !ok || err != nil || !e.Type().IsRegular() || number == 0 || number > 1<<62 || len(name) != digits {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		all = append(all, segment{number: number, size: info.Size(), changed: info.ModTime()})
	}
	return all, nil
}

// files are the segments of a log. The lock of the log protects them.
type files struct {
	dir    string
	limits limits
	create func(path string) (file, error)
	all    []segment // oldest first
	next   uint64    // number of the next segment
	// open is the last segment, if this stream writes to it. full are earlier segments that still need a sync and a
	// close.
	open file
	full []file
	// written says that open needs a sync, created that the directory needs one.
	written, created bool
}

// write appends a line to the open segment, or to a new one.
func (f *files) write(line []byte, now time.Time) (rotated bool, err error) {
	if f.open == nil || f.all[len(f.all)-1].size+int64(len(line)) > f.limits.segment {
		if err := f.rotate(now); err != nil {
			return false, err
		}
		rotated = true
	}
	last := &f.all[len(f.all)-1]
	n, err := f.open.Write(line)
	if err != nil {
		// A whole line must not follow half a line.
		if n > 0 && f.open.Truncate(last.size) != nil {
			f.retire()
		}
		return rotated, err
	}
	last.size += int64(n)
	last.changed = now
	f.written = true
	return rotated, nil
}

func (f *files) rotate(now time.Time) error {
	s := segment{number: f.next, changed: now}
	open, err := f.create(s.path(f.dir))
	if err != nil {
		return err
	}
	f.retire()
	f.open, f.created = open, true
	f.all = append(f.all, s)
	f.next++
	return nil
}

// retire moves the open segment to full.
func (f *files) retire() {
	if f.open != nil {
		f.full = append(f.full, f.open)
	}
	f.open, f.written = nil, false
}

// removed reports whether somebody has removed the open segment, or its directory. It takes such a segment off the list
// and returns what was written to it after an offset. The next line makes another segment.
func (f *files) removed(p position) (text []byte, removed bool) {
	if f.open == nil {
		return nil, false
	}
	last := f.all[len(f.all)-1]
	if _, err := os.Lstat(last.path(f.dir)); !errors.Is(err, fs.ErrNotExist) {
		return nil, false
	}
	from := int64(0)
	if p.segment == last.number {
		from = p.offset
	}
	text = make([]byte, last.size-from)
	n, _ := f.open.ReadAt(text, from) // whole lines: the rest is lost
	f.retire()
	f.all = f.all[:len(f.all)-1]
	return text[:n], true
}

// unsynced returns what needs a sync, and resets that. The caller must close the full segments.
func (f *files) unsynced() (full []file, open file, created bool) {
	full, created = f.full, f.created
	if f.written {
		open = f.open
	}
	f.full, f.written, f.created = nil, false, false
	return full, open, created
}

func (f *files) close() error {
	f.retire()
	var errs []error
	for _, open := range f.full {
		errs = append(errs, open.Close())
	}
	f.full = nil
	return errors.Join(errs...)
}

// after returns the segments with data after a position.
func (f *files) after(p position) []segment {
	for i, s := range f.all {
		if !p.passed(s) {
			return slices.Clone(f.all[i:])
		}
	}
	return nil
}

// trim removes the oldest segments. It removes a segment that the server has if the segment is old or the log is above
// the acknowledged limit. It removes any segment if the log is above all. It returns how many unacknowledged events it
// removed.
func (f *files) trim(p position, now time.Time) (lost int, err error) {
	var total int64
	for _, s := range f.all {
		total += s.room()
	}
	for len(f.all) > 0 {
		s := f.all[0]
		has := p.passed(s)
		removable := has && (total > f.limits.acknowledged || now.Sub(s.changed) > f.limits.age) || total > f.limits.all
		if !removable || f.open != nil && len(f.all) == 1 {
			break
		}
		unread := 0
		if !has { // unreadable events do not count
			_, _ = walk(f.dir, p, []segment{s}, func(line []byte) bool { unread += weight(line); return true })
		}
		if err := os.Remove(s.path(f.dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return lost, err
		}
		lost += unread
		f.all = f.all[1:]
		total -= s.room()
	}
	return lost, nil
}
