// Package pidfd holds a handle on one process: a descriptor that means the same process even if the kernel reuses its
// pid. It owns the system calls that take a pidfd. The caller proves which process the pid means, between opening the
// handle and using it.
package pidfd

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrStranger says that the pid belongs to a process other than the intended one.
var ErrStranger = errors.New("the pid belongs to another process")

// Open returns a descriptor for the process at pid, closed on exec. It becomes readable when the process ends. The
// error is ESRCH if there is no such process, and ENOSYS or EPERM if the kernel (before 5.3) or a sandbox lacks the
// call.
func Open(pid int) (int, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1, os.NewSyscallError("pidfd_open", err)
	}
	return fd, nil
}

// Unavailable reports whether err says that this host has no pidfds, as opposed to no such process.
func Unavailable(err error) bool {
	return errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.EPERM)
}

// Signal sends sig to the process at pid if proven returns true. It calls proven after it has a pidfd. If the kernel
// has no pidfds, it sends a plain kill right after the proof. The error is os.ErrProcessDone if the process has ended,
// ErrStranger if proven returned false, else the kernel's error.
func Signal(pid int, sig syscall.Signal, proven func() bool) error {
	if pid <= 1 {
		// kill(2) treats 0 and -1 as groups, and pid 1 never belongs to drover.
		return fmt.Errorf("cannot signal pid %d: %w", pid, ErrStranger)
	}
	fd, err := Open(pid)
	switch {
	case err == nil:
		defer unix.Close(fd) //nolint:errcheck // nothing was written
	case Unavailable(err):
	case errors.Is(err, syscall.ESRCH):
		return fmt.Errorf("cannot signal pid %d: %w", pid, os.ErrProcessDone)
	default:
		return fmt.Errorf("cannot signal pid %d: %w", pid, err)
	}
	if !proven() {
		return fmt.Errorf("cannot signal pid %d: %w", pid, ErrStranger)
	}
	if err == nil {
		err = unix.PidfdSendSignal(fd, sig, nil, 0)
	} else {
		err = unix.Kill(pid, sig)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ESRCH):
		return fmt.Errorf("cannot signal pid %d: %w", pid, os.ErrProcessDone)
	default:
		return fmt.Errorf("cannot signal pid %d: %w", pid, err)
	}
}

// Alive reports whether the process behind fd has not ended yet.
func Alive(fd int) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}} //nolint:gosec // descriptors are small
	for {
		n, err := unix.Poll(fds, 0)
		if !errors.Is(err, syscall.EINTR) {
			return err == nil && n == 0
		}
	}
}

// End is how a child has ended.
type End struct {
	Status syscall.WaitStatus
	// Peak is the most memory that the child, or one of its children that it waited for, had at a time, in bytes: the
	// maximum resident set size (getrusage(2)). 0 if this process itself has had as much, as the kernel then cannot
	// tell.
	Peak int64
}

// Reap reaps the process behind fd if it is an ended child of this process that nobody has reaped; its pid is free
// after that. It never blocks. The error is EAGAIN while the child lives, and ECHILD if it is not a child or was
// reaped. It is EINVAL if the kernel (before 5.4) cannot wait by pidfd.
func Reap(fd, pid int) (End, error) {
	var info unix.Siginfo
	err := retry(func() error {
		return unix.Waitid(unix.P_PIDFD, fd, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	})
	switch {
	case err != nil:
		return End{}, os.NewSyscallError("waitid", err)
	case info.Signo == 0:
		return End{}, os.NewSyscallError("waitid", syscall.EAGAIN)
	}
	// The pidfd has proven that pid is our zombie. Its number stays taken until the next call.
	return ReapPID(pid)
}

// ReapPID is Reap for a pid that the caller knows to be its own child.
func ReapPID(pid int) (End, error) {
	var end End
	var use syscall.Rusage
	var got int
	err := retry(func() (err error) {
		got, err = syscall.Wait4(pid, &end.Status, syscall.WNOHANG, &use)
		return err
	})
	switch {
	case err != nil:
		return End{}, os.NewSyscallError("wait4", err)
	case got != pid:
		return End{}, os.NewSyscallError("wait4", syscall.EAGAIN)
	}
	// A child counts the memory of its parent as its own: that which the parent had at the fork.
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err == nil && use.Maxrss > own.Maxrss {
		end.Peak = use.Maxrss << 10
	}
	return end, nil
}

// ChildEnded reports whether this process has a child that has ended and waits to be reaped. It reaps nothing.
func ChildEnded() (bool, error) {
	var info unix.Siginfo
	err := retry(func() error {
		return unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	})
	if errors.Is(err, syscall.ECHILD) {
		return false, nil
	}
	return info.Signo != 0, os.NewSyscallError("waitid", err)
}

// Exit returns the wait status of a process that has ended and was reaped by anybody. The error is EAGAIN while the
// process is not reaped, and ENOTTY or ENODATA if the kernel (before 6.15) cannot report it.
func Exit(fd int) (syscall.WaitStatus, error) {
	arg := unix.PidfdInfo{Mask: unix.PIDFD_INFO_EXIT}
	err := retry(func() error {
		//nolint:gosec // the kernel fills in the struct
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.PIDFD_GET_INFO, uintptr(unsafe.Pointer(&arg)))
		if errno != 0 {
			return errno
		}
		return nil
	})
	switch {
	case errors.Is(err, syscall.ESRCH):
		return 0, os.NewSyscallError("ioctl", syscall.ENODATA) // reaped, and the kernel kept nothing
	case err != nil:
		return 0, os.NewSyscallError("ioctl", err)
	case arg.Mask&unix.PIDFD_INFO_EXIT == 0:
		return 0, os.NewSyscallError("ioctl", syscall.EAGAIN)
	}
	return syscall.WaitStatus(arg.Exit_code), nil //nolint:gosec // a bit pattern
}

// TellsExit reports whether this kernel can ever answer Exit. It asks about this process itself.
func TellsExit() bool {
	fd, err := Open(os.Getpid())
	if err != nil {
		return false
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	_, err = Exit(fd)
	return errors.Is(err, syscall.EAGAIN)
}

func retry(call func() error) error {
	for {
		if err := call(); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
