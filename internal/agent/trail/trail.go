// Package trail follows paths that others may change at the same time. It owns the walk: each step starts from the
// step before, the package resolves links itself, and it judges the file that it has opened. It does not decide which
// owner may be trusted with which file.
package trail

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxLinks is how many links Follow follows, as in the kernel.
	maxLinks = 40
	// Links can lead through more directories than a written path can. Follow holds each directory on the way open,
	// and records the path of each step.
	maxDepth, maxSteps = 512, 4096
)

// Step is a directory, a link, or the file at the end of a trail.
type Step struct {
	// Path leads there without links.
	Path     string
	UID, GID uint32
	Mode     fs.FileMode
}

// Trail is a path that was followed to its end. It holds the file at the end open, until Close.
type Trail struct {
	// Path leads to the end without links.
	Path string
	// Steps are all steps of the path, the root directory first and the end last. Anybody who can replace a step
	// decides where the path leads.
	Steps []Step
	fd    int
	info  unix.Stat_t
}

// Follow follows an absolute path with the file rights of the calling thread. Its errors are of the type
// *fs.PathError. It opens no file for reading, so it cannot affect a device or block on a FIFO. It may hang if the
// file system hangs.
func Follow(name string) (*Trail, error) {
	t, err := follow(name)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return t, nil
}

func follow(name string) (t *Trail, err error) {
	if !path.IsAbs(name) || strings.ContainsRune(name, 0) {
		return nil, syscall.EINVAL
	}
	w := &walk{}
	defer w.close()
	if err := w.enter("/"); err != nil {
		return nil, err
	}
	links := 0
	for rest := name; ; {
		var part string
		part, rest, _ = strings.Cut(strings.TrimLeft(rest, "/"), "/")
		// A name before a slash or a dot must be a directory.
		last := rest == "" && !strings.HasSuffix(name, "/")
		switch part {
		case "":
			return w.end()
		case ".":
			continue
		case "..":
			w.leave()
			continue
		}
		target, err := w.step(part, last)
		switch {
		case err != nil:
			return nil, err
		case target == "" && last:
			return w.end()
		case target == "":
			continue
		}
		if links++; links > maxLinks {
			return nil, syscall.ELOOP
		}
		if strings.HasPrefix(target, "/") {
			w.leaveAll()
		}
		if last {
			name, rest = target, target
		} else {
			rest = target + "/" + rest
		}
	}
}

// walk is a trail under way. It holds the directories from the root to the present one open, so that the way back is
// the same.
type walk struct {
	dirs  []int
	names []string
	steps []Step
	// at, info and name describe the end if the end is not a directory.
	at   int
	info unix.Stat_t
	name string
}

const look = unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC

