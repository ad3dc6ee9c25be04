package agent

import (
	"os"

	"golang.org/x/sys/unix"

	"drover/internal/process"
)

// spareDescriptors is how many descriptors the agent keeps for its link, its callers, its files and the processes that
// it supervises already. Go has raised the soft limit to the hard one.
const spareDescriptors = 64

// many is a limit that is hardly ever reached, so that the lowest free number is good enough.
const many = 1 << 16

// descriptors returns how many descriptors this process has open, and how many it may have.
func descriptors() (open, limit int) {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
		return 0, 0
	}
	limit = int(min(l.Cur, 1<<30)) //nolint:gosec // bounded
	probe, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return limit, limit
	}
	_ = unix.Close(probe)
	if limit > many && probe < limit/2 {
		return probe, limit
	}
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return probe, limit
	}
	return len(list), limit
}

// fewDescriptors says that too few descriptors are left to start anything; nil if there are enough.
func fewDescriptors() error {
	open, limit := descriptors()
	if open+spareDescriptors <= limit {
		return nil
	}
	return process.Errorf(process.Failed, "the agent has %d of %d descriptors open and keeps %d for what runs: "+
		"raise LimitNOFILE of its unit (ulimit -n), and start the agent again", open, limit, spareDescriptors)
}
