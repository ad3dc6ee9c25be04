package processfile

import (
	"encoding/json"
	"maps"
	"strconv"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
)

// The defaults of fields whose default is not zero. Fields has them for readers.
const (
	defaultDirectory  = "/"
	defaultAlive      = 1 // seconds
	defaultWithin     = 30
	defaultTimeout    = 60 * time.Second
	defaultPreflight  = 30 * time.Second
	defaultVersion    = 5 * time.Second
	defaultEvery      = 60 * time.Second
	defaultCheck      = 5 * time.Second
	defaultFailures   = 3
	defaultDelay      = time.Second
	defaultMaxDelay   = 5 * time.Minute
	defaultFactor     = 2
	defaultJitter     = 10
	defaultResetAfter = time.Minute
	defaultLogSize    = 10 << 20
	defaultKeep       = 5
	defaultMaxAge     = 30 * day
)

const day = 24 * time.Hour

// defaultSignals are the signals of a stop without stop_signals.
func defaultSignals() []v1.StopSignal {
	return []v1.StopSignal{{Signal: "TERM", Wait: v1.Duration(10 * time.Second)}, {Signal: "KILL"}}
}

// Labels and their values that are fields of a file.
const (
	labelStopScope = "drover.stop_scope"
	onlyProcess    = "process"
	wholeTree      = "tree"
)

// Values of leave and drift that are not the default.
const (
	leaveStop = "stop"
	driftMend = "mend"
)

// ToSpec returns a process of a file in the form that servers and agents store. The process must be without faults
// (Check). ToSpec drops Hosts and Copies: see Names.
func ToSpec(f v1.Spec) process.Spec {
	s := process.Spec{
		Identity: process.Identity{
			ProcName: f.ProcessName, SetupPath: orDefault(f.Directory, defaultDirectory), PIDPath: f.PIDFile,
			LogPath: f.LogFile, User: f.User,
		},
		Commands: process.Commands{
			Run: f.Run, Start: f.Start, Stop: f.Stop, Version: f.VersionCommand,
		},
		Execution: execution(f),
		After:     f.After,
		ReportID:  f.AlarmID,
		Labels:    labels(f),
		Rollout:   f.Rollout,
	}
	if f.Leave == leaveStop {
		s.Leave = process.LeaveStop
	}
	if f.Drift == driftMend {
		s.Drift = process.DriftMend
	}
	if r := f.Reload; r != nil {
		s.Commands.Reload, s.Commands.ReloadSignal = r.Command, r.Signal
	}
	if b := f.BeforeStart; b != nil {
		s.BeforeStart = &process.Hook{Run: b.Run, Time: unlessDefault(b.Timeout, defaultTimeout)}
	}
	if p := f.Preflight; p != nil {
		s.Preflight = &process.Hook{Run: p.Run, Time: unlessDefault(p.Timeout, defaultPreflight)}
	}
	if b := f.BeforeStop; b != nil {
		s.BeforeStop = &process.Hook{Run: b.Run, Time: unlessDefault(b.Wait, 0)}
	}
	for _, c := range f.ConfigFiles {
		s.Config = append(s.Config, process.ConfigFile{Path: c.Path, MD5: c.MD5, SHA256: c.SHA256})
	}
	setLimits(f, &s)
	setKind(f, &s)
	setHealth(f, &s)
	setLogs(f, &s)
	if f.Compat != nil {
		setCompat(f, &s)
		return s
	}
	setOwn(f, &s)
	return s
}

// setOwn sets what a process without compat has: start check, restarts, stops and time limits.
func setOwn(f v1.Spec, s *process.Spec) {
	setReady(f, s)
	t := v1.Timeouts{}
	if f.Timeouts != nil {
		t = *f.Timeouts
	}
	s.Policy.OpTimeout = int(milliseconds(t.Start, defaultTimeout) / 1000)
	s.Timeouts = process.Timeouts{
		Reload: unlessDefault(t.Reload, defaultTimeout), Version: unlessDefault(t.Version, defaultVersion),
	}
	s.Stop = &process.StopPolicy{Timeout: milliseconds(t.Stop, defaultTimeout), Signals: []process.StopSignal{}}
	signals := f.StopSignals
	if signals == nil {
		signals = defaultSignals()
	}
	for _, step := range signals {
		s.Stop.Signals = append(s.Stop.Signals, process.StopSignal{Signal: step.Signal, Wait: inMillis(step.Wait)})
	}
	if s.Policy.Kind == process.Resident {
		s.Restart = restart(f.Restart)
	}
	s.Policy = s.Policy.Defaulted()
}

