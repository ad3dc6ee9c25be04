package locate

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"drover/internal/agent/procfs"
	"drover/internal/agent/trail"
	"drover/internal/process"
)

const (
	// readAhead is how much of a pid file drover reads, in bytes.
	readAhead = 4096
	// maxPID is above every pid of every kernel.
	maxPID = 1 << 30
	// readTries is how often drover reads a file that is being replaced or rewritten.
	readTries = 5
	// maxEntries is how many names of a directory drover reads.
	maxEntries = 4096
)

// errNoFile says that the file does not exist; a useless file has other errors.
var errNoFile = errors.New("does not exist")

// pidFile is the content of a pid file.
type pidFile struct {
	path string
	pid  int
	time time.Time
	// trail is how the file was reached; it is closed.
	trail *trail.Trail
}

// readPIDFile returns the number at the start of a pid file. It never blocks on a special file, and rejects a file
// that changes during the read. The error texts follow "pid file PATH".
func (q Query) readPIDFile(path string) (file pidFile, err error) {
	for range readTries {
		var text string
		err = q.visit(path, func(way *trail.Trail) (err error) {
			file, text, err = readStable(way, path)
			return err
		})
		if errors.Is(err, errChanged) {
			continue
		}
		if err != nil {
			return pidFile{}, plain(err)
		}
		file.path = path
		file.pid, err = parsePID(text)
		return file, err
	}
	return pidFile{}, errChanged
}

var (
	errChanged   = errors.New("keeps changing while it is read")
	errDirectory = errors.New("is not a regular file")
)

func readStable(way *trail.Trail, path string) (file pidFile, text string, err error) {
	if way.IsDir() {
		return pidFile{}, "", errDirectory
	}
	if !way.IsRegular() {
		return pidFile{}, "", errors.New("is not a regular file")
	}
	f, err := way.Open()
	if err != nil {
		return pidFile{}, "", plain(err)
	}
	defer f.Close() //nolint:errcheck // opened only for reading
	before, err := f.Stat()
	if err != nil {
		return pidFile{}, "", plain(err)
	}
	buf := make([]byte, readAhead)
	n, err := f.ReadAt(buf, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return pidFile{}, "", plain(err)
	}
	after, err := f.Stat()
	if err != nil {
		return pidFile{}, "", plain(err)
	}
	now, err := os.Stat(path)
	if err != nil || !os.SameFile(before, now) || before.Size() != after.Size() ||
		!before.ModTime().Equal(after.ModTime()) {
		return pidFile{}, "", errChanged
	}
	return pidFile{time: after.ModTime(), trail: way}, string(buf[:n]), nil
}

// plain removes the path from an error, because the caller names it.
func plain(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errNoFile
	}
	path, ok := errors.AsType[*fs.PathError](err)
	if !ok {
		return err // it is one of ours
	}
	if errors.Is(path.Err, syscall.ENOTDIR) {
		return errNoFile
	}
	return fmt.Errorf("cannot be read: %w", path.Err)
}

// parsePID parses the first word. Programs pad it with blanks or NULs, and some add more lines.
func parsePID(text string) (int, error) {
	words := strings.FieldsFunc(text, func(r rune) bool {
		return r == 0 || strings.ContainsRune(" \t\r\n\v\f\uFEFF", r)
	})
	if len(words) == 0 {
		return 0, errors.New("is empty")
	}
	word := words[0]
	digits := strings.TrimPrefix(word, "-")
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, errors.New("does not begin with a number") // the error must not reveal the contents
	}
	pid, err := strconv.Atoi(word)
	if pid == 1 {
		return 0, errors.New("holds 1, which is the init process")
	}
	if err != nil || pid <= 1 || pid > maxPID {
		return 0, errors.New("holds a number that is not a process id")
	}
	return pid, nil
}

// check verifies that the process in a pid file has the name of the query. The errors are whole sentences.
func (q Query) check(proc procfs.FS, file pidFile) (*LiveProcess, error) {
	if file.pid == os.Getpid() {
		return nil, fmt.Errorf("pid file %s holds %d, which is drover itself", file.path, file.pid)
	}
	id, err := proc.Identify(file.pid)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("pid file %s is stale: pid %d is gone", file.path, file.pid)
	case errors.Is(err, os.ErrProcessDone):
		return nil, fmt.Errorf("pid file %s is stale: pid %d has ended", file.path, file.pid)
	case errors.Is(err, procfs.ErrNoProcess):
		return nil, fmt.Errorf("pid file %s holds %d, which is a thread, not a process", file.path, file.pid)
	case err != nil:
		return nil, fmt.Errorf("pid file %s: %w", file.path, err)
	}
	info, err := proc.Info(file.pid)
	if err != nil || !proc.Same(id) {
		return nil, fmt.Errorf("pid file %s is stale: pid %d is gone", file.path, file.pid)
	}
	if !q.matches(info, q.linkTargets) {
		return nil, fmt.Errorf("pid %d of pid file %s belongs to %s", file.pid, file.path, calledBy(info))
	}
	if err := q.verify(id, info, file); err != nil {
		return nil, err
	}
	return &LiveProcess{ID: id, PIDFile: file.path, PIDFileTime: file.time, Resolved: file.trail.Path, Matches: 1}, nil
}

// byDirectory looks for the pid file in a directory: the file named after the process, or else the only file whose
// process has the name.
func (q Query) byDirectory(proc procfs.FS) Result {
	named := filepath.Join(q.PIDPath, q.ProcName+".pid")
	file, err := q.readPIDFile(named)
	switch {
	case err == nil:
		return result(q.check(proc, file))
	case !errors.Is(err, errNoFile):
		return unreadable(named, err)
	}
	names, err := q.pidFileNames()
	if err != nil {
		return Result{Note: fmt.Sprintf("directory %s %s", q.PIDPath, err)}
	}
	var found *LiveProcess
	var doubt *ambiguousError
	for _, name := range names {
		file, err := q.readPIDFile(filepath.Join(q.PIDPath, name))
		if err != nil {
			continue
		}
		other, err := q.check(proc, file)
		switch {
		case errors.As(err, &doubt):
		case err != nil:
		case found == nil || found.ID == other.ID:
			found = other
		default:
			return Result{
				Cause: process.CauseOddPIDFile,
				Note: fmt.Sprintf("more than one pid file in %s names a live %s: %s and %s",
					q.PIDPath, q.ProcName, found.PIDFile, other.PIDFile),
			}
		}
	}
	if found == nil && doubt != nil {
		return result(nil, doubt)
	}
	if found == nil {
		return Result{Cause: process.CauseNoPIDFile, Note: fmt.Sprintf("no pid file in %s names a live %s", q.PIDPath,
			q.ProcName)}
	}
	return Result{Process: found}
}

func (q Query) pidFileNames() (names []string, err error) {
	err = q.visit(q.PIDPath, func(way *trail.Trail) error {
		d, err := way.Open()
		if err != nil {
			return err
		}
		defer d.Close()                       //nolint:errcheck // opened only for reading
		names, _ = d.Readdirnames(maxEntries) // no names if it is empty
		return nil
	})
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, ".pid") })
	slices.Sort(names)
	if err != nil {
		return nil, plain(err)
	}
	return names, nil
}
