package agent

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"drover/internal/agent/procfs"
	"drover/internal/wire"
)

// hostname is what the host calls itself. It is only shown.
func hostname() string {
	name, _ := os.Hostname()
	return name
}

// Machine returns what this host is, as far as it can be told.
func Machine() wire.Host { return machine(procfs.New("/proc")) }

// machine tells what the agent runs on. What cannot be read is left out: nothing depends on it.
func machine(fs procfs.FS) wire.Host {
	h := wire.Host{OS: runtime.GOOS, CPUs: runtime.NumCPU()}
	var name unix.Utsname
	if err := unix.Uname(&name); err == nil {
		h.Arch = unix.ByteSliceToString(name.Machine[:])
	}
	if memory, err := fs.MemTotal(); err == nil {
		h.Memory = memory
	}
	return h
}
