// Package cgroup keeps one control group for each run of a process, so that drover can find and end every process
// that a command started. It owns a directory in the version 2 hierarchy, or else in the version 1 freezer, and the
// groups in it. Groups need no controller; limits use the controllers of either version. On a host without either
// hierarchy, a group holds nothing and says so. The caller decides which group belongs to which run, and when to
// remove it.
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"drover/internal/agent/procfs"
)

// Mode says what kind of groups a host offers.
type Mode string

// The modes, best first.
const (
	ModeV2      Mode = "v2"
	ModeFreezer Mode = "v1-freezer"
	ModeNone    Mode = "none"
)

// maxID is the longest name of a tree or group in bytes.
const maxID = 128

// Tree is the directory that all groups of one agent are in. It may be used concurrently.
type Tree struct {
	mode Mode
	base string
	// path is the kernel's name for base. A name alone would prove nothing, because some accounts may make groups of
	// their own.
	path        string
	controllers *controllers
	// buffers are for looks at accounts: a thousand accounts share a few.
	buffers sync.Pool
}

// Open finds a hierarchy that this process may use and makes the directory name in it: in the group that a service
// manager has delegated to this process, else at the top of the hierarchy, else in our own group. In a delegated group
// Open moves this process into a group of its own.
// name is a word of lower-case letters, digits and dashes. If there is no hierarchy, the mode is ModeNone, without an
// error.
func Open(proc procfs.FS, name string) (*Tree, error) {
	if err := checkID(name); err != nil {
		return nil, err
	}
	mounts, err := proc.Mounts()
	if err != nil {
		return nil, fmt.Errorf("cannot find cgroups: %w", err)
	}
	for _, hierarchy := range []struct {
		mode       Mode
		fsType     string
		controller string
	}{
		{ModeV2, "cgroup2", ""},
		{ModeFreezer, "cgroup", "freezer"},
	} {
		for _, m := range mounts {
			if m.Type != hierarchy.fsType || hierarchy.controller != "" &&
				!slices.Contains(m.Options, hierarchy.controller) {
				continue
			}
			for _, place := range placesOf(proc, m, hierarchy.mode, hierarchy.controller, name) {
				base := filepath.Join(place, name)
				if usable(base) {
					if hierarchy.mode == ModeV2 {
						makeRoom(proc, m, base)
					}
					controllers := openControllers(proc, mounts, hierarchy.mode, base, name)
					return &Tree{mode: hierarchy.mode, base: base, path: pathOf(m, base), controllers: controllers}, nil
				}
			}
		}
	}
	return &Tree{mode: ModeNone, controllers: openControllers(proc, mounts, ModeNone, "", name)}, nil
}

// below returns where a group of the hierarchy is visible through a mount, which may show only a part of the
// hierarchy.
func below(m procfs.Mount, path string) string {
	if rest, ok := strings.CutPrefix(path, m.Root); ok && m.Root != "/" && (rest == "" || rest[0] == '/') {
		path = rest
	}
	return filepath.Join(m.Point, filepath.Clean("/"+path))
}

// pathOf is the kernel's name for the group at a place of a mount.
func pathOf(m procfs.Mount, place string) string {
	return strings.TrimSuffix(m.Root, "/") + strings.TrimPrefix(place, strings.TrimSuffix(m.Point, "/"))
}

// usable makes the directory and reports whether processes can be moved into groups in it.
func usable(base string) bool {
	err := os.Mkdir(base, 0o755)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return false
	}
	made := err == nil
	if unix.Access(base, unix.W_OK|unix.X_OK) == nil && unix.Access(filepath.Join(base, procsFile), unix.W_OK) == nil {
		return true
	}
	if made {
		_ = os.Remove(base)
	}
	return false
}

// Mode says what kind of groups the tree has.
func (t *Tree) Mode() Mode { return t.mode }

// Holder returns the id of the group that a process is in, or is below; false if the process is in no group of this
// tree.
func (t *Tree) Holder(proc procfs.FS, pid int) (id string, ok bool) {
	controller := ""
	switch t.mode {
	case ModeNone:
		return "", false
	case ModeFreezer:
		controller = "freezer"
	case ModeV2:
	}
	path, ok := proc.Cgroup(pid, controller)
	if !ok {
		return "", false
	}
	if inside, ok := strings.CutPrefix(path, t.path+"/"); ok {
		id, _, _ = strings.Cut(inside, "/")
		return id, id != ""
	}
	// The kernel may use another name for the tree in this process than at the mount: then check the list of the group
	// itself.
	_, inside, _ := strings.Cut(path+"/", "/"+filepath.Base(t.base)+"/")
	id, _, _ = strings.Cut(inside, "/")
	group, ok := t.Group(id)
	if !ok {
		return "", false
	}
	defer group.Close() //nolint:errcheck // opened only for a look
	pids, err := group.PIDs()
	return id, err == nil && slices.Contains(pids, pid)
}

// Path is the tree's directory; empty in ModeNone.
func (t *Tree) Path() string { return t.base }

// Create makes a new, empty group. id is up to 128 lower-case letters, digits and dashes. The error wraps fs.ErrExist
// when there is such a group. The caller closes the group, and removes it once it is empty.
func (t *Tree) Create(id string) (*Group, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	g := t.group(id)
	if t.mode == ModeNone {
		return g, nil
	}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return nil, fmt.Errorf("cannot create cgroup: %w", err)
	}
	return g, nil
}

// Group returns an existing group, for example from before a restart of the agent.
func (t *Tree) Group(id string) (*Group, bool) {
	if t.mode == ModeNone || checkID(id) != nil {
		return nil, false
	}
	g := t.group(id)
	info, err := os.Stat(g.dir)
	if err != nil || !info.IsDir() {
		return nil, false
	}
	return g, true
}

// IDs returns the ids of all groups that exist, sorted.
func (t *Tree) IDs() ([]string, error) {
	if t.mode == ModeNone {
		return nil, nil
	}
	return subgroups(t.base)
}

// Remove removes the tree's own directories. It fails while there are groups in it.
func (t *Tree) Remove() error {
	if t.mode == ModeNone {
		return nil
	}
	if err := os.Remove(t.base); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove cgroup: %w", err)
	}
	t.controllers.removeBases()
	return nil
}

func (t *Tree) group(id string) *Group {
	g := &Group{id: id, mode: t.mode, controllers: t.controllers, buffers: &t.buffers}
	if t.mode != ModeNone {
		g.dir = filepath.Join(t.base, id)
	}
	return g
}

func subgroups(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		if vanished(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("cannot list cgroups: %w", err)
	}
	var ids []string
	for _, e := range entries {
		if e.IsDir() {
			ids = append(ids, e.Name())
		}
	}
	return ids, nil
}

// vanished reports whether an error only says that a group was removed meanwhile.
func vanished(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV)
}

func checkID(id string) error {
	if id == "" || len(id) > maxID {
		return fmt.Errorf("cannot name a cgroup %q: expected 1 to %d bytes", id, maxID)
	}
	for _, c := range []byte(id) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return fmt.Errorf("cannot name a cgroup %q: expected lower-case letters, digits and dashes", id)
		}
	}
	return nil
}
