package logs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"drover/internal/process"
)

// spare is the second name of the file of a stream. A file without any name gets none again (linkat(2)).
func (s *stream) spare() string { return filepath.Join(s.log.dir, "."+s.name) }

// aside is where a directory goes that takes the name of a file and is not empty. Sweep removes it.
func (s *stream) aside() string { return s.path + ".aside" }

// clear takes directories out of the places of the two names. A later one replaces the one that was moved aside.
func (s *stream) clear() {
	for _, name := range []string{s.path, s.spare()} {
		if info, err := os.Lstat(name); err != nil || !info.IsDir() || os.Remove(name) == nil {
			continue
		}
		if err := os.RemoveAll(s.aside()); err == nil {
			_ = os.Rename(name, s.aside()) // if it is a mount point, the file counts as removed
		}
	}
}

// restore gives a file its first name back by means of the second one, and reports whether it could.
func (s *stream) restore() bool {
	again := s.spare() + temporary
	_ = os.Remove(again)
	return os.Link(s.spare(), again) == nil && os.Rename(again, s.path) == nil
}

func regular(st *unix.Stat_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFREG }

// named reports whether a file has its two names, or is on a file system without links.
func (s *stream) named(st *unix.Stat_t) bool { return st.Nlink > 1 || s.oneName.Load() }

// secure makes sure that a file has its two names. A file that was removed, moved or replaced gets its name back. It
// reports false if both names are gone, or the log itself.
func (store *Store) secure(s *stream) bool {
	s.log.names.Lock()
	defer s.log.names.Unlock()
	var st unix.Stat_t
	err := unix.Stat(s.path, &st)
	file := err == nil && regular(&st)
	if file && s.named(&st) {
		return true
	}
	s.clear()
	if file {
		err = os.Link(s.path, s.spare())
		if err == nil {
			return true
		}
		if !errors.Is(err, fs.ErrExist) {
			s.oneName.Store(true) // the file system has no links
			return true
		}
	}
	if s.restore() {
		store.log.Warn("a log file was removed or replaced while drover keeps it: it has its name back", "log", s.path)
		return true
	}
	store.miss(s)
	return false
}

// miss notes that the file of a stream is gone. A process that still writes to it writes to nobody, and the next run
// begins a file. It does nothing before the first run. The caller holds l.names.
func (store *Store) miss(s *stream) {
	l := s.log
	l.mu.Lock()
	err := l.know()
	fresh, end := err == nil && l.run == "", max(s.size.Load(), l.marked[s.index])
	l.mu.Unlock()
	if err != nil {
		store.log.Warn("cannot read the marks of a log", "log", s.path, "error", err)
	}
	if fresh || store.of(filepath.Base(l.dir)) != l || !s.missing.CompareAndSwap(0, time.Now().UnixMilli()) {
		return // there was no file, or the log was removed with its process
	}
	store.log.Warn("a log file was removed while drover keeps it: a process that writes to it does so unseen and unbounded "+
		"until its restart", "log", s.path)
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		store.log.Warn("cannot create log", "log", l.dir, "error", err)
	}
	from := s.freed.Load()
	if all := segmentsOf(l.dir, s.name); len(all) > 0 {
		from = max(from, all[len(all)-1].to)
	}
	store.markLoss(s, from, end)
	store.rebase(s, end)
}

// open opens the file of a stream for a new run.
func (store *Store) open(s *stream) (*os.File, error) {
	store.secure(s)
	s.log.names.Lock()
	file, err := os.OpenFile(s.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err == nil {
		s.missing.Store(0)
	}
	s.log.names.Unlock()
	if err != nil {
		return nil, err
	}
	store.secure(s)
	return file, nil
}

// Removed returns since when drover does not see what a process writes, because somebody has removed its log files, in
// Unix milliseconds; 0 if they are there.
func (store *Store) Removed(id process.ID) (since int64) {
	l := store.of(process.Hash(id))
	if l == nil {
		return 0
	}
	for _, s := range l.streams {
		since = max(since, s.missing.Load())
	}
	return since
}