func restart(f *v1.Restart) *process.RestartPolicy {
	if f == nil {
		f = &v1.Restart{}
	}
	delay := milliseconds(f.Delay, defaultDelay)
	r := process.RestartPolicy{
		When:  process.When(orDefault(f.When, string(process.Always))),
		Delay: delay, MaxDelay: max(milliseconds(f.MaxDelay, defaultMaxDelay), delay),
		Factor: defaultFactor, Jitter: defaultJitter,
		ResetAfter:   milliseconds(f.ResetAfter, defaultResetAfter),
		SuccessCodes: []string{"0"},
	}
	if f.Factor != nil {
		r.Factor = *f.Factor
	}
	if f.Jitter != nil {
		r.Jitter = float64(*f.Jitter)
	}
	if f.GiveUpAfter != nil && *f.GiveUpAfter != v1.Never {
		r.GiveUpAfter = int(*f.GiveUpAfter)
	}
	if f.SuccessCodes != nil {
		r.SuccessCodes = texts(f.SuccessCodes)
	}
	if len(f.NeverOn) > 0 {
		r.NeverOn = texts(f.NeverOn)
	}
	return &r
}

func texts(statuses []v1.Status) []string {
	all := make([]string, 0, len(statuses))
	for _, s := range statuses {
		all = append(all, string(s))
	}
	return all
}

// setReady sets the start check. The agent knows ready.alive and ready.within as its start check time.
func setReady(f v1.Spec, s *process.Spec) {
	s.Policy.StartCheckBegin = defaultAlive
	r := f.Ready
	if r == nil {
		return
	}
	if r.Alive == nil && !r.Notify && r.NotifyFD == nil && r.HTTP == "" && r.TCP == "" && r.Log == "" && r.Exec == "" {
		alive := v1.Duration(defaultAlive * time.Second)
		r = &v1.Ready{Alive: &alive, Within: r.Within, OnTimeout: r.OnTimeout}
	}
	late := r.OnTimeout == "stop"
	if r.Alive != nil {
		alive, within := inMillis(*r.Alive), unlessDefault(r.Within, defaultWithin*time.Second)
		if alive >= 1000 && alive%1000 == 0 && within == 0 && !late {
			s.Policy.StartCheckBegin = int(alive / 1000)
			return
		}
		s.Ready = &process.Readiness{Alive: &alive, Within: within, StopLate: late}
		return
	}
	s.Policy.StartCheckEnd = int(milliseconds(r.Within, defaultWithin*time.Second) / 1000)
	s.Ready = &process.Readiness{
		TCP: r.TCP, HTTP: r.HTTP, Exec: r.Exec, Log: r.Log, Notify: r.Notify, StopLate: late,
		Insecure: r.Insecure,
	}
	if r.NotifyFD != nil {
		s.Ready.NotifyFD = *r.NotifyFD
	}
}

func execution(f v1.Spec) process.Execution {
	e := process.Execution{
		Environment: f.Environment, EnvironmentFiles: f.EnvironmentFile, Group: f.Group, Groups: f.Groups,
		Nice: f.Nice, OOMScoreAdjust: f.OOMScoreAdjust, NoNewPrivileges: f.NoNewPrivileges,
		RuntimeDirectory: f.RuntimeDirectory,
	}
	if len(e.Environment) == 0 {
		e.Environment = nil
	}
	if mask, err := strconv.ParseUint(f.Umask, 8, 16); err == nil {
		n := int(mask)
		e.Umask = &n
	}
	if f.Capabilities != nil {
		e.Capabilities = make([]string, len(f.Capabilities))
		for i, name := range f.Capabilities {
			e.Capabilities[i] = strings.TrimPrefix(strings.ToUpper(name), "CAP_")
		}
	}
	if l := f.Limits; l != nil {
		limit := func(n int64) *int64 {
			if n == 0 {
				return nil
			}
			return &n
		}
		e.RLimits = process.RLimits{
			OpenFiles: limit(int64(l.OpenFiles)), CoreSize: (*int64)(l.CoreSize),
			LockedMemory: (*int64)(l.LockedMemory), StackSize: limit(int64(l.StackSize)),
			Processes: limit(int64(l.Processes)), FileSize: (*int64)(l.FileSize),
		}
		e.StrictLimits = l.Strict
	}
	return e
}

func setLimits(f v1.Spec, s *process.Spec) {
	if l := f.Limits; l != nil {
		s.Hard = process.HardLimits{Memory: int64(l.Memory), CPU: int(l.CPU), Tasks: l.Tasks}
	}
	if t := f.Thresholds; t != nil {
		s.Limits = process.Limits{CPU: float64(t.CPU), Mem: float64(t.Memory)}
	}
}

// setKind sets how long the process is meant to run.
func setKind(f v1.Spec, s *process.Spec) {
	p := &s.Policy
	p.Kind = process.Resident
	if f.ExpectedInstances != nil {
		p.Instances = *f.ExpectedInstances
	}
	if f.TimeLimit != nil {
		p.TimeLimit = inMillis(*f.TimeLimit)
	}
	if f.Once || f.OnDemand {
		p.Kind, p.OnDemand = process.SingleRun, f.OnDemand
	}
	t := f.Schedule
	if t == nil {
		return
	}
	p.Kind, p.Crontab = process.Periodic, t.Cron
	if t.Every != nil {
		p.CycleTime = int(inMillis(*t.Every) / 1000)
	}
	s.Schedule = process.Schedule{
		TimeZone: t.TimeZone, Overlap: process.Overlap(t.Overlap), Missed: process.Missed(t.Missed),
		Jitter: int(unlessDefault(t.Jitter, 0) / 1000),
	}
	if s.Schedule.Overlap == process.OverlapSkip {
		s.Schedule.Overlap = ""
	}
	if s.Schedule.Missed == process.MissedSkip {
		s.Schedule.Missed = ""
	}
}

