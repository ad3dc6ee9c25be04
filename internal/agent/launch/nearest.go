package launch

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"drover/internal/process"
	"drover/internal/spec"
)

// Nearest returns an execution with the limits, priorities and capabilities that this process may give a command, as
// near as they can be to those of e, and says in a caller's words which differ.
func Nearest(e spec.Execution) (spec.Execution, []string) {
	var notes []string
	if limits := e.RLimits; len(limits) > 0 {
		raises, own := mayRaise(), Limits(os.Getpid())
		for _, l := range limits {
			want := AsSet(l.Name, l.Value)
			most := AsSet(l.Name, process.Unlimited)
			if hard, known := own[l.Name]; !raises && known && above(most, hard) {
				most = hard
			}
			if above(want, most) {
				notes = append(notes, fmt.Sprintf("limits.%s is %s instead of %s, the most that this host gives", l.Name,
					process.LimitText(most), process.LimitText(l.Value)))
				e.RLimits = e.RLimits.With(l.Name, most)
			}
		}
	}
	if own := ownScore(); e.OOMScoreAdjust != nil && *e.OOMScoreAdjust < own && !mayRaise() {
		notes = append(notes, fmt.Sprintf("oom_score_adjust is %d instead of %d, the least that this host gives", own,
			*e.OOMScoreAdjust))
		e.OOMScoreAdjust = &own
	}
	if own := ownNice(); e.Nice != nil && *e.Nice < own && !capable(unix.CAP_SYS_NICE) {
		notes = append(notes, fmt.Sprintf("nice is %d instead of %d, the least that this host gives", own, *e.Nice))
		e.Nice = &own
	}
	given, own := e.Capabilities, ownCapabilities()
	for i, name := range slices.Backward(given) {
		if n, known := process.Capability(name); known && own[n/32].Permitted&(1<<(n%32)) == 0 {
			notes = append(notes, fmt.Sprintf("capabilities lack %s, which this host does not give", name))
			e.Capabilities = slices.Delete(slices.Clone(e.Capabilities), i, i+1)
		}
	}
	return e, notes
}

// above reports whether a limit is above another one; -1 is above all numbers.
func above(a, b int64) bool { return b != process.Unlimited && (a == process.Unlimited || a > b) }

// mayRaise reports whether this process may raise hard limits and lower OOM scores. A user namespace does not give that
// right, although it gives the capability.
func mayRaise() bool { return capable(unix.CAP_SYS_RESOURCE) }

func capable(capability int) bool {
	var data [2]unix.CapUserData
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if unix.Capget(&header, &data[0]) != nil || data[0].Effective&(1<<capability) == 0 {
		return false
	}
	ids, err := os.ReadFile("/proc/self/uid_map")
	return err != nil || strings.Join(strings.Fields(string(ids)), " ") == "0 0 4294967295"
}

// ownScore is the OOM score of this process; the least one if it cannot be read.
func ownScore() int {
	text, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		return -1000
	}
	n, err := strconv.Atoi(string(bytes.TrimSpace(text)))
	if err != nil {
		return -1000
	}
	return n
}

// ownNice is the nice value of this process. The system call counts from 20 downwards (getpriority(2)).
func ownNice() int {
	raw, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return 0
	}
	return 20 - raw
}
