package processfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"reflect"
	"slices"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
)

// FromSpec returns a stored spec as a process of a file, without Hosts and Copies. Fields that have their default are
// absent. ToSpec makes the same spec of it again. A spec of the GSE and JOB APIs has no stop policy; it gets a Compat.
func FromSpec(s *process.Spec) v1.Spec {
	id, c, e := s.Identity, s.Commands, s.Execution
	f := v1.Spec{
		Run: c.Run, Start: c.Start, PIDFile: id.PIDPath, ProcessName: id.ProcName,
		Directory: unless(id.SetupPath, defaultDirectory), User: id.User, Group: e.Group, Groups: e.Groups,
		Environment: e.Environment, EnvironmentFile: e.EnvironmentFiles,
		Nice: e.Nice, OOMScoreAdjust: e.OOMScoreAdjust, NoNewPrivileges: e.NoNewPrivileges,
		Capabilities: e.Capabilities, RuntimeDirectory: e.RuntimeDirectory,
		Limits: limitsOf(s), After: s.After, Health: healthOf(s), VersionCommand: c.Version,
		Stop: c.Stop, Log: logOf(s.Log), AlarmID: s.ReportID, Rollout: s.Rollout,
	}
	if s.Leave == process.LeaveStop { // an agent may report any text
		f.Leave = leaveStop
	}
	if s.Drift == process.DriftMend {
		f.Drift = driftMend
	}
	if e.Umask != nil {
		f.Umask = fmt.Sprintf("%03o", *e.Umask)
	}
	if c.Reload != "" || c.ReloadSignal != "" {
		f.Reload = &v1.Reload{Command: c.Reload, Signal: c.ReloadSignal}
	}
	if b := s.BeforeStart; b != nil {
		f.BeforeStart = &v1.Before{Run: b.Run, Timeout: duration(b.Time)}
	}
	if p := s.Preflight; p != nil {
		f.Preflight = &v1.Before{Run: p.Run, Timeout: duration(p.Time)}
	}
	if b := s.BeforeStop; b != nil {
		f.BeforeStop = &v1.BeforeStop{Run: b.Run, Wait: duration(b.Time)}
	}
	for _, file := range s.Config {
		f.ConfigFiles = append(f.ConfigFiles, v1.ConfigFile{Path: file.Path, MD5: file.MD5, SHA256: file.SHA256})
	}
	f.ExpectedInstances = number(s.Policy.Instances)
	f.TimeLimit = duration(s.Policy.TimeLimit)
	kindOf(s, &f)
	if l := s.Limits; percentage(l.CPU) || percentage(l.Mem) {
		f.Thresholds = &v1.Thresholds{}
		if percentage(l.CPU) {
			f.Thresholds.CPU = v1.Percent(l.CPU)
		}
		if percentage(l.Mem) {
			f.Thresholds.Memory = v1.Percent(l.Mem)
		}
	}
	rest := labelsOf(s, &f)
	if s.Stop == nil {
		compatOf(s, &f)
		f.Compat.Labels = rest
		return f
	}
	f.LogFile = id.LogPath
	ownOf(s, &f)
	return f
}

// ownOf sets what only a process without compat has.
func ownOf(s *process.Spec, f *v1.Spec) {
	f.Ready = readyOf(s)
	t := v1.Timeouts{Reload: duration(s.Timeouts.Reload), Version: duration(s.Timeouts.Version)}
	if start := time.Duration(s.Policy.OpTimeout) * time.Second; start != defaultTimeout {
		t.Start = span(start)
	}
	if stop := time.Duration(s.Stop.Timeout) * time.Millisecond; stop != defaultTimeout {
		t.Stop = span(stop)
	}
	if t != (v1.Timeouts{}) {
		f.Timeouts = &t
	}
	signals := []v1.StopSignal{}
	for _, step := range s.Stop.Signals {
		signals = append(signals, v1.StopSignal{Signal: step.Signal, Wait: fromMillis(step.Wait)})
	}
	if !slices.Equal(signals, defaultSignals()) {
		f.StopSignals = signals
	}
	if s.Restart != nil {
		f.Restart = restartOf(s.Restart)
	}
}

func restartOf(p *process.RestartPolicy) *v1.Restart {
	var r v1.Restart
	if p.When != process.Always {
		r.When = string(p.When)
	}
	differing := func(millis int64, otherwise time.Duration) *v1.Duration {
		if millis == otherwise.Milliseconds() {
			return nil
		}
		d := fromMillis(millis)
		return &d
	}
	r.Delay = differing(p.Delay, defaultDelay)
	r.MaxDelay = differing(p.MaxDelay, max(defaultMaxDelay, time.Duration(p.Delay)*time.Millisecond))
	r.ResetAfter = differing(p.ResetAfter, defaultResetAfter)
	if p.Factor != defaultFactor {
		r.Factor = &p.Factor
	}
	if p.Jitter != defaultJitter {
		jitter := v1.Percent(p.Jitter)
		r.Jitter = &jitter
	}
	if p.GiveUpAfter != 0 {
		count := v1.Count(p.GiveUpAfter)
		r.GiveUpAfter = &count
	}
	if !slices.Equal(p.SuccessCodes, []string{"0"}) {
		r.SuccessCodes = statuses(p.SuccessCodes)
	}
	if len(p.NeverOn) > 0 {
		r.NeverOn = statuses(p.NeverOn)
	}
	if r.When == "" && r.Delay == nil && r.MaxDelay == nil && r.ResetAfter == nil && r.Factor == nil && r.Jitter == nil &&
		r.GiveUpAfter == nil && r.SuccessCodes == nil && r.NeverOn == nil {
		return nil
	}
	return &r
}

