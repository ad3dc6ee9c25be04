package spec

import "path"

// Compat holds what the GSE and JOB APIs know of a process and no other field says. drover runs a process with Compat
// as these APIs demand it: by the checks, retries and time limits of Compat, in place of ready, restart, stop_signals
// and timeouts. Times are whole seconds.
type Compat struct {
	RestartCommand string `json:"restart_cmd,omitempty"`
	KillCommand    string `json:"kill_cmd,omitempty"`
	// OpTimeout bounds one command.
	OpTimeout int `json:"op_timeout,omitempty"`
	// StartCheckBegin is the time from a start command to the check of the process. If StartCheckEnd is greater, the
	// process may appear until then: drover checks from begin to end. Once it appeared, it must not exit, and it must
	// be alive at the end.
	StartCheckBegin int `json:"start_check_begin,omitempty"`
	StartCheckEnd   int `json:"start_check_end,omitempty"`
	// StopCheck is the time in which a process must exit after its stop command has ended.
	StopCheck int `json:"stop_check_secs,omitempty"`
	// StartRetries is the number of relaunches in a row; StartInterval is the time between them.
	StartRetries  int `json:"start_retries,omitempty"`
	StartInterval int `json:"start_interval,omitempty"`
	// ConfigPath and LogPath may be of any form.
	ConfigPath string          `json:"config_path,omitempty"`
	LogPath    string          `json:"log_path,omitempty"`
	Resource   *CompatResource `json:"resource,omitempty"`
	// Crontab and CycleTime are the timetable of a process that has no schedule.
	Crontab   string `json:"crontab_rule,omitempty"`
	CycleTime int    `json:"cycle_time,omitempty"`
	// KindAssumed tells that the caller did not say whether the process is resident.
	KindAssumed bool   `json:"kind_assumed,omitempty"`
	FuncID      string `json:"func_id,omitempty"`
	InstanceID  string `json:"instance_id,omitempty"`
	Contact     string `json:"contact,omitempty"`
	// Labels is the JSON of labels that are not names with strings.
	Labels string `json:"labels,omitempty"`
}

// CompatResource are numbers of a GSE resource that limit nothing, and shares that are out of range.
type CompatResource struct {
	CPU  float64 `json:"cpu,omitempty"`
	Mem  float64 `json:"mem,omitempty"`
	FD   int64   `json:"fd,omitempty"`
	Disk int64   `json:"disk,omitempty"`
	Net  int64   `json:"net,omitempty"`
}

// Defaults of Compat, in seconds where they are times.
const (
	compatStartCheck    = 5
	compatStopCheck     = 5
	compatStartRetries  = 4
	compatStartInterval = 10
	compatOpTimeout     = 60
)

// Defaulted returns c with every check, retry and time limit that is zero or negative replaced by its default.
func (c Compat) Defaulted() Compat {
	set := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	c.StartCheckEnd = max(c.StartCheckEnd, 0)
	if c.StartCheckBegin <= 0 {
		c.StartCheckBegin = compatStartCheck
		if c.StartCheckEnd > 0 {
			c.StartCheckBegin = min(c.StartCheckBegin, c.StartCheckEnd)
		}
	}
	set(&c.StopCheck, compatStopCheck)
	set(&c.StartRetries, compatStartRetries)
	set(&c.StartInterval, compatStartInterval)
	set(&c.OpTimeout, compatOpTimeout)
	return c
}

// FuncID is the id that a caller of JOB gives the process; empty without one.
func (s *Spec) FuncID() string { return s.compat().FuncID }

// InstanceID is the id that a caller of JOB gives the instance of the process; empty without one.
func (s *Spec) InstanceID() string { return s.compat().InstanceID }

// SetLogPath sets the log file of a caller of GSE or JOB, which may have any form.
func (s *Spec) SetLogPath(file string) {
	if path.IsAbs(file) {
		s.LogFile = file
	} else {
		s.Compat.LogPath = file
	}
}

// SetReload sets the command line of a reload; empty means none.
func (s *Spec) SetReload(line string) {
	if s.Reload = nil; line != "" {
		s.Reload = &Reload{Command: line}
	}
}

// SetHealth sets the command line of a health check; empty means none.
func (s *Spec) SetHealth(line string) {
	if s.Health = nil; line != "" {
		s.Health = &Health{Exec: line}
	}
}

// SetResource sets the thresholds of a caller of GSE or JOB, in percent of the whole machine. Numbers that limit
// nothing, and shares that are out of range, stay with Compat.
func (s *Spec) SetResource(r CompatResource) {
	percent := func(share *float64) (p Percent) {
		if *share > 0 && *share <= 100 {
			p, *share = Percent(*share), 0
		}
		return p
	}
	if shares := (Thresholds{CPU: percent(&r.CPU), Memory: percent(&r.Mem)}); shares != (Thresholds{}) {
		s.Thresholds = &shares
	}
	if r != (CompatResource{}) {
		s.Compat.Resource = &r
	}
}

// SetKind sets how long the process is meant to run. The rule and the seconds of a process that is not periodic stay
// with Compat.
func (s *Spec) SetKind(kind Kind, crontab string, cycle int) {
	s.Once, s.Schedule = kind == SingleRun, nil
	if kind != Periodic {
		if s.Compat != nil {
			s.Compat.Crontab, s.Compat.CycleTime = crontab, cycle
		}
		return
	}
	s.Schedule = &Schedule{Cron: crontab}
	if cycle > 0 {
		s.Schedule.Every = new(Duration(seconds(cycle)))
	}
}