// enter enters a directory.
func (w *walk) enter(name string) error {
	from := unix.AT_FDCWD
	if len(w.dirs) > 0 {
		from = w.dirs[len(w.dirs)-1]
	}
	fd, err := openat(from, name, look|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	w.dirs = append(w.dirs, fd)
	if name != "/" {
		w.names = append(w.names, name)
	}
	_, err = w.recordStep(fd, w.path(""))
	return err
}

// step goes to a name; if the name is a link, it returns the target of the link.
func (w *walk) step(name string, last bool) (target string, err error) {
	if err := w.enter(name); err == nil || !errors.Is(err, syscall.ENOTDIR) && !errors.Is(err, syscall.ELOOP) {
		return "", err
	}
	fd, err := openat(w.dirs[len(w.dirs)-1], name, look)
	if err != nil {
		return "", err
	}
	info, err := w.recordStep(fd, w.path(name))
	if err == nil && info.Mode&unix.S_IFMT == unix.S_IFLNK {
		defer unix.Close(fd) //nolint:errcheck // nothing was written
		return readlink(fd)
	}
	if err == nil && !last {
		err = syscall.ENOTDIR
	}
	if err != nil {
		unix.Close(fd) //nolint:errcheck // nothing was written
		return "", err
	}
	w.at, w.info, w.name = fd, info, name
	return "", nil
}

func (w *walk) leave() {
	if n := len(w.dirs); n > 1 {
		unix.Close(w.dirs[n-1]) //nolint:errcheck // nothing was written
		w.dirs, w.names = w.dirs[:n-1], w.names[:n-2]
	}
}

func (w *walk) leaveAll() {
	for len(w.dirs) > 1 {
		w.leave()
	}
}

func (w *walk) path(name string) string {
	return "/" + path.Join(path.Join(w.names...), name)
}

// recordStep records a step.
func (w *walk) recordStep(fd int, name string) (info unix.Stat_t, err error) {
	if len(w.dirs) > maxDepth || len(w.steps) >= maxSteps || len(name) >= unix.PathMax {
		return info, syscall.ENAMETOOLONG
	}
	if err := unix.Fstat(fd, &info); err != nil {
		return info, err
	}
	w.steps = append(w.steps, Step{Path: name, UID: info.Uid, GID: info.Gid, Mode: modeOf(info.Mode)})
	return info, nil
}

// end makes the trail at the end of a walk.
func (w *walk) end() (*Trail, error) {
	t := &Trail{Path: w.path(w.name), Steps: w.steps, fd: w.at, info: w.info}
	if w.name == "" {
		t.fd = w.dirs[len(w.dirs)-1]
		w.dirs = w.dirs[:len(w.dirs)-1]
		if err := unix.Fstat(t.fd, &t.info); err != nil {
			t.Close()
			return nil, err
		}
	}
	return t, nil
}

func (w *walk) close() {
	for _, fd := range w.dirs {
		unix.Close(fd) //nolint:errcheck // nothing was written
	}
}

func openat(dir int, name string, flags int) (fd int, err error) {
	for {
		if fd, err = unix.Openat(dir, name, flags, 0); !errors.Is(err, syscall.EINTR) {
			return fd, err
		}
	}
}

func readlink(fd int) (string, error) {
	buffer := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", buffer)
	switch {
	case err != nil:
		return "", err
	case n == 0:
		return "", syscall.ENOENT
	case n == len(buffer):
		return "", syscall.ENAMETOOLONG
	}
	return string(buffer[:n]), nil
}

// modeOf returns the part of a mode that says who may change what.
func modeOf(mode uint32) fs.FileMode {
	m := fs.FileMode(mode & 0o777)
	switch mode & unix.S_IFMT {
	case unix.S_IFDIR:
		m |= fs.ModeDir
	case unix.S_IFLNK:
		m |= fs.ModeSymlink
	case unix.S_IFREG:
	default:
		m |= fs.ModeIrregular
	}
	if mode&unix.S_ISVTX != 0 {
		m |= fs.ModeSticky
	}
	return m
}

// IsDir reports whether a directory is at the end.
func (t *Trail) IsDir() bool { return t.info.Mode&unix.S_IFMT == unix.S_IFDIR }

// IsRegular reports whether a regular file is at the end.
func (t *Trail) IsRegular() bool { return t.info.Mode&unix.S_IFMT == unix.S_IFREG }

// Stat is the status of the end, as it was when it was reached.
func (t *Trail) Stat() unix.Stat_t { return t.info }

// ModTime is when the end had been changed last.
func (t *Trail) ModTime() time.Time { return time.Unix(t.info.Mtim.Unix()) }

// Open opens exactly the regular file or the directory at the end for reading, with the file rights of the calling
// thread.
func (t *Trail) Open() (*os.File, error) {
	if !t.IsRegular() && !t.IsDir() {
		return nil, fmt.Errorf("cannot open %s: it is not a regular file", t.Path)
	}
	// The file is already open, and this path cannot lead to another file.
	fd, err := openat(unix.AT_FDCWD, fmt.Sprintf("/proc/thread-self/fd/%d", t.fd),
		unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: t.Path, Err: err}
	}
	return os.NewFile(uintptr(fd), t.Path), nil
}

// Enter reports whether the directory at the end may be entered, with the rights by which the calling thread reaches
// files.
func (t *Trail) Enter() error {
	fd, err := openat(t.fd, ".", look|unix.O_DIRECTORY)
	if err != nil {
		return &fs.PathError{Op: "enter", Path: t.Path, Err: err}
	}
	return unix.Close(fd)
}

// Execute reports whether the file at the end may be executed, with the file rights of the calling thread. It fails
// with ErrNoExec on a file system without programs.
func (t *Trail) Execute() error {
	err := unix.Faccessat(unix.AT_FDCWD, fmt.Sprintf("/proc/thread-self/fd/%d", t.fd), unix.X_OK, unix.AT_EACCESS)
	var system unix.Statfs_t
	if err != nil && unix.Fstatfs(t.fd, &system) == nil && system.Flags&unix.ST_NOEXEC != 0 {
		err = ErrNoExec
	}
	if err != nil {
		return &fs.PathError{Op: "execute", Path: t.Path, Err: err}
	}
	return nil
}

// ErrNoExec says that a file system is mounted with noexec: the kernel executes nothing there.
var ErrNoExec = errors.New("its file system is mounted with noexec")

// Close closes the file at the end.
func (t *Trail) Close() {
	if t.fd >= 0 {
		unix.Close(t.fd) //nolint:errcheck // nothing was written
		t.fd = -1
	}
}
