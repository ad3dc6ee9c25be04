package spec

import (
	"cmp"
	"strconv"
	"strings"
	"time"
)

// The defaults of fields whose default is not zero.
const (
	DefaultDirectory  = "/"
	DefaultAlive      = time.Second
	DefaultWithin     = 30 * time.Second
	DefaultTimeout    = time.Minute
	DefaultPreflight  = 30 * time.Second
	DefaultVersion    = 5 * time.Second
	DefaultEvery      = time.Minute
	DefaultCheck      = 5 * time.Second
	DefaultFailures   = 3
	DefaultDelay      = time.Second
	DefaultMaxDelay   = 5 * time.Minute
	DefaultFactor     = 2
	DefaultJitter     = 10
	DefaultResetAfter = time.Minute
	DefaultLogSize    = 10 << 20
	DefaultKeep       = 5
	DefaultMaxAge     = 30 * day
	DefaultInstances  = 1
)

// DefaultSignals are the signals of a stop without stop_signals.
func DefaultSignals() []StopSignal {
	return []StopSignal{{Signal: "TERM", Wait: Duration(10 * time.Second)}, {Signal: "KILL"}}
}

// success is what success_codes are without the field.
const success Status = "0"

// Foreground reports whether the command of Run is itself the process.
func (s *Spec) Foreground() bool { return s.Run != "" }

// ByName reports whether a process file names a daemon without a pid file. Its name alone does not prove a process to
// be the daemon, so drover has to start it or to take it over.
func (s *Spec) ByName() bool { return s.Compat == nil && !s.Foreground() && s.PIDFile == "" }

// Kind says how long the process is meant to run.
func (s *Spec) Kind() Kind {
	switch {
	case s.Schedule != nil:
		return Periodic
	case s.Once || s.OnDemand:
		return SingleRun
	}
	return Resident
}

// Dir is the working directory of all commands. GSE and JOB demand one; a spec of theirs without it is not complete.
func (s *Spec) Dir() string {
	if s.Compat != nil {
		return s.Directory
	}
	return cmp.Or(s.Directory, DefaultDirectory)
}

// LogPath is the log file of the process; a GSE spec may have a path that is not absolute.
func (s *Spec) LogPath() string { return cmp.Or(s.LogFile, s.compat().LogPath) }

// compat returns what the GSE and JOB APIs know; the zero Compat for a spec of drover's own.
func (s *Spec) compat() Compat {
	if s.Compat == nil {
		return Compat{}
	}
	return *s.Compat
}

// RestartCommand is the command of a restart; only GSE and JOB have one.
func (s *Spec) RestartCommand() string { return s.compat().RestartCommand }

// KillCommand is the command of a kill; only GSE and JOB have one.
func (s *Spec) KillCommand() string { return s.compat().KillCommand }

// ReloadCommand is the command line of a reload; it is empty if a signal reloads the process.
func (s *Spec) ReloadCommand() string {
	if s.Reload == nil {
		return ""
	}
	return s.Reload.Command
}

// ReloadSignal is the signal of a reload, such as "HUP"; empty without one.
func (s *Spec) ReloadSignal() string {
	if s.Reload == nil {
		return ""
	}
	return s.Reload.Signal
}

// Starter returns the command line that starts the process, and its field as callers of GSE know it.
func (s *Spec) Starter() (field, line string) {
	if s.Foreground() {
		return "run", s.Run
	}
	return "start_cmd", s.Start
}

// Field returns the name of a field for the reader of a fault: that of process files, or that of GSE and JOB if the
// spec is one of theirs.
func (s *Spec) Field(file, wire string) string {
	if s.Compat == nil {
		return file
	}
	return wire
}

// Instances is the expected number of matching processes.
func (s *Spec) Instances() int { return or(s.ExpectedInstances, DefaultInstances) }

// RunLimit ends a run of a periodic or single-run process after this time; 0 means never.
func (s *Spec) RunLimit() time.Duration { return s.TimeLimit.or(0) }

// CommandLimit bounds one command that has no limit of its own.
func (s *Spec) CommandLimit() time.Duration {
	if s.Compat != nil {
		return seconds(s.Compat.Defaulted().OpTimeout)
	}
	return s.timeouts().Start.or(DefaultTimeout)
}

func (s *Spec) timeouts() Timeouts {
	if s.Timeouts == nil || s.Compat != nil {
		return Timeouts{}
	}
	return *s.Timeouts
}

// StopLimit bounds the stop command, and the time that the process has after it before the first signal. GSE and JOB
// have CommandLimit and StopCheck in its place.
func (s *Spec) StopLimit() time.Duration { return s.timeouts().Stop.or(DefaultTimeout) }

// ReloadLimit bounds the command of a reload.
func (s *Spec) ReloadLimit() time.Duration {
	return s.timeouts().Reload.or(s.CommandLimit())
}

// VersionLimit bounds the version command.
func (s *Spec) VersionLimit() time.Duration {
	return s.timeouts().Version.or(min(DefaultVersion, s.CommandLimit()))
}

