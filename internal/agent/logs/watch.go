package logs

import (
	"context"
	"errors"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"drover/internal/agent/inotify"
)

const (
	// fastest is the speed in bytes per second for which the bound holds.
	fastest = 200 << 20
	// A growing file is looked at between soonest and slowest after the last look.
	soonest = 5 * time.Millisecond
	slowest = 250 * time.Millisecond
	// together is how much earlier than due a file is looked at if the thread is awake.
	together = 20 * time.Millisecond
	// While more than fewStreams grow, the thread asks every guardEvery how much space the file system has left, and
	// looks at all files when guardStep bytes are gone. So it looks at a file that grows slowly only every guarded.
	fewStreams = 8
	guardEvery = 50 * time.Millisecond
	guardStep  = 8 << 20
	guarded    = time.Second
	// The thread marks the times of a file, and takes it for quiet, after a pause of pauseFor for each stream that
	// grows, between soonestPause and latestPause.
	pauseFor     = 2 * time.Millisecond
	soonestPause = 100 * time.Millisecond
	latestPause  = 2 * time.Second
)

// watch is the body of the watching thread, until ctx ends. Like the thread for outputs it runs before the writers. It
// waits for the first write to a quiet file in the kernel. It looks at a file that grows at intervals, so many short
// lines cost few looks.
func (store *Store) watch(ctx context.Context, events *inotify.Events) error {
	if events == nil {
		return store.watchAtIntervals(ctx)
	}
	runtime.LockOSThread() // the thread ends with its goroutine, and so does its priority
	inotify.PreferThread()
	buffer := make([]byte, inotify.BufferSize)
	space := newSpaceGuard(store.dir)
	var active []*stream
	for {
		active = store.join(active, nil)
		limit := time.Duration(-1)
		if len(active) > 0 {
			limit = max(time.Until(earliest(active)), soonest)
		}
		watched := space.works && len(active) > fewStreams
		if watched {
			limit = min(limit, guardEvery)
		}
		n, open, err := events.Read(buffer, limit)
		if err != nil || !open {
			return err
		}
		active = store.join(active, inotify.Parse(buffer[:n]))
		if watched && space.fell() {
			for _, s := range active {
				s.due = time.Time{}
			}
		}
		active = store.lookAt(active, time.Now(), watched)
	}
}

// spaceGuard watches the free space of a file system. It works where the kernel counts text that is not on disk yet.
type spaceGuard struct {
	dir   string
	works bool
	free  int64
}

func newSpaceGuard(dir string) *spaceGuard {
	g := &spaceGuard{dir: dir}
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) == nil {
		switch int64(st.Type) { //nolint:unconvert // its type differs between architectures
		case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.TMPFS_MAGIC:
			g.works = true
		}
	}
	return g
}

// fell reports whether guardStep bytes are gone since it last reported so.
func (g *spaceGuard) fell() bool {
	var st unix.Statfs_t
	if unix.Statfs(g.dir, &st) != nil {
		return true
	}
	free := int64(st.Bfree) * st.Bsize //nolint:gosec // no file system is that large
	if g.free-free < guardStep {
		g.free = max(g.free, free)
		return false
	}
	g.free = free
	return true
}

