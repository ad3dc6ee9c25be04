package procfs

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// kernelThread is the bit of the flags in /proc/PID/stat that the kernel's own threads carry (PF_KTHREAD).
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
	Threads                int
	VSize, RSS             int64 // bytes
}

// Zombie reports whether the process has ended and only its exit status is left. A process whose first thread has ended
// before the others shows the same letter but lives on.
func (s Stat) Zombie() bool {
	return (s.State == 'Z' || s.State == 'X' || s.State == 'x') && s.Threads <= 1
}

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

// The places of fields behind the name, as in proc(5) less three.
const (
	fieldState = iota
	fieldPPID
	fieldPGID
	fieldSession
	fieldFlags   = 6
	fieldUser    = 11
	fieldSystem  = 12
	fieldThreads = 17
	fieldStart   = 19
	fieldVSize   = 20
	fieldRSS     = 21
)

func parseStat(data []byte) (Stat, error) {
	// The name may itself hold brackets, blanks and newlines: only the outermost brackets count.
	open, shut := bytes.IndexByte(data, '('), bytes.LastIndexByte(data, ')')
	if open < 1 || shut < open {
		return Stat{}, fmt.Errorf("unexpected stat %q", data)
	}
	fields := bytes.Fields(data[shut+1:])
	if len(fields) <= fieldRSS || len(fields[fieldState]) != 1 {
		return Stat{}, fmt.Errorf("unexpected stat %q", data)
	}
	var bad error
	number := func(word []byte) int64 {
		n, err := strconv.ParseInt(string(word), 10, 64)
		if err != nil {
			bad = fmt.Errorf("unexpected number %q in stat", word)
		}
		return n
	}
	// Unsigned on the wire: an address space of 2^63 bytes is legal for some tools.
	unsigned := func(word []byte) uint64 {
		n, err := strconv.ParseUint(string(word), 10, 64)
		if err != nil {
			bad = fmt.Errorf("unexpected number %q in stat", word)
		}
		return n
	}
	s := Stat{
		PID:         int(number(bytes.TrimSpace(data[:open]))),
		Comm:        string(data[open+1 : shut]),
		State:       fields[fieldState][0],
		PPID:        int(number(fields[fieldPPID])),
		PGID:        int(number(fields[fieldPGID])),
		Session:     int(number(fields[fieldSession])),
		Kernel:      unsigned(fields[fieldFlags])&kernelThread != 0,
		UserTicks:   unsigned(fields[fieldUser]),
		SystemTicks: unsigned(fields[fieldSystem]),
		Threads:     int(number(fields[fieldThreads])),
		StartTicks:  unsigned(fields[fieldStart]),
		VSize:       int64(unsigned(fields[fieldVSize])), //nolint:gosec // beyond 2^63 it has no meaning anyway
		RSS:         number(fields[fieldRSS]) * int64(os.Getpagesize()),
	}
	return s, bad
}
