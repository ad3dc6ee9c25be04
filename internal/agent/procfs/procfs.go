// Package procfs reads from /proc, or another root, the kernel's data about processes, the machine and this process.
// It owns the parsing, the notion of an Identity, and the arithmetic that turns two readings into percentages. It
// changes nothing, sends no signal and keeps no watch: liveness and cgroup do.
package procfs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"drover/internal/agent/instance"
)

// The largest part that drover reads of a file, in bytes.
const (
	maxSmall = 64 << 10
	// A search of environments reads those of all processes: an account may have thousands, each with 2 MiB.
	maxEnviron = 128 << 10
	maxList    = 16 << 20
)

// FS reads below one root. The zero value is not usable; make it with New. It may be copied and used concurrently.
type FS struct {
	root string
	boot *bootID
}

type bootID struct {
	mu    sync.Mutex
	value string
}

// New returns a reader of the proc filesystem mounted at root, "/proc" outside tests. It reads nothing yet.
func New(root string) FS { return FS{root: filepath.Clean(root), boot: new(bootID)} }

// BootID identifies the life of all processes that this agent can see: the kernel's random id of the boot, and the
// start of the init of the PID namespace. A container that starts again has the boot of its host and a new init;
// nothing of its former processes is left (pid_namespaces(7)). BootID is read once and remembered.
func (f FS) BootID() (string, error) {
	f.boot.mu.Lock()
	defer f.boot.mu.Unlock()
	if f.boot.value != "" {
		return f.boot.value, nil
	}
	data, err := f.read(maxSmall, "sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("cannot read boot id: %w", err)
	}
	id := strings.TrimSpace(string(data))
	if id == "" {
		return "", errors.New("cannot read boot id: it is empty")
	}
	if init, err := f.Stat(1); err == nil { // /proc may hide it (hidepid=2) from an agent that is not root
		id += fmt.Sprintf("/%d", init.StartTicks)
	}
	f.boot.value = id
	return id, nil
}

// BootTime returns the wall clock time of the kernel's boot, from which start times count. It moves with every
// correction of the wall clock.
func (f FS) BootTime() (time.Time, error) {
	var ts unix.Timespec
	// Not /proc/uptime: a container may overlay it with its own age, but start times count from the boot of the host.
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return time.Time{}, fmt.Errorf("cannot read boot clock: %w", err)
	}
	return time.Now().Round(0).Add(-time.Duration(ts.Nano())), nil
}

// StartTime turns the start time of a process into wall clock time, precise to 10 ms.
func (f FS) StartTime(ticks uint64) (time.Time, error) {
	boot, err := f.BootTime()
	if err != nil {
		return time.Time{}, err
	}
	return boot.Add(ticksDuration(ticks)), nil
}

func ticksDuration(ticks uint64) time.Duration {
	return time.Duration(ticks) * (time.Second / instance.TicksPerSecond)
}

// MemTotal returns the physical memory of the machine in bytes.
func (f FS) MemTotal() (int64, error) {
	n, err := f.memory("MemTotal:")
	if err == nil && n <= 0 {
		err = fmt.Errorf("cannot read memory size: MemTotal is %d", n)
	}
	return n, err
}

