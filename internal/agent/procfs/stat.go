package procfs

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"drover/internal/agent/instance"
)

// kernelThread is the bit of the flags in /proc/PID/stat that marks a kernel thread (PF_KTHREAD).
const kernelThread = 0x00200000

// Stat is one look at /proc/PID/stat.
type Stat struct {
	PID, PPID, PGID, Session int
	// Comm is the name of the program, cut to 15 bytes; the process itself may have changed it.
	Comm string
	// State is the letter of proc(5).
	State byte
	// Kernel is set for a thread of the kernel.
	Kernel bool
	// StartTicks is when the process began, since boot; all ticks are hundredths of a second.
	StartTicks             uint64
	UserTicks, SystemTicks uint64
	// ReapedTicks are the ticks of ended children that were waited for, and of their reaped children.
	ReapedTicks uint64
	Threads     int
	VSize, RSS  int64 // bytes
}

// Zombie reports whether the process has ended and only its exit status is left. A process whose first thread has ended
// before the others shows the same letter but lives on.
func (s Stat) Zombie() bool {
	return (s.State == 'Z' || s.State == 'X' || s.State == 'x') && s.Threads <= 1
}

// Suspended reports whether a signal such as SIGSTOP has stopped the process. A tracer that has stopped it does not
// count: it does so for a moment at each call.
func (s Stat) Suspended() bool { return s.State == 'T' }

// Stat looks at one process or thread. The error is fs.ErrNotExist when there is none.
func (f FS) Stat(pid int) (Stat, error) {
	data, err := f.read(maxSmall, strconv.Itoa(pid)+"/stat")
	if err != nil {
		return Stat{}, fmt.Errorf("cannot read process %d: %w", pid, err)
	}
	s, err := parseStat(data)
	if err != nil {
		return Stat{}, fmt.Errorf("cannot read process %d: %w", pid, err)
	}
	return s, nil
}

// ZombieStatus returns the wait status of a process that has ended and that its parent has not reaped yet. It reports
// false for any other process. It also reports false for the status 0, which the kernel shows as well to a reader that
// may not see the status (proc_pid_stat(5), exit_code).
func (f FS) ZombieStatus(id instance.Identity) (status syscall.WaitStatus, ok bool) {
	data, err := f.read(maxSmall, strconv.Itoa(id.PID)+"/stat")
	if err != nil {
		return 0, false
	}
	s, err := parseStat(data)
	if err != nil || !s.Zombie() || s.StartTicks != id.StartTicks {
		return 0, false
	}
	var fields [fieldExitCode + 1][]byte
	if !split(data[bytes.LastIndexByte(data, ')')+1:], fields[:]) {
		return 0, false
	}
	code, err := strconv.ParseUint(string(fields[fieldExitCode]), 10, 16)
	return syscall.WaitStatus(code), err == nil && code != 0
}

// The indexes of the fields after the name: the number in proc(5) minus three.
const (
	fieldState = iota
	fieldPPID
	fieldPGID
	fieldSession
	fieldFlags  = 6
	fieldUser   = 11
	fieldSystem = 12
	// The CPU times of reaped children, in user and in system mode.
	fieldReapedUser   = 13
	fieldReapedSystem = 14
	fieldThreads      = 17
	fieldStart        = 19
	fieldVSize        = 20
	fieldRSS          = 21
	fieldExitCode     = 49
)

// parseStat allocates only the name, because it runs for every process of the host.
func parseStat(data []byte) (Stat, error) {
	// The name may contain brackets, blanks and newlines: only the outermost brackets count.
	open, shut := bytes.IndexByte(data, '('), bytes.LastIndexByte(data, ')')
	if open < 1 || shut < open {
		return Stat{}, fmt.Errorf("unexpected stat %q", data)
	}
	var fields [fieldRSS + 1][]byte
	if !split(data[shut+1:], fields[:]) || len(fields[fieldState]) != 1 {
		return Stat{}, fmt.Errorf("unexpected stat %q", data)
	}
	n := numbersOf{}
	s := Stat{
		PID:         int(n.signed(bytes.TrimSpace(data[:open]))),
		Comm:        string(data[open+1 : shut]),
		State:       fields[fieldState][0],
		PPID:        int(n.signed(fields[fieldPPID])),
		PGID:        int(n.signed(fields[fieldPGID])),
		Session:     int(n.signed(fields[fieldSession])),
		Kernel:      n.unsigned(fields[fieldFlags])&kernelThread != 0,
		UserTicks:   n.unsigned(fields[fieldUser]),
		SystemTicks: n.unsigned(fields[fieldSystem]),
		ReapedTicks: uint64(max(n.signed(fields[fieldReapedUser]), 0) + max(n.signed(fields[fieldReapedSystem]), 0)),
		Threads:     int(n.signed(fields[fieldThreads])),
		StartTicks:  n.unsigned(fields[fieldStart]),
		VSize:       int64(n.unsigned(fields[fieldVSize])), //nolint:gosec // above 2^63 it has no meaning
		RSS:         n.signed(fields[fieldRSS]) * int64(os.Getpagesize()),
	}
	return s, n.bad
}

// split cuts the first words off data, and reports whether there were enough.
func split(data []byte, words [][]byte) bool {
	data = bytes.TrimRight(data, " \n")
	for i := range words {
		for len(data) > 0 && data[0] == ' ' {
			data = data[1:]
		}
		if len(data) == 0 {
			return false
		}
		end := bytes.IndexByte(data, ' ')
		if end < 0 {
			end = len(data)
		}
		words[i], data = data[:end], data[end:]
	}
	return true
}

// numbersOf parses numbers and remembers the last error.
type numbersOf struct{ bad error }

func (n *numbersOf) signed(word []byte) int64 {
	v, err := strconv.ParseInt(string(word), 10, 64)
	n.recordError(word, err)
	return v
}

// unsigned parses numbers that may exceed 2^63, such as the size of an address space.
func (n *numbersOf) unsigned(word []byte) uint64 {
	v, err := strconv.ParseUint(string(word), 10, 64)
	n.recordError(word, err)
	return v
}

// recordError keeps the last word that is not a number.
func (n *numbersOf) recordError(word []byte, err error) {
	if err != nil {
		n.bad = fmt.Errorf("unexpected number %q in stat", word)
	}
}
