package processfile

import (
	v1 "drover/api/v1"
	"drover/internal/spec"
)

// A program cannot run with less: the loader opens a library beside the three standard streams, and the kernel puts the
// arguments on the stack, of which a thread needs some pages (PTHREAD_STACK_MIN).
const (
	leastOpenFiles = 4
	leastStack     = 16 << 10
)

// limits checks limits and thresholds. The GSE and JOB APIs have 0 for none; here somebody may mean it.
func (c *checker) limits() {
	above := func(field string, zero bool) {
		if zero && c.given(field) {
			c.fault(field, "is 0: leave the field out for no limit")
		}
	}
	if l := c.Limits; l != nil {
		if l.Tasks < 0 {
			c.fault("limits.tasks", "is %d: expected a number above 0", l.Tasks)
		}
		for field, n := range map[string]v1.LimitNumber{"open_files": l.OpenFiles, "processes": l.Processes} {
			if n < spec.Unlimited {
				c.fault("limits."+field, "is %d: expected a number above 0, or infinity", n)
			}
			above("limits."+field, n == 0)
		}
		if n := l.OpenFiles; n > 0 && n < leastOpenFiles {
			c.fault("limits.open_files", "is %d: no program runs with fewer than %d", n, leastOpenFiles)
		}
		if n := l.StackSize; n > 0 && n < leastStack {
			c.fault("limits.stack_size", "is %s: no program runs with less than 16KiB", n)
		}
		if l.CPU != v1.Percent(int(l.CPU)) {
			c.fault("limits.cpu", "is %s: expected whole percent", l.CPU)
		}
		above("limits.memory", l.Memory == 0)
		above("limits.cpu", l.CPU == 0)
		above("limits.tasks", l.Tasks == 0)
		above("limits.stack_size", l.StackSize == 0)
	}
	if t := c.Thresholds; t != nil {
		for field, p := range map[string]v1.Percent{"memory": t.Memory, "cpu": t.CPU} {
			if p > 100 {
				c.fault("thresholds."+field, "is %s: expected at most 100%%, which is the whole machine", p)
			}
			above("thresholds."+field, p == 0)
		}
	}
}
