package process

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"drover/internal/crontab"
	"drover/internal/pattern"
)

// The ranges of the fields that only drover's own API has.
const (
	maxInterval = 30 * 24 * 3600 // seconds
	maxJitter   = 24 * 3600      // seconds
	maxFailures = 1000
	maxWait     = 3600      // seconds; the longest time that an operation may block the process
	maxRetries  = 1_000_000 // practically for ever
	maxPercent  = 100
	maxCopies   = 10_000

	minHardMemory = 4 << 20 // bytes: less is not even enough for the shell
	maxHardMemory = 1 << 50
	maxHardCPU    = 100 * 4096 // percent of one CPU
	maxHardTasks  = 4 << 20    // the kernel's largest number of pids
)

// PolicyFaults returns the numbers of a spec that are out of range as the caller sent them: numbers that Defaulted
// would silently replace, and numbers that make no sense.
func (s *Spec) PolicyFaults() []FieldFault {
	const policy, limits = "spec.policy.", "spec.limits."
	var f faults
	p, l := s.Policy, s.Limits
	f.upTo(maxWait, policy+"start_check_begin", p.StartCheckBegin)
	f.upTo(maxWait, policy+"start_check_end", p.StartCheckEnd)
	f.upTo(maxWait, policy+"stop_check", p.StopCheck)
	f.upTo(maxWait, policy+"op_timeout", p.OpTimeout)
	f.upTo(maxRetries, policy+"start_retries", p.StartRetries)
	f.upTo(maxInterval, policy+"start_interval", p.StartInterval)
	for _, number := range []struct {
		name        string
		value, most int
	}{{"cycle_time", p.CycleTime, maxInterval}, {"instances", p.Instances, maxCopies}} {
		if number.value < 0 || number.value > number.most {
			f.add(policy+number.name, "is %d: expected 1 to %d, or 0 for none", number.value, number.most)
		}
	}
	if p.StartCheckEnd > 0 && p.StartCheckEnd < p.StartCheckBegin {
		f.add(policy+"start_check_end", "is %d: expected at least the start_check_begin of %d", p.StartCheckEnd,
			p.StartCheckBegin)
	}
	for _, share := range []struct {
		name  string
		value float64
	}{{"cpu", l.CPU}, {"mem", l.Mem}} {
		if share.value < 0 || share.value > maxPercent {
			f.add(limits+share.name, "is %g: expected up to %d percent of the whole machine, or 0 for none",
				share.value, maxPercent)
		}
	}
	for _, count := range []struct {
		name  string
		value int64
	}{{"fd", l.FD}, {"disk", l.Disk}, {"net", l.Net}} {
		if count.value < 0 {
			f.add(limits+count.name, "is %d: expected 1 or more, or 0 for none", count.value)
		}
	}
	return f
}

// TimetableFaults returns the errors in the timetable of a periodic process, for every kind.
func (s *Spec) TimetableFaults() []FieldFault {
	const rule, cycle, at = "spec.monitor_policy.crontab_rule", "spec.monitor_policy.cycle_time", "spec.schedule."
	var f faults
	p := s.Policy
	switch {
	case p.Crontab == "" && p.CycleTime == 0:
		f.add(rule,
			"is empty: a periodic process (auto_type 0) needs it, such as \"*/5 * * * *\", or a cycle_time in seconds")
	case p.Crontab != "" && p.CycleTime != 0:
		f.add(rule, "and cycle_time are both set: expected one of them")
	}
	if p.CycleTime < 0 || p.CycleTime > maxInterval {
		f.add(cycle, "is %d: expected 1 to %d seconds", p.CycleTime, maxInterval)
	}
	var zone *time.Location
	var err error
	if s.Schedule.TimeZone != "" {
		if zone, err = crontab.Zone(s.Schedule.TimeZone); err != nil {
			f.add(at+"time_zone", "%v", err)
		}
	}
	if p.Crontab != "" {
		if r, err := crontab.Parse(p.Crontab, zone); err != nil {
			f.add(rule, "%.60q: %v", p.Crontab, err)
		} else if gap := shortest(r); s.Schedule.Jitter > 0 && gap > 0 &&
			time.Duration(s.Schedule.Jitter)*time.Second >= gap {
			f.add(at+"jitter", "is %d: expected less than the %d seconds between two runs", s.Schedule.Jitter,
				int(gap.Seconds()))
		}
	}
	switch s.Schedule.Overlap {
	case "", OverlapSkip, OverlapWait, OverlapReplace:
	default:
		f.add(at+"overlap", "is %.40q: expected skip, wait or replace", s.Schedule.Overlap)
	}
	switch s.Schedule.Missed {
	case "", MissedSkip, MissedRun:
	default:
		f.add(at+"missed", "is %.40q: expected skip or run-once", s.Schedule.Missed)
	}
	f.upTo(maxJitter, at+"jitter", s.Schedule.Jitter)
	if p.CycleTime > 0 && s.Schedule.Jitter >= p.CycleTime {
		f.add(at+"jitter", "is %d: expected less than the cycle_time of %d", s.Schedule.Jitter, p.CycleTime)
	}
	return f
}

