package instance

import "time"

// TicksPerSecond is the unit of the times in /proc/PID/stat: USER_HZ, 100 on every architecture that Go runs on.
const TicksPerSecond = 100

// Identity names a process for good. Unlike a bare pid it never comes to mean another process, not even after a reboot.
type Identity struct {
	BootID     string `json:"boot_id"`
	PID        int    `json:"pid"`
	StartTicks uint64 `json:"start_ticks"`
}

// StartedAfterBoot is when the process began, since boot, to a hundredth of a second.
func (id Identity) StartedAfterBoot() time.Duration {
	return time.Duration(id.StartTicks) * (time.Second / TicksPerSecond) //nolint:gosec // no host is up for that long
}
