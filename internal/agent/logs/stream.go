package logs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// block is a multiple of the block size of file systems: cuts are at multiples of it.
	block = 4 << 10
	// longestFile is how long a file may become, far below the largest file of ext4 (16 TiB).
	longestFile = 4 << 40
	// maxZeros is how much of the zeros before the text of a file a new agent skips.
	maxZeros = 64 << 10
)

// stream is one file that a process writes to.
type stream struct {
	log   *processLog
	index int
	name  string
	path  string
	// base is the offset of the first byte of the file, freed the offset of the first byte that still counts, size the
	// length of the stream at the last look.
	base, freed, size atomic.Int64
	// room is how much more than usual the file may hold: text waits for the rotation that no agent did. It is 0 once
	// the rotation has caught up or failed.
	room atomic.Int64
	// noHoles says that the file system cannot punch holes.
	noHoles atomic.Bool
	// rotated says that the file was rotated whole and waits to be truncated.
	rotated atomic.Bool
	// oneName says that the file system has no links, missing since when the file is gone, in Unix milliseconds.
	oneName atomic.Bool
	missing atomic.Int64
	// writing is held while the agent moves text of pipes to the end of the file, or truncates it.
	writing sync.Mutex

	// The watching thread alone uses these. stamped is the length in the last mark of a time; grown and marked are the
	// times of the last growth and of that mark.
	stamped       int64
	grown, marked time.Time
	// looked is the time of the last look, due that of the next one.
	looked, due time.Time
	active      bool

	queued bool // to rotate; the lock of the Store protects it
}

// resume finds where the text of a file begins that an earlier agent has cut. A rotated file counts from the moment it
// has its name, so text below its end is freed again.
func (s *stream) resume() error {
	s.clear()
	file, err := os.OpenFile(s.path, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) && s.restore() {
		file, err = os.OpenFile(s.path, os.O_RDWR|unix.O_NOFOLLOW, 0)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot open log: %w", err)
	}
	defer file.Close() //nolint:errcheck // nothing was written
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("cannot open log: %w", err)
	}
	base := s.base.Load()
	begin, err := unix.Seek(int(file.Fd()), 0, unix.SEEK_DATA) //nolint:gosec // descriptors are small
	switch {
	case errors.Is(err, unix.ENXIO):
		begin = info.Size()
	case err != nil:
		begin = 0 // the file system has no holes
	}
	first := base + begin
	if begin > 0 {
		first = base + begin + zeros(file, begin)
	}
	if all := segmentsOf(s.log.dir, s.name); len(all) > 0 {
		if last := all[len(all)-1].to; last > first && last <= base+info.Size() {
			first = last
			_ = punch(file, 0, last-base) // without holes the reader leaves it out
		}
	}
	s.freed.Store(first)
	s.size.Store(base + info.Size())
	return nil
}

// zeros counts the zeros at the begin of the text: a hole frees whole blocks only.
func zeros(file *os.File, at int64) int64 {
	buffer := make([]byte, maxZeros)
	n, _ := file.ReadAt(buffer, at)
	for i, c := range buffer[:n] {
		if c != 0 {
			return int64(i)
		}
	}
	return 0
}

// punch frees a part of a file. The rest keeps its place.
func punch(file *os.File, from, to int64) error {
	from -= from % block // the block that the last cut left in part
	if to <= from {
		return nil
	}
	//nolint:gosec // descriptors are small
	err := unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, from, to-from)
	return os.NewSyscallError("fallocate", err)
}

// diskSpace is the disk space of a stream, in bytes. A file system may have allocated as much again ahead of the
// writer. A process may also take space without writing.
func (s *stream) diskSpace(st *unix.Stat_t) int64 {
	space := st.Blocks * 512
	if !s.noHoles.Load() {
		space /= 2
	}
	return max(s.size.Load()-s.freed.Load(), space)
}

// keepWithin looks at a file, and cuts it if it holds too much.
func (store *Store) keepWithin(s *stream, st *unix.Stat_t) {
	limits := s.log.limits()
	if now := s.base.Load() + st.Size; now < s.size.Load() { // the process has truncated it
		store.emptied(s)
		_ = unix.Stat(s.path, st) // it has a line more; if it is gone, the next look finds that
	}
	s.size.Store(s.base.Load() + st.Size)
	room := max(s.room.Load(), 0)
	held, most := s.diskSpace(st), 2*limits.MaxSize+room
	whole := s.whole(st.Size, limits)
	switch {
	case whole && s.rotated.Load():
		store.truncate(s)
	case st.Size > limits.Longest/4*3, s.noHoles.Load() && held > most:
		store.truncate(s)
	case held > most:
		store.drop(s, s.size.Load()-limits.MaxSize-room)
		if unix.Stat(s.path, st) == nil && s.diskSpace(st) > 3*limits.MaxSize+room { // space that no text takes
			store.truncate(s)
		}
	case held > limits.MaxSize || whole && st.Size > limits.MaxSize:
		store.rotate(s)
	default:
		s.room.Store(0)
	}
}

// whole reports whether a file is rotated to its end and truncated: it cannot be cut, or it becomes too long.
func (s *stream) whole(length int64, limits bound) bool {
	return s.noHoles.Load() || length > limits.Longest/2
}

