package liveness

import (
	"syscall"
	"time"

	"drover/internal/agent/pidfd"
	"drover/internal/process"
)

// Exit is how a process ended.
type Exit struct {
	// Known says that the kernel reported the exit; if not, only At is set.
	Known bool
	// Code is the exit status, 0 to 255; meaningless when Signal is set.
	Code int
	// Signal is the signal that killed the process; 0 if the process ended by itself.
	Signal     syscall.Signal
	CoreDumped bool
	// Peak is pidfd.End's.
	Peak int64
	// At is when the end was noticed.
	At time.Time
}

// String says it in words, such as "exit status 3".
func (e Exit) String() string {
	return e.Process().String()
}

// Process returns the exit as the server and its callers know it.
func (e Exit) Process() *process.Exit {
	return &process.Exit{
		Known: e.Known, Code: e.Code, Signal: int(e.Signal), Core: e.CoreDumped, Peak: e.Peak,
		At: e.At.UnixMilli(),
	}
}

// ExitOf is the reverse of Process.
func ExitOf(e *process.Exit) Exit {
	return Exit{
		Known: e.Known, Code: e.Code, Signal: syscall.Signal(e.Signal), CoreDumped: e.Core, Peak: e.Peak,
		At: time.UnixMilli(e.At),
	}
}

func exitOf(end pidfd.End, at time.Time) Exit {
	e, status := Exit{Known: true, Peak: end.Peak, At: at}, end.Status
	if status.Signaled() {
		e.Signal, e.CoreDumped = status.Signal(), status.CoreDump()
	} else {
		e.Code = status.ExitStatus()
	}
	return e
}
