package launch

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"drover/internal/clip"
	"drover/internal/durable"
)

// keep is how many bytes drover keeps of each end of an output.
const keep = 32 << 10

// MaxOutput is how large an output may grow before it is cut, in bytes.
const MaxOutput = 1 << 20

// Output is the file that one command writes to. All its writes append, so drover can cut the file while the command or
// one of its daemons has the file open. It is not a pipe, so nobody needs to read it. It is safe for concurrent use.
type Output struct {
	file *os.File
	// handed is the command's descriptor. It is write-only, so the command cannot read what others wrote. It is nil if
	// no command gets a descriptor.
	handed *os.File

	mu        sync.Mutex
	trimmed   bool
	head      []byte // the first bytes, after the file was cut
	lostBytes int64  // how many bytes were between head and the rest of the file
}

// CreateOutput makes an empty file that only this user can read. It empties an existing file. name is one path
// element. CreateOutput makes a directory again that somebody has removed.
func CreateOutput(dir, name string) (*Output, error) {
	if name == "" || name == "." || name == ".." || strings.ContainsRune(name, '/') {
		return nil, fmt.Errorf("cannot create output file: %q is not a file name", name)
	}
	path := filepath.Join(dir, name)
	// Read and write: Text reads through the same descriptor, even if the name is gone.
	f, err := durable.Open(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot create output file: %w", err)
	}
	handed, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|unix.O_NOFOLLOW, 0)
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("cannot open output file for the command: %w", err)
	}
	return &Output{file: f, handed: handed}, nil
}

// Probe fails if the file takes no data, as on a full disk. It reserves the first 4 KiB if the file system supports
// that.
func (o *Output) Probe() error {
	const room = 4 << 10
	//nolint:gosec // descriptors are small
	if unix.Fallocate(int(o.file.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, room) == nil {
		return nil
	}
	// Only the second choice: ext4 flushes a truncated file to disk when it is closed.
	if _, err := o.file.WriteString("\n"); err != nil {
		return fmt.Errorf("cannot write output: %w", err)
	}
	if err := o.file.Truncate(0); err != nil {
		return fmt.Errorf("cannot write output: %w", err)
	}
	return nil
}

// File is the descriptor for the command, open for appending only; nil if an earlier agent made the file. It belongs
// to the Output.
func (o *Output) File() *os.File { return o.handed }

// Close closes the descriptors. The file itself stays.
func (o *Output) Close() error {
	if o.handed == nil {
		return o.file.Close()
	}
	return errors.Join(o.handed.Close(), o.file.Close())
}

// Trim cuts a file that is larger than 1 MiB to its last 32 KiB, and remembers the first 32 KiB. A write at that very
// moment may be lost. Trim costs one system call while the file is small.
func (o *Output) Trim() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if info, err := o.file.Stat(); err != nil || DiskUsage(info) <= MaxOutput {
		return err
	}
	if !o.trimmed {
		head, err := section(o.file, 0, keep)
		if err != nil {
			return err
		}
		o.head = head
	}
	dropped, err := trim(o.file)
	if dropped > 0 && !o.trimmed {
		o.trimmed = true
		dropped -= int64(len(o.head))
	}
	o.lostBytes += dropped
	return err
}

// Text returns the output so far: all of it up to 64 KiB, else the first and last 32 KiB with the number of bytes left
// out between them. It is valid UTF-8, without NULs and without newlines at its end. An unreadable file adds nothing.
func (o *Output) Text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	size, err := size(o.file)
	if err != nil {
		size = 0
	}
	head, lost := o.head, o.lostBytes
	if !o.trimmed && size <= 2*keep {
		all, _ := section(o.file, 0, size)
		return clip.Ends(all, 0, nil)
	}
	from := int64(0)
	if !o.trimmed {
		head, _ = section(o.file, 0, keep)
		from = int64(len(head))
	}
	tail, _ := section(o.file, max(size-keep, from), keep)
	lost += size - from - int64(len(tail))
	return clip.Ends(head, lost, tail)
}

// TrimFile cuts a file that a daemon still appends to, if it is larger than 1 MiB, to its last 32 KiB. A missing file
// is not an error.
func TrimFile(path string) error {
	// Few files are larger. A stat costs a quarter of an open, and this runs for every process of the host again and
	// again.
	if info, err := os.Lstat(path); err == nil && DiskUsage(info) <= MaxOutput {
		return nil
	}
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot trim output: %w", err)
	}
	defer f.Close() //nolint:errcheck // every write was checked
	_, err = trim(f)
	return err
}

// maxLooks is how often trim reads the end of a growing file before it cuts the file.
const maxLooks = 8

// trim cuts a large file to its end and returns how many bytes it dropped.
func trim(f *os.File) (dropped int64, err error) {
	info, err := f.Stat()
	if err != nil || DiskUsage(info) <= MaxOutput {
		return 0, err
	}
	// A write between the read and the cut is lost. If somebody writes without a pause, drover loses something anyway.
	// Otherwise the size stays the same, and nothing is lost.
	var tail []byte
	size := info.Size()
	for range maxLooks {
		if tail, err = section(f, max(size-keep, 0), keep); err != nil {
			return 0, err
		}
		if info, err = f.Stat(); err != nil {
			return 0, fmt.Errorf("cannot look at output: %w", err)
		}
		if info.Size() == size {
			break
		}
		size = info.Size()
	}
	if size <= keep { // the file has space without text, which only another length gives back
		err = f.Truncate(0)
	}
	// The end moves to the beginning before the file becomes shorter: what somebody writes then comes after it.
	if err == nil {
		_, err = f.WriteAt(tail, 0)
	}
	if err != nil {
		return size, fmt.Errorf("cannot trim output: %w", errors.Join(err, f.Truncate(0)))
	}
	if err := f.Truncate(int64(len(tail))); err != nil {
		return 0, fmt.Errorf("cannot trim output: %w", err)
	}
	return size - int64(len(tail)), nil
}

// DiskUsage is the disk space that an output takes, or its length if that is larger, in bytes: a file can take space
// without any writes.
func DiskUsage(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return max(info.Size(), st.Blocks*512)
	}
	return info.Size()
}

func size(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, fmt.Errorf("cannot look at output: %w", err)
	}
	return info.Size(), nil
}

func section(f *os.File, from, length int64) ([]byte, error) {
	data, err := io.ReadAll(io.NewSectionReader(f, from, length))
	if err != nil {
		return data, fmt.Errorf("cannot read output: %w", err)
	}
	return data, nil
}

// StillWritten reports whether somebody has an output open for writing, as far as the file system can tell.
func StillWritten(path string) bool {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	// The kernel grants a read lease only if nobody has the file open for writing.
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
	return errors.Is(err, unix.EAGAIN)
}
