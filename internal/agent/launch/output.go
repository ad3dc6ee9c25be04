package launch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// keep is how much of either end of an output is kept, in bytes.
const keep = 32 << 10

// MaxOutput is how large an output may grow before it is cut, in bytes.
const MaxOutput = 1 << 20

// Output is the file that one command writes to. It is only ever appended to, so that it can be cut while the command
// or a daemon of it holds it open; and it is no pipe, so that nobody has to be there to read. It may be used
// concurrently.
type Output struct {
	file *os.File
	// handed is what the command gets: it cannot read what others have had to say there. Nil where no command is to get
	// it.
	handed *os.File

	mu      sync.Mutex
	trimmed bool
	head    []byte // the first bytes, once the file was cut
	lost    int64  // how much was between them and what the file still holds
}

// CreateOutput makes an empty file, readable by this user only; one that exists is emptied. name is one path element.
func CreateOutput(dir, name string) (*Output, error) {
	if name == "" || name == "." || name == ".." || strings.ContainsRune(name, '/') {
		return nil, fmt.Errorf("cannot create output file: %q is not a file name", name)
	}
	path := filepath.Join(dir, name)
	// Not for writing only: Text reads through the same descriptor, whatever became of the name.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
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

// Probe fails where the file takes no data, as on a full disk. Where the file system can, room for the beginning is set
// aside.
func (o *Output) Probe() error {
	const room = 4 << 10
	//nolint:gosec // descriptors are small
	if unix.Fallocate(int(o.file.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, room) == nil {
		return nil
	}
	// Not the first choice: ext4 writes to the disk at once what was emptied and is then closed.
	if _, err := o.file.WriteString("\n"); err != nil {
		return fmt.Errorf("cannot write output: %w", err)
	}
	if err := o.file.Truncate(0); err != nil {
		return fmt.Errorf("cannot write output: %w", err)
	}
	return nil
}

// File is what to hand to the command, open for appending only; nil where an earlier agent has made the file. It
// belongs to the Output.
func (o *Output) File() *os.File { return o.handed }

// Close closes the file, which stays where it is.
func (o *Output) Close() error {
	if o.handed == nil {
		return o.file.Close()
	}
	return errors.Join(o.handed.Close(), o.file.Close())
}

// Trim cuts a file that has grown beyond 1 MiB to its last 32 KiB, and remembers the first 32 KiB. What is written in
// the very moment may be lost. It costs one system call while the file is small.
func (o *Output) Trim() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if info, err := o.file.Stat(); err != nil || Held(info) <= MaxOutput {
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
	o.lost += dropped
	return err
}

// Text returns what was written so far: all of it up to 64 KiB, else the first and last 32 KiB and between them how
// much was left out. It is valid UTF-8 without NULs and without newlines at its end. A file that cannot be read any
// more adds nothing.
func (o *Output) Text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	size, err := size(o.file)
	if err != nil {
		size = 0
	}
	head, lost := o.head, o.lost
	if !o.trimmed && size <= 2*keep {
		all, _ := section(o.file, 0, size)
		return clean(all)
	}
	from := int64(0)
	if !o.trimmed {
		head, _ = section(o.file, 0, keep)
		from = int64(len(head))
	}
	tail, _ := section(o.file, max(size-keep, from), keep)
	lost += size - from - int64(len(tail))
	head, tail = wholeRunes(head, tail)
	return clean(fmt.Appendf(bytes.Clone(head), "\n[... %d bytes left out ...]\n%s", lost, tail))
}

// TrimFile cuts a file that a daemon still appends to once it has grown beyond 1 MiB to its last 32 KiB. A file that
// is not there is no error.
func TrimFile(path string) error {
	// Hardly any has: a look costs a quarter of opening it, and is had for every process of the host again and again.
	if info, err := os.Lstat(path); err == nil && Held(info) <= MaxOutput {
		return nil
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot trim output: %w", err)
	}
	defer f.Close() //nolint:errcheck // each write was checked
	_, err = trim(f)
	return err
}

// maxLooks is how often the end of a file that grows is read before it is cut.
const maxLooks = 8

// trim cuts a large file to its end and returns how much was dropped.
func trim(f *os.File) (dropped int64, err error) {
	info, err := f.Stat()
	if err != nil || Held(info) <= MaxOutput {
		return 0, err
	}
	// What is written between the look and the cut is lost. Whoever writes without a pause loses something anyhow; of
	// others nothing is written while the size stands.
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
	if err := f.Truncate(0); err != nil {
		return 0, fmt.Errorf("cannot trim output: %w", err)
	}
	if _, err := f.Write(tail); err != nil {
		return size, fmt.Errorf("cannot trim output: %w", err)
	}
	return size - int64(len(tail)), nil
}

// Held is how much of the disk an output takes, in bytes, or how long it is where that is more: room can be taken
// without writing.
func Held(info fs.FileInfo) int64 {
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

// wholeRunes takes a character that was cut in two off the end of head and the start of tail.
func wholeRunes(head, tail []byte) (h, t []byte) {
	for i := 1; i <= min(utf8.UTFMax-1, len(head)); i++ {
		if last := head[len(head)-i:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				head = head[:len(head)-i]
			}
			break
		}
	}
	for i := 0; i < min(utf8.UTFMax-1, len(tail)); i++ {
		if utf8.RuneStart(tail[i]) {
			tail = tail[i:]
			break
		}
	}
	return head, tail
}

func clean(text []byte) string {
	s := strings.ToValidUTF8(string(bytes.ReplaceAll(text, []byte{0}, nil)), "\uFFFD")
	return strings.TrimRight(s, "\r\n")
}

// StillWritten reports whether somebody has an output open for writing, as far as the file system can tell.
func StillWritten(path string) bool {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	// Such a lease is given only for a file that nobody can write.
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
	return errors.Is(err, unix.EAGAIN)
}
