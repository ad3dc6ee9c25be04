package host

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"drover/internal/agent/launch"
	"drover/internal/agent/trail"
	"drover/internal/clip"
	"drover/internal/durable"
	"drover/internal/process"
)

// runtimeRoot is where runtime directories are (hier(7)).
const runtimeRoot = "/run"

// runtimeDirs makes and removes the runtime directories of processes. A mark on the agent's disk says which directory
// drover has made for which process, so that drover never takes or removes the directory of somebody else.
type runtimeDirs struct {
	root, marks string
	log         *slog.Logger

	mu sync.Mutex
	// names has the name of the directory by the hash of the process.
	names map[string]string
}

func openRuntimeDirs(root, marks string, log *slog.Logger) (*runtimeDirs, error) {
	if marks == "" {
		return &runtimeDirs{}, nil
	}
	if err := os.MkdirAll(marks, 0o700); err != nil {
		return nil, fmt.Errorf("cannot create directory for marks: %w", err)
	}
	d := &runtimeDirs{root: root, marks: marks, log: log, names: map[string]string{}}
	files, err := os.ReadDir(marks)
	if err != nil {
		return nil, fmt.Errorf("cannot list marks: %w", err)
	}
	for _, f := range files {
		if name, err := os.ReadFile(filepath.Join(marks, f.Name())); err == nil && filepath.IsLocal(string(name)) {
			d.names[f.Name()] = string(name)
		}
	}
	return d, nil
}

// make returns the runtime directory of a process, which belongs to the account. It makes the directory if it is
// missing, and removes one of another name that the process had before.
func (d *runtimeDirs) make(id process.ID, name string, account launch.Account) (string, error) {
	if d.marks == "" {
		return "", errors.New("this agent makes none")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	key, path := process.Hash(id), filepath.Join(d.root, name)
	if err := d.conflict(key, name); err != nil {
		return "", err
	}
	if d.names[key] != name {
		d.drop(key)
	}
	if _, err := os.Lstat(filepath.Join(d.marks, key)); err != nil { // also if somebody has removed the mark
		if err := d.mark(key, name); err != nil {
			return "", err
		}
	}
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	if err := os.Lchown(path, int(account.UID), int(account.GID)); err != nil {
		return "", err
	}
	return path, nil
}

// mark records on disk that drover has made a directory. The caller holds the lock.
func (d *runtimeDirs) mark(key, name string) error {
	if err := os.MkdirAll(d.marks, 0o700); err != nil {
		return fmt.Errorf("cannot note %s: %w", filepath.Join(d.root, name), err)
	}
	if err := durable.Replace(filepath.Join(d.marks, key), []byte(name), 0o600); err != nil {
		return fmt.Errorf("cannot note %s: %w", filepath.Join(d.root, name), err)
	}
	d.names[key] = name
	return nil
}

// adopt makes a directory of an account that of a process which drover takes over: the former supervisor has made it.
func (d *runtimeDirs) adopt(id process.ID, name string, account launch.Account) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.adoptable(name, account) {
		return nil // the next start makes it, or says what is wrong
	}
	key := process.Hash(id)
	d.drop(key)
	return d.mark(key, name)
}

// adoptable reports whether a directory is one of an account that no process of drover has. The caller holds the lock.
func (d *runtimeDirs) adoptable(name string, account launch.Account) bool {
	info, err := os.Lstat(filepath.Join(d.root, name))
	if err != nil || !info.IsDir() || d.marks == "" || slices.Contains(slices.Collect(maps.Values(d.names)), name) {
		return false
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	return ok && owner.Uid == account.UID
}

// lookAdopting is look for a process that drover is about to take over, with its directory.
func (d *runtimeDirs) lookAdopting(id process.ID, name string, account launch.Account) (string, error) {
	d.mu.Lock()
	adoptable := d.adoptable(name, account)
	d.mu.Unlock()
	if adoptable {
		return filepath.Join(d.root, name), nil
	}
	return d.preview(id, name, account)
}

// preview returns the directory that make would return, as far as that can be known, and changes nothing.
func (d *runtimeDirs) preview(id process.ID, name string, _ launch.Account) (string, error) {
	if d.marks == "" {
		return "", errors.New("this agent makes none")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	path := filepath.Join(d.root, name)
	if err := d.conflict(process.Hash(id), name); err != nil {
		return "", err
	}
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		if err := unix.Access(d.root, unix.W_OK); err != nil {
			return "", fmt.Errorf("cannot make %s: %w", path, err)
		}
	}
	return path, nil
}

// conflict says what stands in the way of a runtime directory. The caller holds the lock.
func (d *runtimeDirs) conflict(key, name string) error {
	path := filepath.Join(d.root, name)
	for other, taken := range d.names {
		if taken == name && other != key {
			return fmt.Errorf("%s belongs to another process of drover", path)
		}
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case d.names[key] != name:
		return fmt.Errorf("%s exists, and drover has not made it", path)
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory", path)
	}
	return nil
}

// remove removes the runtime directory of a process, if drover has made one.
func (d *runtimeDirs) remove(id process.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drop(process.Hash(id))
}

// drop removes a directory with its mark. The caller holds the lock.
func (d *runtimeDirs) drop(key string) {
	name, ok := d.names[key]
	if !ok {
		return
	}
	path := filepath.Join(d.root, name)
	if err := trail.Remove(path); err != nil { // it follows no link
		d.log.Warn("cannot remove runtime directory", "path", path, "error", clip.Head(err.Error(), 300))
		return
	}
	if err := os.Remove(filepath.Join(d.marks, key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.log.Warn("cannot remove the mark of a runtime directory", "path", path, "error", err)
	}
	delete(d.names, key)
}

// AtRest removes what a process needs only while it runs: its runtime directory.
func (h *Host) AtRest(id process.ID) { h.runtime.remove(id) }

// AdoptPlaces makes the runtime directory of a process that drover takes over its own, if the directory belongs to the
// account of the process.
func (h *Host) AdoptPlaces(id process.ID, spec *process.Spec) {
	name := spec.RuntimeDirectory
	if name == "" {
		return
	}
	account, err := launch.LookupAccount("/", cmp.Or(spec.User, launch.OwnName()))
	if err == nil {
		err = h.runtime.adopt(id, name, account)
	}
	if err != nil {
		h.runtime.log.Warn("cannot take over runtime directory", "name", name, "error", err)
	}
}