// Limit is the time of a command; 0 without a command.
func (b *Before) Limit(otherwise time.Duration) time.Duration {
	if b == nil {
		return 0
	}
	return b.Timeout.or(otherwise)
}

// Pause is the time between the command and the stop; 0 without one.
func (b *BeforeStop) Pause() time.Duration {
	if b == nil {
		return 0
	}
	return b.Wait.or(0)
}

// StopCheck is the time in which a process must exit that has got its last signal, or the stop command of GSE and JOB.
func (s *Spec) StopCheck() time.Duration { return seconds(s.compat().Defaulted().StopCheck) }

// Signals are the signals of a stop, with the time until the next one.
func (s *Spec) Signals() []StopSignal {
	if s.StopSignals == nil {
		return DefaultSignals()
	}
	return s.StopSignals
}

// Scope says which processes drover ends with the process.
func (s *Spec) Scope() StopScope { return cmp.Or(s.StopScope, ScopeTree) }

// asks reports whether a readiness names one of the ways in which a process tells that it is ready.
func (r *Ready) asks() bool {
	return r != nil && (r.Notify || r.NotifyFD != nil || r.HTTP != "" || r.TCP != "" || r.Log != "" || r.Exec != "")
}

// AsksReady reports whether a process itself tells that it is ready. Otherwise it is ready once it has stayed up.
func (s *Spec) AsksReady() bool { return s.Ready.asks() }

// Alive is the time that a process must stay up to be ready, counted from when it appears; ok is false if the times of
// StartCheck decide.
func (s *Spec) Alive() (d time.Duration, ok bool) {
	r := s.Ready
	switch {
	case r == nil:
		return DefaultAlive, false
	case r.asks():
		return 0, false
	}
	d = r.Alive.or(DefaultAlive)
	return d, s.Within() != DefaultWithin || r.StopsLate() || d < time.Second || d%time.Second != 0
}

// CheckTime is the time after a start until the end of StartCheck.
func (s *Spec) CheckTime() time.Duration { return max(s.StartCheck()) }

// StartCheck returns the times after a start between which drover checks the process: it may appear until end, and must
// be alive at the end. end is 0 if one check at begin decides.
func (s *Spec) StartCheck() (begin, end time.Duration) {
	if s.Compat != nil {
		c := s.Compat.Defaulted()
		return seconds(c.StartCheckBegin), seconds(c.StartCheckEnd)
	}
	if s.AsksReady() {
		return DefaultAlive, s.Within()
	}
	if _, apart := s.Alive(); s.Ready == nil || apart {
		return DefaultAlive, 0
	}
	return s.Ready.Alive.or(DefaultAlive), 0
}

// Within is how long a process may wait for its readiness, and for the processes that it is after.
func (s *Spec) Within() time.Duration {
	if s.Ready == nil {
		return DefaultWithin
	}
	return s.Ready.Within.or(DefaultWithin)
}

// StopsLate reports whether drover ends a process that is not ready in time.
func (r *Ready) StopsLate() bool { return r != nil && r.OnTimeout == "stop" }

// Descriptor is the descriptor at which the process says that it is ready; 0 without one.
func (r *Ready) Descriptor() int {
	if r == nil {
		return 0
	}
	return or(r.NotifyFD, 0)
}

// MaxNotifyFD is the highest descriptor of Ready.NotifyFD, MinNotifyFD the lowest.
const (
	MinNotifyFD = 3
	MaxNotifyFD = 255
)

// RestartPolicy is the policy of relaunches that counts for a spec.
type RestartPolicy struct {
	When When
	// Delay is the pause before the second relaunch. Each further pause is Factor times as long, at most MaxDelay,
	// longer or shorter by a random share of at most Jitter percent.
	Delay, MaxDelay time.Duration
	Factor, Jitter  float64
	// ResetAfter is the run time after which count and pauses begin anew.
	ResetAfter time.Duration
	// GiveUpAfter is the number of relaunches that did not last before drover gives up; 0 means never.
	GiveUpAfter int
	// SuccessCodes are the ends that count as success, NeverOn those that forbid a relaunch: exit codes, such as "0",
	// and signals, such as "TERM".
	SuccessCodes, NeverOn []Status
}

// Restarts returns the policy of relaunches: that of the spec, or what StartRetries and StartInterval mean. The latter
// counts for a process that is not kept running, too.
func (s *Spec) Restarts() RestartPolicy {
	if !s.OwnRestarts() {
		c := s.compat().Defaulted()
		return RestartPolicy{
			When: Always, Delay: seconds(c.StartInterval), MaxDelay: seconds(c.StartInterval), Factor: 1,
			ResetAfter: DefaultResetAfter, GiveUpAfter: c.StartRetries, SuccessCodes: []Status{success},
		}
	}
	var r Restart
	if s.Restart != nil {
		r = *s.Restart
	}
	p := RestartPolicy{
		When: cmp.Or(r.When, Always), Delay: r.Delay.or(DefaultDelay), Factor: or(r.Factor, DefaultFactor),
		Jitter: float64(or(r.Jitter, DefaultJitter)), ResetAfter: r.ResetAfter.or(DefaultResetAfter),
		SuccessCodes: r.SuccessCodes, NeverOn: r.NeverOn,
	}
	p.MaxDelay = max(r.MaxDelay.or(DefaultMaxDelay), p.Delay)
	if r.GiveUpAfter != nil && *r.GiveUpAfter != NeverGiveUp {
		p.GiveUpAfter = int(*r.GiveUpAfter)
	}
	if len(p.NeverOn) == 0 {
		p.NeverOn = nil
	}
	if p.SuccessCodes == nil {
		p.SuccessCodes = []Status{success}
	}
	return p
}