func statuses(texts []string) []v1.Status {
	all := make([]v1.Status, 0, len(texts))
	for _, text := range texts {
		all = append(all, v1.Status(text))
	}
	return all
}

func readyOf(s *process.Spec) *v1.Ready {
	r := s.Ready
	switch {
	case r != nil && r.Alive != nil:
		ready := &v1.Ready{Within: duration(r.Within)}
		if *r.Alive != 1000*defaultAlive {
			alive := fromMillis(*r.Alive)
			ready.Alive = &alive
		}
		if r.StopLate {
			ready.OnTimeout = "stop"
		}
		return ready
	case r != nil:
		ready := checkOf(r)
		if within := max(s.Policy.StartCheckBegin, s.Policy.StartCheckEnd); within != defaultWithin {
			ready.Within = seconds(within)
		}
		return ready
	case s.Policy.StartCheckBegin != defaultAlive:
		return &v1.Ready{Alive: seconds(s.Policy.StartCheckBegin)}
	}
	return nil
}

func checkOf(r *process.Readiness) *v1.Ready {
	ready := &v1.Ready{TCP: r.TCP, HTTP: r.HTTP, Insecure: r.Insecure, Exec: r.Exec, Log: r.Log, Notify: r.Notify}
	ready.NotifyFD = number(r.NotifyFD)
	if r.StopLate {
		ready.OnTimeout = "stop"
	}
	return ready
}

func limitsOf(s *process.Spec) *v1.Limits {
	value := func(n *int64) int64 {
		if n == nil {
			return 0
		}
		return *n
	}
	r := s.Execution.RLimits
	l := v1.Limits{
		Memory: v1.Size(s.Hard.Memory), CPU: v1.Percent(s.Hard.CPU), Tasks: s.Hard.Tasks,
		OpenFiles: v1.LimitNumber(value(r.OpenFiles)), CoreSize: (*v1.LimitSize)(r.CoreSize),
		LockedMemory: (*v1.LimitSize)(r.LockedMemory), StackSize: v1.LimitSize(value(r.StackSize)),
		Processes: v1.LimitNumber(value(r.Processes)), FileSize: (*v1.LimitSize)(r.FileSize),
		Strict: s.Execution.StrictLimits,
	}
	if l == (v1.Limits{}) {
		return nil
	}
	return &l
}

func kindOf(s *process.Spec, f *v1.Spec) {
	f.OnDemand = s.Policy.OnDemand
	f.Once = s.Policy.Kind == process.SingleRun && !f.OnDemand
	if s.Policy.Kind != process.Periodic {
		return
	}
	f.Schedule = &v1.Schedule{
		Cron: s.Policy.Crontab, Every: seconds(s.Policy.CycleTime), TimeZone: s.Schedule.TimeZone,
		Overlap: string(s.Schedule.Overlap), Missed: string(s.Schedule.Missed), Jitter: seconds(s.Schedule.Jitter),
	}
}

func healthOf(s *process.Spec) *v1.Health {
	p := s.Probes
	if s.Commands.Health == "" && p.HTTP == "" && p.TCP == "" && !p.Watchdog {
		return nil
	}
	h := &v1.Health{
		Exec: s.Commands.Health, HTTP: p.HTTP, Insecure: p.Insecure, TCP: p.TCP, Watchdog: p.Watchdog,
		Every: seconds(p.HealthInterval), Timeout: seconds(p.HealthTimeout), Failures: number(p.Failures),
		Grace: seconds(p.Grace),
	}
	if p.Restart {
		h.Action = "restart"
	}
	return h
}

func logOf(p process.LogPolicy) *v1.Log {
	if p == (process.LogPolicy{}) {
		return nil
	}
	l := &v1.Log{Keep: p.Keep, MaxAge: duration(p.MaxAge), Pipe: p.Pipe}
	if p.MaxSize != 0 {
		size := v1.Size(p.MaxSize)
		l.MaxSize = &size
	}
	if p.Plain {
		no := false
		l.Compress = &no
	}
	return l
}