// shortest is the least time between two of the next runs of a rule on a usual day; 0 if the rule has no runs.
func shortest(r crontab.Rule) (gap time.Duration) {
	const looks = 200
	last, ok := r.Next(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	for range looks {
		if !ok {
			break
		}
		next, more := r.Next(last)
		if between := next.Sub(last); more && (gap == 0 || between < gap) {
			gap = between
		}
		last, ok = next, more
	}
	return gap
}

func (f *faults) hard(h HardLimits) {
	const at = "spec.hard_limits."
	for _, l := range []struct {
		name         string
		value, least int64
		most         int64
		unit         string
	}{
		{"memory", h.Memory, minHardMemory, maxHardMemory, "bytes"},
		{"cpu", int64(h.CPU), 1, maxHardCPU, "percent of one processor"},
		{"tasks", h.Tasks, 1, maxHardTasks, "processes and threads"},
	} {
		if l.value != 0 && (l.value < l.least || l.value > l.most) {
			f.add(at+l.name, "is %d: expected %d to %d %s, or 0 for none", l.value, l.least, l.most, l.unit)
		}
	}
}

func (f *faults) ready(r *Readiness) {
	const at = "spec.ready."
	given := 0
	for _, value := range []string{r.TCP, r.HTTP, r.Exec, r.Log} {
		if value != "" {
			given++
		}
	}
	for _, set := range []bool{r.Alive != nil, r.Notify, r.NotifyFD != 0} {
		if set {
			given++
		}
	}
	if given != 1 {
		f.add("spec.ready", "has %d ways to be ready: expected one of tcp, http, exec, log and alive", given)
	}
	if r.NotifyFD != 0 && (r.NotifyFD < 3 || r.NotifyFD > MaxNotifyFD) {
		f.add(at+"notify_fd", "is %d: expected 3 to %d", r.NotifyFD, MaxNotifyFD)
	}
	if r.TCP != "" && !isAddress(r.TCP) {
		f.add(at+"tcp", "is %.80q: expected host:port", r.TCP)
	}
	if r.HTTP != "" {
		u, err := url.Parse(r.HTTP)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			f.add(at+"http", "is %.80q: expected an absolute http or https URL", r.HTTP)
		}
	}
	f.command(at+"exec", r.Exec)
	if r.Log != "" {
		if _, err := pattern.Parse(r.Log); err != nil {
			f.add(at+"log", "%v", err)
		}
	}
}

// isAddress reports whether text is host:port, with brackets around an address that holds colons.
func isAddress(text string) bool {
	i := strings.LastIndexByte(text, ':')
	if i < 0 {
		return false
	}
	host, port := text[:i], text[i+1:]
	if inner, ok := strings.CutPrefix(host, "["); ok {
		host, ok = strings.CutSuffix(inner, "]")
		if !ok || !strings.Contains(host, ":") {
			return false
		}
	} else if strings.Contains(host, ":") {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0 && host != "" && !strings.ContainsAny(host, " \t\n/[]")
}

func (f *faults) probes(p Probes) {
	const at = "spec.probes."
	f.upTo(maxInterval, at+"health_interval", p.HealthInterval)
	f.upTo(maxInterval, at+"health_timeout", p.HealthTimeout)
	f.upTo(maxInterval, at+"version_interval", p.VersionInterval)
	f.upTo(maxInterval, at+"grace", p.Grace)
	f.upTo(maxFailures, at+"failures", p.Failures)
}
