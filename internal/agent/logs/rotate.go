package logs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// background is the nice value of the thread that rotates: the compression takes no processor from the processes.
const background = 10

// rotate has the oldest text of a stream rotated, on another thread.
func (store *Store) rotate(s *stream) {
	store.mu.Lock()
	defer store.mu.Unlock()
	if s.queued || store.stopping.Load() || !store.running {
		return // before Run only cuts count; Run looks at all again
	}
	s.queued = true
	store.queue = append(store.queue, s)
	if !store.working {
		store.working = true
		store.rotating.Go(store.work)
	}
}

// work rotates until nothing waits.
func (store *Store) work() {
	runtime.LockOSThread() // the thread ends with its goroutine, and so does its priority
	_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), background)
	for {
		store.mu.Lock()
		if len(store.queue) == 0 || store.stopping.Load() {
			store.working = false
			store.queue = nil
			store.mu.Unlock()
			return
		}
		s := store.queue[0]
		store.queue = store.queue[1:]
		store.mu.Unlock()
		err, cut := store.rotateAll(s), false
		if err != nil {
			store.log.Warn("cannot rotate log", "log", s.path, "error", err)
			cut = s.room.Swap(0) > 0 || s.size.Load()-s.freed.Load() > 2*s.log.limits().MaxSize
		}
		store.mu.Lock()
		s.queued = false
		if (err == nil || cut) && store.events != nil {
			// The watching thread truncates what was rotated whole, and cuts what could not be rotated: by a new agent,
			// or on a full disk after its bound was lowered. The writer may never write again.
			store.woken = append(store.woken, s)
			store.events.Wake()
		}
		store.mu.Unlock()
	}
}

// rotateAll rotates until the file is within its bound.
func (store *Store) rotateAll(s *stream) error {
	for !store.stopping.Load() {
		info, err := os.Stat(s.path)
		if err != nil {
			return fmt.Errorf("cannot look at log: %w", err)
		}
		limits := s.log.limits()
		held := s.base.Load() + info.Size() - s.freed.Load()
		whole := s.whole(info.Size(), limits)
		if held <= limits.MaxSize && (!whole || held == 0 || s.rotated.Load()) {
			return nil
		}
		most := limits.MaxSize
		if whole {
			most += held // to the end of the file
		}
		if err := store.rotateOnce(s, most, whole, limits); err != nil {
			if errors.Is(err, unix.ENOSPC) && s.removeOldest() {
				continue // newer text counts more
			}
			return err
		}
	}
	return nil
}

// rotateOnce moves the oldest text to a rotated file. It frees the text after the rotated file has its name: whenever
// the agent dies, each byte is in one of them.
func (store *Store) rotateOnce(s *stream, most int64, whole bool, limits bound) error {
	base, from := s.base.Load(), s.freed.Load()
	path := filepath.Join(s.log.dir, s.name+temporary)
	to, err := s.copyText(path, base, from, most, limits.Plain)
	if err != nil || store.stopping.Load() || to == from {
		_ = os.Remove(path)
		return err
	}
	err = os.Rename(path, filepath.Join(s.log.dir, segmentName(s.name, from, to, !limits.Plain)))
	if err != nil {
		_ = os.Remove(path)
		return fmt.Errorf("cannot name rotated log: %w", err)
	}
	s.room.Add(from - to) // the rotated file takes it
	store.prune(s)
	return store.free(s, base, from, to, whole)
}

// copyText copies the oldest text to a file, at most as much as a rotated file may have, to the end of a line. It stops
// where the watching thread has dropped text meanwhile.
func (s *stream) copyText(path string, base, from, most int64, plain bool) (to int64, err error) {
	source, err := os.Open(s.path)
	if err != nil {
		return from, fmt.Errorf("cannot open log: %w", err)
	}
	defer source.Close() //nolint:errcheck // nothing was written
	target, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return from, fmt.Errorf("cannot create rotated log: %w", err)
	}
	var zip packer
	buffer := make([]byte, memberSize)
	for to = from; to < from+most && err == nil; {
		text := buffer[:min(memberSize, from+most-to)]
		n, failed := source.ReadAt(text, to-base)
		if failed != nil && !errors.Is(failed, io.EOF) {
			err = failed
			break
		}
		if s.freed.Load() > to || s.base.Load() != base || n == 0 {
			break // what was read may be a hole
		}
		text = text[:n]
		if last := bytes.LastIndexByte(text, '\n'); to+int64(n) >= from+most && last >= 0 {
			text = text[:last+1]
		}
		out := text
		if !plain {
			if out, err = zip.pack(text); err != nil {
				break
			}
		}
		if _, err = target.Write(out); err == nil {
			to += int64(len(text))
		}
		if len(text) < n {
			break
		}
	}
	if err == nil {
		err = target.Sync() // before the only other copy goes
	}
	if closed := target.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return from, fmt.Errorf("cannot write rotated log: %w", err)
	}
	return to, nil
}

// free gives back the text that was rotated. The watching thread then truncates a file that was rotated whole.
func (store *Store) free(s *stream, base, from, to int64, whole bool) error {
	if s.base.Load() != base {
		return nil // it was truncated
	}
	for {
		now := s.freed.Load()
		if now >= to || s.freed.CompareAndSwap(now, to) {
			break
		}
	}
	if err := store.punchFile(s, from-base, to-base); err != nil {
		return fmt.Errorf("cannot free rotated log: %w", err)
	}
	if whole {
		s.rotated.Store(true)
	}
	return nil
}

// prune removes rotated files beyond the number to keep, those that are too old, and an old directory that was moved
// aside.
func (store *Store) prune(s *stream) {
	limits := s.log.limits()
	if info, err := os.Lstat(s.aside()); err == nil && time.Since(info.ModTime()) >= limits.MaxAge {
		if err := os.RemoveAll(s.aside()); err != nil {
			store.log.Warn("cannot remove a directory in the place of a log", "log", s.aside(), "error", err)
		}
	}
	all := segmentsOf(s.log.dir, s.name)
	for i, old := range all {
		if len(all)-i <= limits.Keep && time.Since(old.modified) < limits.MaxAge {
			continue
		}
		if err := os.Remove(old.path); err != nil {
			store.log.Warn("cannot remove rotated log", "log", old.path, "error", err)
		}
	}
}

// removeOldest removes the oldest rotated file, and reports whether there was one.
func (s *stream) removeOldest() bool {
	all := segmentsOf(s.log.dir, s.name)
	return len(all) > 0 && os.Remove(all[0].path) == nil
}
