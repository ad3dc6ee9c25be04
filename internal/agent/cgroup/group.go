package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// The kernel's files in a group. kill.go has the files of the freezer.
const (
	procsFile  = "cgroup.procs"
	eventsFile = "cgroup.events"
)

// Group is one control group. It may be used concurrently.
type Group struct {
	id   string
	dir  string // empty in ModeNone
	mode Mode

	controllers *controllers
	buffers     *sync.Pool

	mu     sync.Mutex
	handle *os.File
	closed bool
	// bound has the directories in version 1 hierarchies that hold the limits of the group.
	bound []v1Binding
}

// ID returns the name that the group was created with.
func (g *Group) ID() string { return g.id }

// FD returns a descriptor of the group's directory, for a child to be born in it. It is opened at the first call and
// stays valid until Close; the caller keeps the group alive meanwhile. Only ModeV2 has one.
func (g *Group) FD() (int, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mode != ModeV2 || g.closed {
		return -1, false
	}
	if g.handle == nil {
		f, err := os.OpenFile(g.dir, unix.O_DIRECTORY|os.O_RDONLY, 0)
		if err != nil {
			return -1, false
		}
		g.handle = f
	}
	return int(g.handle.Fd()), true
}

// Add moves a process, without its children, into the group and under its limits. The caller must ensure that pid
// still names the process, for example because it is an unreaped child. In ModeNone Add does nothing.
func (g *Group) Add(pid int) error {
	if g.mode == ModeNone {
		return nil
	}
	if pid <= 0 {
		return fmt.Errorf("cannot move pid %d into cgroup %s: not a process", pid, g.id)
	}
	if err := write(filepath.Join(g.dir, procsFile), strconv.Itoa(pid)); err != nil {
		return fmt.Errorf("cannot move pid %d into cgroup %s: %w", pid, g.id, err)
	}
	return g.Bind(pid)
}

// PIDs returns the processes of the group and of groups that were made below it, in ascending order. Zombies are not
// among them. In ModeNone there are none.
func (g *Group) PIDs() ([]int, error) {
	if g.mode == ModeNone {
		return nil, nil
	}
	pids, err := members(g.dir)
	if err != nil {
		return nil, fmt.Errorf("cannot list cgroup %s: %w", g.id, err)
	}
	slices.Sort(pids)
	return slices.Compact(pids), nil
}

func members(dir string) ([]int, error) {
	data, err := os.ReadFile(filepath.Join(dir, procsFile))
	switch {
	case err == nil || vanished(err):
	case errors.Is(err, unix.EOPNOTSUPP):
		// In a threaded group, the parent group lists the processes.
	default:
		return nil, err
	}
	pids := numbers(data)
	subs, err := subgroups(dir)
	if err != nil {
		return nil, err
	}
	for _, sub := range subs {
		more, err := members(filepath.Join(dir, sub))
		if err != nil {
			return nil, err
		}
		pids = append(pids, more...)
	}
	return pids, nil
}

// numbers parses a list of pids.
func numbers(data []byte) (pids []int) {
	for word := range bytes.FieldsSeq(data) {
		// 0 stands for a process outside our pid namespace, which drover cannot name.
		if pid, err := strconv.Atoi(string(word)); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Populated reports whether a process lives in the group or below it.
func (g *Group) Populated() (bool, error) {
	if g.mode == ModeV2 {
		value, err := field(filepath.Join(g.dir, eventsFile), "populated")
		switch {
		case err == nil:
			return value != "0", nil
		case vanished(err):
			return false, nil
		default:
			return false, fmt.Errorf("cannot look at cgroup %s: %w", g.id, err)
		}
	}
	pids, err := g.PIDs()
	return len(pids) > 0, err
}

// Remove removes the group and all groups below it. It fails while a process lives there. It succeeds if the group is
// already gone.
func (g *Group) Remove() error {
	if g.mode == ModeNone {
		return nil
	}
	// Remove the group itself last: while it exists, a sweep returns to its leftovers in other hierarchies.
	err := g.controllers.remove(g.id)
	if err == nil {
		err = removeAll(g.dir)
	}
	if err != nil {
		return fmt.Errorf("cannot remove cgroup %s: %w", g.id, err)
	}
	return nil
}

func removeAll(dir string) error {
	subs, err := subgroups(dir)
	if err != nil {
		return err
	}
	for _, sub := range subs {
		if err := removeAll(filepath.Join(dir, sub)); err != nil {
			return err
		}
	}
	// rmdir removes the kernel's files too. os.Remove would try unlink first and report that error.
	if err := unix.Rmdir(dir); err != nil && !vanished(err) {
		return &fs.PathError{Op: "rmdir", Path: dir, Err: err}
	}
	return nil
}

// Close closes the descriptor. The group itself stays.
func (g *Group) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	if g.handle == nil {
		return nil
	}
	err := g.handle.Close()
	g.handle = nil
	return err
}

// field returns the value of a key in a file of "key value" lines.
func field(path, key string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), key+" "); ok {
			return value, nil
		}
	}
	return "", fmt.Errorf("%s has no %q", path, key)
}

// write writes to an existing file of the kernel.
func write(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}
