package agent

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"drover/internal/agent/procfs"
	"drover/internal/wire"
)

// hostname is the name of the host, for display only.
func hostname() string {
	name, _ := os.Hostname()
	return name
}

// Machine describes this host, as far as its facts are readable.
func Machine() wire.Host { return machine(procfs.New("/proc")) }

// machine describes the machine. It leaves out unreadable facts, because nothing depends on them.
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
