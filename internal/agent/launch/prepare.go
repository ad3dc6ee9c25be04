package launch

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Prepare sets this process up, so that its commands inherit only what Start gives them. Call it once, early in main.
// It sets the umask to 022. It makes inherited descriptors above 2 close on exec. It catches and drops the signals
// that this process ignores, so that a command has them at their default. It also makes this process the reaper of
// orphans, so that a daemon that detaches itself becomes its child.
func Prepare() error {
	unix.Umask(0o022)
	if err := closeOnExec(); err != nil {
		return fmt.Errorf("cannot keep inherited descriptors from commands: %w", err)
	}
	ignored, err := ignoredSignals()
	if err != nil {
		return fmt.Errorf("cannot find ignored signals: %w", err)
	}
	if len(ignored) > 0 {
		// Nobody reads the channel: it is enough that the signals are caught.
		signal.Notify(make(chan os.Signal, 1), ignored...)
	}
	for _, s := range []syscall.Signal{sigCancel, sigSetXID} {
		if slices.Contains(ignored, os.Signal(s)) {
			if err := reset(s); err != nil {
				return fmt.Errorf("cannot reset signal %d: %w", int(s), err)
			}
		}
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot become the reaper of orphans: %w", err)
	}
	return nil
}

func closeOnExec() error {
	const first = 3
	err := unix.CloseRange(first, ^uint(0)>>1&0x7fffffff, unix.CLOSE_RANGE_CLOEXEC)
	if err == nil || !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EPERM) {
		return err
	}
	// Linux is older than 5.11, or a sandbox forbids the call.
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd >= first {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

// The signals that glibc reserves. make starts programs with glibc's posix_spawn, which leaves them ignored, and Go
// cannot catch them.
const (
	sigCancel = syscall.Signal(32)
	sigSetXID = syscall.Signal(33)
)

// reset restores the default disposition of a signal that has no handler here.
func reset(s syscall.Signal) error {
	var byDefault [8]uint64 // all zero is SIG_DFL on every architecture, and larger than the kernel's struct on all
	const maskSize = 8
	//nolint:gosec // for the kernel
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&byDefault)), 0, maskSize,
		0, 0)
	if errno != 0 {
		return os.NewSyscallError("rt_sigaction", errno)
	}
	return nil
}

// ignoredSignals returns the signals that this process ignores, as far as a program can catch them.
func ignoredSignals() ([]os.Signal, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(status)) {
		rest, ok := strings.CutPrefix(line, "SigIgn:")
		if !ok {
			continue
		}
		mask, err := strconv.ParseUint(strings.TrimSpace(rest), 16, 64)
		if err != nil {
			return nil, err
		}
		var out []os.Signal
		for n := range 64 {
			if mask&(1<<n) != 0 {
				out = append(out, syscall.Signal(n+1))
			}
		}
		return out, nil
	}
	return nil, errors.New("/proc/self/status has no SigIgn")
}