// drop frees the text before to, and notes it as lost. A rotation under way notices: it keeps what it has read.
func (store *Store) drop(s *stream, to int64) {
	base, from := s.base.Load(), s.freed.Load()
	to -= (to - base) % block
	if to <= from {
		return
	}
	store.markLoss(s, from, to)
	s.freed.Store(to)
	if err := store.punchFile(s, from-base, to-base); err != nil {
		store.log.Warn("cannot cut log", "log", s.path, "error", err)
	}
}

// punchFile frees a part of the file of a stream, if the file system can do that.
func (store *Store) punchFile(s *stream, from, to int64) error {
	file, err := os.OpenFile(s.path, os.O_WRONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // nothing was written
	err = store.punch(file, from, to)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		s.noHoles.Store(true)
		return nil
	}
	return err
}

// truncate empties a file. A write at that very moment is lost, too, and not counted.
func (store *Store) truncate(s *stream) {
	if !s.writing.TryLock() {
		return // the next look truncates it: text arrives, or its process holds up the pipe
	}
	defer s.writing.Unlock()
	end := s.base.Load()
	if info, err := os.Stat(s.path); err == nil {
		end += info.Size()
	}
	store.markLoss(s, s.freed.Load(), end)
	store.rebase(s, end)
	if err := os.Truncate(s.path, 0); err != nil {
		store.log.Warn("cannot truncate log", "log", s.path, "error", err)
	}
}

// rebase stores that the file begins at an offset, before it does: the next agent must not take new text for old.
func (store *Store) rebase(s *stream, at int64) {
	l := s.log
	l.mu.Lock()
	defer l.mu.Unlock()
	s.base.Store(at)
	s.freed.Store(at)
	s.size.Store(at)
	s.rotated.Store(false)
	l.bound.Base[s.index] = at
	if err := l.write(); err != nil {
		store.log.Warn("cannot store the bound of a log", "log", s.path, "error", err)
	}
}

// markLoss notes that text is gone that nobody has rotated.
func (store *Store) markLoss(s *stream, from, to int64) {
	if to <= from {
		return
	}
	m := mark{kind: markLost, at: time.Now().UnixMilli(), stream: s.index, from: from, to: to}
	if err := s.log.addMark(&m); err != nil {
		store.log.Warn("cannot note a loss", "log", s.path, "bytes", to-from, "error", err)
	}
}

// addMark adds a mark to the file of marks.
func (l *processLog) addMark(m *mark) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.addMarkLocked(m)
}

// addMarkLocked is addMark for a caller that holds the lock. The lengths in marks never fall.
func (l *processLog) addMarkLocked(m *mark) error {
	if m.kind == markTime || m.kind == markRun {
		for i := range m.ends {
			m.ends[i] = max(m.ends[i], l.marked[i])
		}
		l.marked = m.ends
	}
	n, err := appendMark(l.dir, m)
	l.marks += int64(n)
	return err
}

// know reads which run was the last one; the caller holds the lock.
func (l *processLog) know() error {
	if l.known {
		return nil
	}
	all, err := readMarks(l.dir)
	if err != nil {
		return err
	}
	for i := range all {
		if all[i].kind != markLost {
			l.marked = all[i].ends
		}
	}
	if n := lastRun(all); n >= 0 {
		l.number, l.run = all[n].number, all[n].run
	}
	l.known, l.marks = true, int64(encodedSize(all))
	return nil
}

// begin notes that a run begins at the present ends of the files.
func (l *processLog) begin(run string, now time.Time) error {
	ends := l.ends()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.know(); err != nil {
		return err
	}
	m := mark{kind: markRun, at: now.UnixMilli(), ends: ends, number: l.number + 1, run: run}
	if err := l.addMarkLocked(&m); err != nil {
		return err
	}
	l.number, l.run = m.number, run
	if l.marks > maxMarks {
		return l.thin()
	}
	return nil
}

// ends are the present lengths of the streams.
func (l *processLog) ends() (ends [streams]int64) {
	for i, s := range l.streams {
		ends[i] = s.base.Load()
		if info, err := os.Stat(s.path); err == nil {
			ends[i] += info.Size()
		}
	}
	return ends
}

// discard removes the mark of the last run, if it has written nothing.
func (l *processLog) discard(run string) error {
	ends := l.ends()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.know(); err != nil || l.run != run || l.marked != ends {
		return err
	}
	all, err := readMarks(l.dir)
	if err != nil {
		return err
	}
	if n := lastRun(all); n < 0 || all[n].run != run || all[n].ends != ends {
		return nil
	}
	l.known = false
	return l.addMarkLocked(&mark{kind: markUndo, run: run})
}

// thin drops marks that no longer count; the caller holds the lock.
func (l *processLog) thin() error {
	var kept [streams]int64
	for i, s := range l.streams {
		kept[i] = s.freed.Load()
		if all := segmentsOf(l.dir, s.name); len(all) > 0 {
			kept[i] = min(kept[i], all[0].from)
		}
	}
	if err := thin(l.dir, kept); err != nil {
		return err
	}
	info, err := os.Stat(filepath.Join(l.dir, marksFile))
	if err != nil {
		return fmt.Errorf("cannot shorten the marks of a log: %w", err)
	}
	l.marks = info.Size()
	return nil
}