// watchAtIntervals is watch for a kernel that cannot report writes.
func (store *Store) watchAtIntervals(ctx context.Context) error {
	tick := time.NewTicker(slowest)
	defer tick.Stop()
	for {
		store.mu.Lock()
		var all []*stream
		for _, l := range store.logs {
			all = append(all, l.streams[:]...)
		}
		store.mu.Unlock()
		for _, s := range all {
			store.boundAndMark(s, time.Now(), latestPause)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func earliest(active []*stream) time.Time {
	first := active[0].due
	for _, s := range active[1:] {
		if s.due.Before(first) {
			first = s.due
		}
	}
	return first
}

// join adds the streams that were written to, and those that Begin and Run name.
func (store *Store) join(active []*stream, events []inotify.Event) []*stream {
	store.mu.Lock()
	defer store.mu.Unlock()
	add := func(s *stream) {
		s.due = time.Time{}
		if !s.active {
			s.active = true
			active = append(active, s)
		}
	}
	for _, e := range events {
		if e.Overflow { // one event for each stream: it is not reached
			for _, s := range store.watched {
				add(s)
			}
		}
		if s := store.watched[e.Watch]; s != nil {
			delete(store.watched, e.Watch)
			add(s)
		}
	}
	for _, s := range store.woken {
		add(s)
	}
	store.woken = store.woken[:0]
	return active
}

// arm makes the thread look at a stream after its next write, or the loss of a name.
func (store *Store) arm(s *stream) {
	store.mu.Lock()
	defer store.mu.Unlock()
	if store.events == nil {
		return // Run begins with all streams
	}
	if watch, err := store.events.AddNextWrite(s.path); err == nil {
		store.watched[watch] = s
	} else {
		store.log.Warn("cannot wait for writes to a log", "log", s.path, "error", err)
	}
}

// lookAt looks at the streams that are due, and returns those that stay active. With guard it looks less often.
func (store *Store) lookAt(active []*stream, now time.Time, guard bool) []*stream {
	pause := min(max(time.Duration(len(active))*pauseFor, soonestPause), latestPause)
	left := active[:0]
	for _, s := range active {
		if s.due.After(now.Add(together)) {
			left = append(left, s)
			continue
		}
		grown, again := store.boundAndMark(s, now, pause)
		if !again {
			s.active = false
			continue
		}
		s.due = now.Add(s.pauseAfter(grown, now, guard))
		left = append(left, s)
	}
	clear(active[len(left):])
	return left
}

// pauseAfter is how long a stream can wait for the next look so that it stays within three times the size of a file: at
// the speed for which the bound holds, or with guard at twice the speed since the last look.
func (s *stream) pauseAfter(grown int64, now time.Time, guard bool) time.Duration {
	room := 3*s.log.limits().MaxSize + max(s.room.Load(), 0) - (s.size.Load() - s.freed.Load())
	since := now.Sub(s.looked)
	s.looked = now
	if !guard || since > guarded+slowest {
		return min(max(time.Duration(room)*time.Second/fastest, soonest), slowest)
	}
	if grown == 0 {
		return guarded
	}
	return min(max(time.Duration(float64(room)/float64(2*grown)*float64(since)), soonest), guarded)
}

// boundAndMark bounds a stream and marks its time, if the last mark is older than pause. It returns how much the stream
// has grown, and whether to look again without another write.
func (store *Store) boundAndMark(s *stream, now time.Time, pause time.Duration) (grown int64, again bool) {
	var st unix.Stat_t
	err := unix.Stat(s.path, &st)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || err == nil && (!regular(&st) || !s.named(&st)) {
		if !store.secure(s) {
			return 0, false
		}
		err = unix.Stat(s.path, &st)
	}
	if err != nil || !regular(&st) {
		return 0, true
	}
	before := s.size.Load()
	store.keepWithin(s, &st)
	size := s.size.Load()
	if size != before || s.grown.IsZero() {
		s.grown = now
	}
	quiet := now.Sub(s.grown) >= pause
	if size > s.stamped && (quiet || now.Sub(s.marked) >= pause) {
		store.stamp(s, now)
	}
	return max(size-before, 0), !quiet || !store.watchNextWrite(s, &st)
}

// stamp marks when the text arrived that the last looks have found.
func (store *Store) stamp(s *stream, now time.Time) {
	l := s.log
	m := mark{kind: markTime, at: s.grown.UnixMilli()}
	for i, other := range l.streams {
		m.ends[i] = other.stamped
	}
	size := s.size.Load()
	m.ends[s.index] = size
	l.mu.Lock()
	err := l.addMarkLocked(&m)
	if err == nil && l.marks > maxMarks {
		err = l.thin()
	}
	l.mu.Unlock()
	if err != nil && !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.ENOENT) {
		store.log.Warn("cannot mark the time of a log", "log", s.path, "error", err)
	}
	s.stamped, s.marked = size, now
}

// watchNextWrite makes the thread wait for the next write. It reports false if there was one meanwhile, or if the
// kernel has no room for another watch.
func (store *Store) watchNextWrite(s *stream, seen *unix.Stat_t) bool {
	store.mu.Lock()
	defer store.mu.Unlock()
	if store.events == nil {
		return false
	}
	watch, err := store.events.AddNextWrite(s.path)
	if err != nil {
		return false
	}
	store.watched[watch] = s
	var st unix.Stat_t
	return unix.Stat(s.path, &st) == nil && st.Ino == seen.Ino && st.Size == seen.Size
}
