package procfs

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Ticks are the ticks of all processors since the boot, in total and while they were busy.
type Ticks struct{ Total, Busy uint64 }

// Ticks reads the first line of proc_stat(5).
func (f FS) Ticks() (Ticks, error) {
	data, err := f.read(maxList, "stat")
	if err != nil {
		return Ticks{}, fmt.Errorf("cannot read processor times: %w", err)
	}
	line, _, _ := strings.Cut(string(data), "\n")
	// cpu user nice system idle iowait irq softirq steal guest guest_nice: the last two are in user and nice, too.
	const first, idle, iowait, last = 1, 4, 5, 9
	fields := strings.Fields(line)
	if len(fields) <= iowait || fields[0] != "cpu" {
		return Ticks{}, fmt.Errorf("cannot read processor times: unexpected line %.80q", line)
	}
	var t Ticks
	for i := first; i < min(len(fields), last); i++ {
		n, err := strconv.ParseUint(fields[i], 10, 64)
		if err != nil {
			return Ticks{}, fmt.Errorf("cannot read processor times: unexpected line %.80q", line)
		}
		t.Total += n
		if i != idle && i != iowait {
			t.Busy += n
		}
	}
	return t, nil
}

// MemAvailable returns how much memory programs can get without swapping, in bytes (proc_meminfo(5)).
func (f FS) MemAvailable() (int64, error) {
	n, err := f.memory("MemAvailable:")
	if err == nil && n < 0 {
		err = errors.New("cannot read memory size: MemAvailable is negative")
	}
	return n, err
}

// OOMKills returns how many processes of the whole host the kernel has ended since the boot because memory ran out
// (/proc/vmstat, oom_kill; Linux 4.13).
func (f FS) OOMKills() (uint64, error) {
	data, err := f.read(maxSmall, "vmstat")
	if err != nil {
		return 0, fmt.Errorf("cannot count OOM kills: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, "oom_kill "); ok {
			return strconv.ParseUint(strings.TrimSpace(value), 10, 64)
		}
	}
	return 0, errors.New("cannot count OOM kills: /proc/vmstat does not tell")
}