// memory returns a line of proc_meminfo(5), in bytes.
func (f FS) memory(name string) (int64, error) {
	data, err := f.read(maxSmall, "meminfo")
	if err != nil {
		return 0, fmt.Errorf("cannot read memory size: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok {
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
		if err != nil || kib > math.MaxInt64>>10 {
			return 0, fmt.Errorf("cannot read memory size: unexpected line %q", line)
		}
		return kib << 10, nil
	}
	return 0, fmt.Errorf("cannot read memory size: meminfo has no %s", strings.TrimSuffix(name, ":"))
}

// PIDs returns the pids of all processes that can be seen, in ascending order. Threads are not among them.
func (f FS) PIDs() ([]int, error) {
	names, err := f.names(".")
	if err != nil {
		return nil, fmt.Errorf("cannot list processes: %w", err)
	}
	return numbers(names), nil
}

// LastPID returns the number that the kernel gave to the process or thread that began last, in the PID namespace of
// this process. It is 0 if the kernel does not tell.
func (f FS) LastPID() int {
	data, _ := f.read(maxSmall, "sys/kernel/ns_last_pid")
	n, _ := strconv.Atoi(strings.TrimSpace(string(data)))
	return n
}

// OwnChildren returns the pids of the children of this process, zombies included. The kernel may leave out a child
// whose sibling ends during the look, so only a repeated answer is complete.
func (f FS) OwnChildren() ([]int, error) {
	threads, err := f.names("self/task")
	if err != nil {
		return nil, fmt.Errorf("cannot list own children: %w", err)
	}
	var pids []int
	for _, tid := range threads {
		data, err := f.read(maxList, filepath.Join("self/task", tid, "children"))
		switch {
		case err == nil:
			pids = append(pids, numbers(strings.Fields(string(data)))...)
		case errors.Is(err, fs.ErrNotExist):
			if f.exists(filepath.Join("self/task", tid)) {
				return f.childrenByScan() // the kernel has no children files
			}
		default:
			return nil, fmt.Errorf("cannot list own children: %w", err)
		}
	}
	slices.Sort(pids)
	return slices.Compact(pids), nil
}

func (f FS) childrenByScan() ([]int, error) {
	all, err := f.PIDs()
	if err != nil {
		return nil, err
	}
	self := os.Getpid()
	return slices.DeleteFunc(all, func(pid int) bool {
		st, err := f.Stat(pid)
		return err != nil || st.PPID != self
	}), nil
}

func (f FS) exists(name string) bool {
	_, err := os.Lstat(filepath.Join(f.root, name))
	return err == nil
}

// OpenFiles returns how many files a process has open; 0 if that is not known. The kernel tells it since Linux 6.2
// (proc_pid_fd(5)).
func (f FS) OpenFiles(pid int) int {
	info, err := os.Lstat(filepath.Join(f.root, strconv.Itoa(pid), "fd"))
	if err != nil {
		return 0
	}
	return int(info.Size())
}

func (f FS) names(dir string) ([]string, error) {
	d, err := os.Open(filepath.Join(f.root, dir))
	if err != nil {
		return nil, err
	}
	names, err := d.Readdirnames(-1)
	return names, errors.Join(err, d.Close())
}

// read returns at most limit bytes. It does not use os.File, which would register every file with the poller: this
// saves a third of the time to look at a thousand processes.
func (f FS) read(limit int, name string) ([]byte, error) {
	path := filepath.Join(f.root, name)
	fd, err := ignoringEINTR(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: toNotExist(err)}
	}
	defer unix.Close(fd) //nolint:errcheck // opened only for reading
	buf := make([]byte, 0, min(limit, 1024))
	for len(buf) < limit {
		if len(buf) == cap(buf) {
			buf = slices.Grow(buf, min(len(buf), limit-len(buf)))
		}
		free := buf[len(buf):min(cap(buf), limit)]
		n, err := ignoringEINTR(func() (int, error) { return unix.Read(fd, free) })
		if err != nil {
			return nil, &fs.PathError{Op: "read", Path: path, Err: toNotExist(err)}
		}
		if n == 0 {
			break
		}
		buf = buf[:len(buf)+n]
	}
	return buf, nil
}

// toNotExist maps the two errors of the kernel for an ended process to one.
func toNotExist(err error) error {
	if errors.Is(err, syscall.ESRCH) {
		return fs.ErrNotExist
	}
	return err
}

func ignoringEINTR(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, syscall.EINTR) {
			return n, err
		}
	}
}

// numbers returns the words that are positive decimal numbers, in ascending order.
func numbers(words []string) []int {
	var out []int
	for _, w := range words {
		if n, err := strconv.Atoi(w); err == nil && n > 0 {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

// strings0 splits a NUL-terminated list, such as cmdline and environ.
func strings0(data []byte) []string {
	data = bytes.TrimSuffix(data, []byte{0})
	if len(data) == 0 {
		return nil
	}
	return strings.Split(string(data), "\x00")
}
