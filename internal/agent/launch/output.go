package launch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// How much of an output is kept, in bytes, and how large its file may grow before it is cut.
const (
	keep       = 32 << 10
	trimBeyond = 1 << 20
)

// Output is the file that one command writes to. It is only ever appended to, so that it can be cut while the command or a
// daemon of it holds it open; and it is no pipe, so that nobody has to be there to read. It may be used concurrently.
type Output struct {
	file *os.File

	mu   sync.Mutex
	cut  bool
	head []byte // the first bytes, once the file was cut
	tail []byte // the last bytes before the cut
	lost int64  // what was between the two
}

// CreateOutput makes an empty file, readable by this user only; one that exists is emptied. name is one path element.
func CreateOutput(dir, name string) (*Output, error) {
	if name == "" || name == "." || name == ".." || strings.ContainsRune(name, '/') {
		return nil, fmt.Errorf("cannot create output file: %q is no file name", name)
	}
	path := filepath.Join(dir, name)
	// Not for writing only: Text reads through the same descriptor, whatever became of the name.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot create output file: %w", err)
	}
	return &Output{file: f}, nil
}

// File is what to hand to the command. It belongs to the Output.
func (o *Output) File() *os.File { return o.file }

// Close closes the file, which stays where it is.
func (o *Output) Close() error { return o.file.Close() }

// Trim cuts a file that has grown beyond 1 MiB, after remembering its first and last 32 KiB. What is written in the very
// moment may be lost. It costs one system call while the file is small.
func (o *Output) Trim() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	size, err := size(o.file)
	if err != nil || size <= trimBeyond {
		return err
	}
	if !o.cut {
		if o.head, err = section(o.file, 0, keep); err != nil {
			return err
		}
		o.cut = true
		o.lost = size - 2*keep
	} else {
		o.lost += size
	}
	if o.tail, err = section(o.file, size-keep, keep); err != nil {
		return err
	}
	if err := o.file.Truncate(0); err != nil {
		return fmt.Errorf("cannot trim output: %w", err)
	}
	return nil
}

// Text returns what was written so far: all of it up to 64 KiB, else the first and last 32 KiB and between them how much was
// left out. It is valid UTF-8 without NULs and without newlines at its end. A file that cannot be read any more adds
// nothing.
func (o *Output) Text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	size, err := size(o.file)
	if err != nil {
		size = 0
	}
	head, tail, lost := o.head, o.tail, o.lost
	switch {
	case !o.cut && size <= 2*keep:
		head, _ = section(o.file, 0, size)
	case !o.cut:
		head, _ = section(o.file, 0, keep)
		tail, _ = section(o.file, size-keep, keep)
		lost = size - 2*keep
	default:
		fresh, _ := section(o.file, max(size-keep, 0), min(size, keep))
		both := append(bytes.Clone(tail), fresh...)
		over := max(len(both)-keep, 0)
		// What is not shown of the old tail, and of the file itself.
		lost += int64(over) + size - int64(len(fresh))
		tail = both[over:]
	}
	if lost == 0 {
		return clean(append(bytes.Clone(head), tail...))
	}
	head, tail = wholeRunes(head, tail)
	return clean(fmt.Appendf(bytes.Clone(head), "\n[... %d bytes left out ...]\n%s", lost, tail))
}

// TrimFile cuts a file that a daemon still appends to once it has grown beyond 1 MiB, and leaves its last 32 KiB. A file that
// is not there is no error.
func TrimFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot trim output: %w", err)
	}
	defer f.Close() //nolint:errcheck // each write was checked
	size, err := size(f)
	if err != nil || size <= trimBeyond {
		return err
	}
	tail, err := section(f, size-keep, keep)
	if err != nil {
		return err
	}
	if err := f.Truncate(0); err != nil {
		return fmt.Errorf("cannot trim output: %w", err)
	}
	if _, err := f.Write(tail); err != nil {
		return fmt.Errorf("cannot trim output: %w", err)
	}
	return nil
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