func setHealth(f v1.Spec, s *process.Spec) {
	h := f.Health
	if h == nil {
		return
	}
	s.Commands.Health = h.Exec
	s.Probes = process.Probes{
		HealthInterval: int(unlessDefault(h.Every, defaultEvery) / 1000),
		HealthTimeout:  int(unlessDefault(h.Timeout, defaultCheck) / 1000),
		Grace:          int(unlessDefault(h.Grace, 0) / 1000),
		Restart:        h.Action == "restart", HTTP: h.HTTP, TCP: h.TCP, Watchdog: h.Watchdog,
		Insecure: h.Insecure,
	}
	if h.Failures != nil && *h.Failures != defaultFailures {
		s.Probes.Failures = *h.Failures
	}
}

func setLogs(f v1.Spec, s *process.Spec) {
	l := f.Log
	if l == nil {
		return
	}
	if l.MaxSize != nil && *l.MaxSize != defaultLogSize {
		s.Log.MaxSize = int64(*l.MaxSize)
	}
	if l.Keep != nil && *l.Keep != defaultKeep {
		s.Log.Keep = l.Keep
	}
	s.Log.MaxAge = unlessDefault(l.MaxAge, defaultMaxAge)
	s.Log.Plain = l.Compress != nil && !*l.Compress
	s.Log.Pipe = l.Pipe
}

// labels returns the labels as JSON, with the label that is a field of its own.
func labels(f v1.Spec) json.RawMessage {
	all := map[string]string{}
	maps.Copy(all, f.Labels)
	if f.StopScope == onlyProcess {
		all[labelStopScope] = onlyProcess
	}
	if len(all) == 0 {
		return nil
	}
	text, _ := json.Marshal(all) // names and texts always encode
	return text
}

// setCompat sets what a process with compat has. It runs as the GSE and JOB APIs demand it, without policies of its
// own.
func setCompat(f v1.Spec, s *process.Spec) {
	c, p := f.Compat, &s.Policy
	s.Commands.Restart, s.Commands.Kill = c.RestartCommand, c.KillCommand
	s.Identity.ConfigPath, s.Identity.LogPath = c.ConfigPath, orDefault(s.Identity.LogPath, c.LogPath)
	s.FuncID, s.InstanceID, s.Contact = c.FuncID, c.InstanceID, c.Contact
	if c.Labels != "" {
		s.Labels = json.RawMessage(c.Labels)
	}
	if r := c.Resource; r != nil {
		s.Limits.FD, s.Limits.Disk, s.Limits.Net = r.FD, r.Disk, r.Net
		if r.CPU != 0 {
			s.Limits.CPU = r.CPU
		}
		if r.Mem != 0 {
			s.Limits.Mem = r.Mem
		}
	}
	p.OpTimeout, p.KindAssumed = c.OpTimeout, c.KindAssumed
	p.Crontab, p.CycleTime = orDefault(p.Crontab, c.Crontab), max(p.CycleTime, c.CycleTime)
	p.StartRetries, p.StartInterval = c.StartRetries, c.StartInterval
	if r := f.Restart; r != nil {
		if r.GiveUpAfter != nil {
			p.StartRetries = int(*r.GiveUpAfter)
		}
		p.StartInterval = int(milliseconds(r.Delay, 0) / 1000)
	}
	p.StopCheck = c.StopCheck
	if len(f.StopSignals) > 0 {
		p.StopCheck = int(inMillis(f.StopSignals[0].Wait) / 1000)
	}
	checked := 0
	if r := f.Ready; r != nil {
		if r.Alive != nil {
			checked = int(inMillis(*r.Alive) / 1000)
		} else {
			checked = int(milliseconds(r.Within, 0) / 1000)
			s.Ready = &process.Readiness{TCP: r.TCP, HTTP: r.HTTP, Exec: r.Exec, Log: r.Log, Insecure: r.Insecure}
		}
	}
	p.StartCheckBegin = checked
	if c.StartCheckBegin > 0 {
		p.StartCheckBegin, p.StartCheckEnd = c.StartCheckBegin, checked
	}
	*p = p.Defaulted()
}

func orDefault(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

func inMillis(d v1.Duration) int64 { return time.Duration(d).Milliseconds() }

// milliseconds returns a duration, or its default.
func milliseconds(d *v1.Duration, otherwise time.Duration) int64 {
	if d == nil {
		return otherwise.Milliseconds()
	}
	return inMillis(*d)
}

// unlessDefault returns a duration in milliseconds, and 0 for the default.
func unlessDefault(d *v1.Duration, otherwise time.Duration) int64 {
	if d == nil || time.Duration(*d) == otherwise {
		return 0
	}
	return inMillis(*d)
}