// OwnRestarts reports whether the restart policy of a process file counts.
func (s *Spec) OwnRestarts() bool { return s.Compat == nil && s.Kind() == Resident }

// watchdogCheck is the health check of a process with a watchdog.
const watchdogCheck = "watchdog"

// HealthCheck is the text of the health check: a command line, a URL, an address or "watchdog"; empty without a check.
func (s *Spec) HealthCheck() string {
	h := s.Health
	switch {
	case h == nil:
		return ""
	case h.Watchdog:
		return watchdogCheck
	}
	return cmp.Or(h.Exec, h.HTTP, h.TCP)
}

// HealthCommand is the command line of the health check; empty without one.
func (s *Spec) HealthCommand() string {
	if s.Health == nil {
		return ""
	}
	return s.Health.Exec
}

// Asks reports whether drover asks the process for its health or its version.
func (s *Spec) Asks() bool { return s.HealthCheck() != "" || s.VersionCommand != "" }

// Watched reports whether the process has a watchdog.
func (s *Spec) Watched() bool { return s.Health != nil && s.Health.Watchdog }

// Notifies reports whether the process gets a NOTIFY_SOCKET.
func (s *Spec) Notifies() bool { return s.Watched() || s.Ready != nil && s.Ready.Notify }

// WatchdogTime is the longest silence of the process towards its watchdog; 0 without a watchdog.
func (s *Spec) WatchdogTime() time.Duration {
	if !s.Watched() {
		return 0
	}
	return s.Health.Interval()
}

// Interval is the time between two checks. h may be nil.
func (h *Health) Interval() time.Duration {
	if h == nil {
		return DefaultEvery
	}
	return h.Every.or(DefaultEvery)
}

// HealthLimit bounds one check.
func (s *Spec) HealthLimit() time.Duration {
	limit := min(DefaultCheck, s.CommandLimit())
	if s.Health == nil {
		return limit
	}
	return s.Health.Timeout.or(limit)
}

// GraceTime is the time after a start during which drover ignores failed checks. h may be nil.
func (h *Health) GraceTime() time.Duration {
	if h == nil {
		return 0
	}
	return h.Grace.or(0)
}

// MostFailures is the number of consecutive failures that make the process unhealthy. h may be nil.
func (h *Health) MostFailures() int {
	if h == nil {
		return DefaultFailures
	}
	return or(h.Failures, DefaultFailures)
}

// Restarts reports whether drover ends and relaunches an unhealthy process.
func (h *Health) Restarts() bool { return h != nil && h.Action == "restart" }

// Timetable is when a periodic process runs, and what becomes of runs that meet or are missed; the zero Schedule for
// another process.
func (s *Spec) Timetable() Schedule {
	if s.Schedule == nil {
		return Schedule{}
	}
	return *s.Schedule
}

// Interval is the time between two runs; 0 if a crontab rule says when.
func (s Schedule) Interval() time.Duration { return s.Every.or(0) }

// Spread is the longest random delay of a run.
func (s Schedule) Spread() time.Duration { return s.Jitter.or(0) }

// Umasked is the file mode creation mask; ok is false if the host's counts.
func (s *Spec) Umasked() (mask int, ok bool) {
	n, err := strconv.ParseUint(s.Umask, 8, 16)
	return int(n), err == nil //nolint:gosec // 16 bits
}

// Keeps returns the numbers of files and bytes, and the age, that bound what drover keeps of the output. l may be nil.
func (l *Log) Keeps() (size int64, files int, age time.Duration) {
	if l == nil {
		l = &Log{}
	}
	return int64(or(l.MaxSize, DefaultLogSize)), or(l.Keep, DefaultKeep), l.MaxAge.or(DefaultMaxAge)
}

// Plain reports whether rotated files stay uncompressed. l may be nil.
func (l *Log) Plain() bool { return l != nil && l.Compress != nil && !*l.Compress }

// Pipes reports whether the process gets pipes, which the agent reads, in place of files. l may be nil.
func (l *Log) Pipes() bool { return l != nil && l.Pipe }

// or returns a value, or its default.
func or[T any](value *T, otherwise T) T {
	if value == nil {
		return otherwise
	}
	return *value
}

// or returns a duration, or its default.
func (d *Duration) or(otherwise time.Duration) time.Duration {
	if d == nil {
		return otherwise
	}
	return time.Duration(*d)
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

// CapabilityName is a name of capabilities(7) without CAP_, in capitals.
func CapabilityName(name string) string { return strings.TrimPrefix(strings.ToUpper(name), "CAP_") }