// labelsOf sets the labels. It returns labels that are not names with strings, as they are.
func labelsOf(s *process.Spec, f *v1.Spec) (rest string) {
	if len(s.Labels) == 0 {
		return ""
	}
	var all map[string]string
	var compact bytes.Buffer
	if err := json.Compact(&compact, s.Labels); err != nil {
		return string(s.Labels)
	}
	if err := json.Unmarshal(s.Labels, &all); err != nil || len(all) == 0 {
		return compact.String()
	}
	found := v1.Spec{Labels: all}
	if all[labelStopScope] == onlyProcess {
		delete(all, labelStopScope)
		found.StopScope = onlyProcess
	}
	if again := labels(found); !bytes.Equal(again, compact.Bytes()) {
		return compact.String()
	}
	if f.StopScope = found.StopScope; len(all) > 0 {
		f.Labels = all
	}
	return ""
}

// compatOf sets the fields of a spec of the GSE and JOB APIs.
func compatOf(s *process.Spec, f *v1.Spec) {
	p, l := s.Policy, s.Limits
	c := &v1.Compat{
		RestartCommand: s.Commands.Restart, KillCommand: s.Commands.Kill, OpTimeout: p.OpTimeout,
		ConfigPath: s.Identity.ConfigPath, KindAssumed: p.KindAssumed,
		FuncID: s.FuncID, InstanceID: s.InstanceID, Contact: s.Contact,
	}
	f.Compat = c
	if path.IsAbs(s.Identity.LogPath) {
		f.LogFile = s.Identity.LogPath
	} else {
		c.LogPath = s.Identity.LogPath
	}
	resource := v1.CompatResource{FD: l.FD, Disk: l.Disk, Net: l.Net}
	if !percentage(l.CPU) {
		resource.CPU = l.CPU
	}
	if !percentage(l.Mem) {
		resource.Mem = l.Mem
	}
	if resource != (v1.CompatResource{}) {
		c.Resource = &resource
	}
	if p.Kind == process.Resident {
		f.Restart = wireRestart(p)
	} else {
		c.StartRetries, c.StartInterval = p.StartRetries, p.StartInterval
	}
	if p.Kind != process.Periodic {
		c.Crontab, c.CycleTime = p.Crontab, p.CycleTime
	}
	f.StopSignals = wireSignals(s)
	if len(f.StopSignals) == 0 {
		c.StopCheck = p.StopCheck
	}
	checked := seconds(p.StartCheckBegin)
	if p.StartCheckEnd > 0 {
		c.StartCheckBegin, checked = p.StartCheckBegin, seconds(p.StartCheckEnd)
	}
	if s.Ready == nil {
		f.Ready = &v1.Ready{Alive: checked}
	} else {
		f.Ready = checkOf(s.Ready)
		f.Ready.Within = checked
	}
}

// wireRestart is the policy of relaunches that the GSE and JOB APIs mean.
func wireRestart(p process.Policy) *v1.Restart {
	factor, jitter, count := 1.0, v1.Percent(0), v1.Count(p.StartRetries)
	return &v1.Restart{
		When: string(process.Always), Delay: seconds(p.StartInterval), Factor: &factor, Jitter: &jitter,
		ResetAfter: span(time.Minute), GiveUpAfter: &count,
	}
}

// wireRestartOf checks that a policy is one of wireRestart.
func wireRestartOf(r *v1.Restart) (process.Policy, error) {
	p := process.Policy{StartInterval: int(milliseconds(r.Delay, 0) / 1000)}
	if r.GiveUpAfter != nil {
		p.StartRetries = int(*r.GiveUpAfter)
	}
	if !reflect.DeepEqual(wireRestart(p), r) || p.StartRetries < 0 {
		return p, errors.New("use {when: always, delay: 10s, factor: 1, jitter: 0%, reset_after: 1m, give_up_after: 4}")
	}
	return p, nil
}

// wireSignals are the signals that the GSE and JOB APIs mean.
func wireSignals(s *process.Spec) []v1.StopSignal {
	if s.Commands.Stop != "" {
		return []v1.StopSignal{}
	}
	return []v1.StopSignal{{Signal: "TERM", Wait: v1.Duration(time.Duration(s.Policy.StopCheck) * time.Second)}}
}

// percentage reports whether a threshold is one that a file can have.
func percentage(share float64) bool { return share > 0 && share <= 100 }

func unless(text, otherwise string) string {
	if text == otherwise {
		return ""
	}
	return text
}

// number returns a number, or nil for 0.
func number(n int) *int {
	if n == 0 {
		return nil
	}
	return &n
}

func fromMillis(n int64) v1.Duration { return v1.Duration(time.Duration(n) * time.Millisecond) }

func span(d time.Duration) *v1.Duration {
	v := v1.Duration(d)
	return &v
}

// duration returns milliseconds as a duration, or nil for 0.
func duration(millis int64) *v1.Duration {
	if millis == 0 {
		return nil
	}
	return span(time.Duration(millis) * time.Millisecond)
}

// seconds returns seconds as a duration, or nil for 0.
func seconds(n int) *v1.Duration { return duration(int64(n) * 1000) }
