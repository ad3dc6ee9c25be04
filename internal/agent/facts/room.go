package facts

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// noRoom is the room in bytes below which a file system counts as full, and someRoom the room from which it no
	// longer does. The room is that of programs without privileges.
	noRoom   = 128 << 10
	someRoom = 1 << 20
)

// Full returns since when the file system of a directory of Config.Disks has had no room, in Unix milliseconds; 0 if it
// has room. It does no I/O: Run looks each minute.
func (c *Collector) Full(dir string) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.full[dir]
}

// withoutRoom notes and logs which directories of drover have no room. It returns one for each file system, and since
// when it has had none, in Unix milliseconds.
func (c *Collector) withoutRoom() (shown map[string]int64) {
	var seen []unix.Fsid
	for _, dir := range c.cfg.Disks {
		var s unix.Statfs_t
		if unix.Statfs(dir, &s) != nil || s.Blocks == 0 {
			continue
		}
		room := s.Bavail * uint64(s.Bsize) //nolint:gosec // a size
		since := c.noteRoom(dir, room)
		if since == 0 || slices.Contains(seen, s.Fsid) {
			continue
		}
		if seen = append(seen, s.Fsid); shown == nil {
			shown = map[string]int64{}
		}
		shown[dir] = since
	}
	return shown
}

// noteRoom notes the room of a directory in bytes, and returns since when its file system is full; 0 if it is not.
func (c *Collector) noteRoom(dir string, room uint64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	since := c.full[dir]
	switch {
	case since != 0 && room >= someRoom:
		delete(c.full, dir)
		c.cfg.Log.Info("the file system has room again", "directory", dir)
		return 0
	case since != 0 || room >= noRoom:
		return since
	}
	if c.full == nil {
		c.full = map[string]int64{}
	}
	c.full[dir] = time.Now().UnixMilli()
	c.cfg.Log.Error("the file system is full: what processes write is lost", "directory", dir)
	return c.full[dir]
}
