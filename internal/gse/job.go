package gse

import (
	"fmt"
	"strconv"
	"strings"

	"drover/internal/process"
	"drover/internal/spec"
)

// JOB's process APIs are a facade on the same agents: a flat spec, a scope in place of a namespace, and processes
// named by their value_key.

type (
	jobScope struct {
		Biz       Int `json:"bk_biz_id"`
		ScopeType Str `json:"bk_scope_type"`
		ScopeID   Str `json:"bk_scope_id"`
	}
	jobBody struct {
		jobScope
		OpType    Int          `json:"op_type"`
		Processes []jobProcess `json:"process_infos"`
	}
	jobProcess struct {
		SetupPath Str `json:"setup_path"`
		ProcName  Str `json:"proc_name"`
		PIDPath   Str `json:"pid_path"`
		CfgPath   Str `json:"cfg_path"`
		LogPath   Str `json:"log_path"`
		// The owner is contact in operate_process and proc_owner in manage_proc.
		Contact    Str    `json:"contact"`
		Owner      Str    `json:"proc_owner"`
		FuncID     Str    `json:"func_id"`
		InstanceID Str    `json:"instance_id"`
		ValueKey   Str    `json:"value_key"`
		Account    Str    `json:"account"`
		Extension  Str    `json:"cmd_shell_ext"` // only in operate_proc
		Hosts      []host `json:"ip_list"`
		jobCommands
		jobPolicy
	}
	jobCommands struct {
		Start   Str `json:"start_cmd"`
		Stop    Str `json:"stop_cmd"`
		Restart Str `json:"restart_cmd"`
		Reload  Str `json:"reload_cmd"`
		Kill    Str `json:"kill_cmd"`
	}
	jobPolicy struct {
		Type       Int   `json:"type"`
		CycleTime  Int   `json:"cycle_time"`
		Instances  Int   `json:"instance_num"`
		CheckBegin Int   `json:"start_check_begin_time"`
		CheckEnd   Int   `json:"start_check_end_time"`
		OpTimeout  Int   `json:"op_timeout"`
		CPULimit   Float `json:"cpu_lmt"`
		MemLimit   Float `json:"mem_lmt"`
	}
)

// ReadJobOperate reads the body of operate_process. An error means that the call is refused; it names the field.
func ReadJobOperate(body []byte) ([]Operation, error) {
	return readJob(body, process.OpOfGSE, requiredToOperate)
}

// requiredToOperate returns the name of a required field that is blank.
func requiredToOperate(p *jobProcess) (string, Str) {
	switch {
	case p.SetupPath.blank():
		return "setup_path", p.SetupPath
	case p.ProcName.blank():
		return "proc_name", p.ProcName
	case p.PIDPath.blank():
		return "pid_path", p.PIDPath
	default:
		return "", Str{}
	}
}

// ReadJobManage reads the body of manage_proc, as ReadJobOperate does. Only here may the paths be missing.
func ReadJobManage(body []byte) ([]Operation, error) {
	return readJob(body, process.OpOfJOB, func(p *jobProcess) (string, Str) {
		switch {
		case p.ProcName.blank():
			return "proc_name", p.ProcName
		case p.Owner.blank():
			return "proc_owner", p.Owner
		default:
			return "", Str{}
		}
	})
}

// ReadJobResult reads the body of get_proc_result and returns the task's id, which is not empty.
func ReadJobResult(body []byte) (string, error) {
	const field = "bk_gse_taskid"
	var (
		scope jobScope
		task  Str
	)
	err := scan(body, func(s *scanner) {
		s.object("", func(name []byte) {
			if string(name) == field {
				s.scalar(&task)
				return
			}
			scope.member(name, s)
		})
	})
	if err != nil {
		return "", err
	}
	if _, err := scope.namespace(); err != nil {
		return "", err
	}
	return taskID(field, task)
}

// readJob reads the body of either operating call; blank returns the name of a required field that is blank.
func readJob(body []byte, meaning func(int64) (process.Op, bool),
	blank func(*jobProcess) (string, Str),
) ([]Operation, error) {
	var b jobBody
	if err := scan(body, b.read); err != nil {
		return nil, err
	}
	return b.operations(meaning, blank)
}

func (b *jobBody) operations(meaning func(int64) (process.Op, bool),
	blank func(*jobProcess) (string, Str),
) ([]Operation, error) {
	namespace, err := b.namespace()
	if err != nil {
		return nil, err
	}
	if b.OpType.state == absent {
		return nil, missing("op_type")
	}
	if len(b.Processes) == 0 {
		return nil, missing("process_infos")
	}
	ops := make([]Operation, 0, len(b.Processes))
	for i := range b.Processes {
		p, at := &b.Processes[i], fmt.Sprintf("process_infos[%d].", i)
		if field, v := blank(p); field != "" {
			if err := v.required(at + field); err != nil {
				return nil, err
			}
			return nil, misreadf("%s is blank", at+field)
		}
		if len(p.Hosts) == 0 {
			return nil, missing(at + "ip_list")
		}
		spec, faults := p.translate()
		if err := fits(strings.TrimSuffix(at, "."), spec); err != nil {
			return nil, err
		}
		id := process.ID{Namespace: namespace, Name: p.key(spec)}
		if n := len(id.Name); n > longestName {
			return nil, misreadf("%s is %d bytes long: expected at most %d", at+"value_key", n, longestName)
		}
		list, err := listHosts(at+"ip_list", p.Hosts, id, keyOfJob)
		if err != nil {
			return nil, err
		}
		o := Operation{ID: id, Spec: spec, Targets: list}
		o.setOp(b.OpType, meaning)
		o.settle(o.faults(faults, speltForJob))
		ops = append(ops, o)
	}
	return ops, nil
}

// namespace returns the namespace of the scope. Both versions accept both ways to name a scope.
func (s *jobScope) namespace() (string, error) {
	if s.ScopeType.blank() && s.ScopeID.blank() {
		if err := s.Biz.required("bk_biz_id"); err != nil {
			return "", err
		}
		if s.Biz.value <= 0 {
			return "", misreadf("bk_biz_id is not positive")
		}
		return "job:biz:" + strconv.FormatInt(s.Biz.value, 10), nil
	}
	if kind := s.ScopeType.value; kind != "biz" && kind != "biz_set" {
		return "", misreadf("bk_scope_type is %.40q: expected biz or biz_set", kind)
	}
	id, err := strconv.ParseInt(s.ScopeID.value, 10, 64)
	if err != nil || id <= 0 {
		return "", misreadf("bk_scope_id is %.40q: expected a positive number", s.ScopeID.value)
	}
	return "job:" + s.ScopeType.value + ":" + strconv.FormatInt(id, 10), nil
}

// key returns the name of the process: value_key, else setup_path and proc_name joined by a separator.
func (p *jobProcess) key(spec *process.Spec) string {
	if p.ValueKey.value != "" {
		return p.ValueKey.value
	}
	dir, name := spec.Dir(), spec.ProcessName
	if strings.HasSuffix(dir, "/") || strings.HasSuffix(dir, `\`) {
		return dir + name
	}
	return dir + "/" + name
}

func (p *jobProcess) translate() (*process.Spec, []process.FieldFault) {
	var r reader
	c := &spec.Compat{}
	s := &spec.Spec{Compat: c}
	// The order of the fields is that of their faults.
	s.ProcessName = r.text("proc_name", p.ProcName)
	s.Directory = r.text("setup_path", p.SetupPath)
	s.PIDFile = r.text("pid_path", p.PIDPath)
	c.ConfigPath = r.text("cfg_path", p.CfgPath)
	s.SetLogPath(r.text("log_path", p.LogPath))
	s.User = r.text("account", p.Account)
	s.Start = r.text("start_cmd", p.Start)
	s.Stop = r.text("stop_cmd", p.Stop)
	c.RestartCommand = r.text("restart_cmd", p.Restart)
	s.SetReload(r.text("reload_cmd", p.Reload))
	c.KillCommand = r.text("kill_cmd", p.Kill)
	s.SetResource(spec.CompatResource{CPU: r.percent("cpu_lmt", p.CPULimit), Mem: r.percent("mem_lmt", p.MemLimit)})
	c.FuncID = r.text("func_id", p.FuncID)
	c.InstanceID = r.text("instance_id", p.InstanceID)
	c.Contact = r.text("contact", p.Contact)
	if c.Contact == "" {
		c.Contact = r.text("proc_owner", p.Owner)
	}
	if strings.TrimSpace(s.User) == "" {
		s.User = "root"
	}
	if s.Directory == "" {
		// manage_proc may omit setup_path. The process then runs its commands in the root directory.
		s.Directory = "/"
	}
	cycle := r.bounded("cycle_time", p.CycleTime, maxSeconds)
	missing := process.Resident
	if cycle > 0 {
		missing = process.Periodic
	}
	kind := r.kind("type", p.Type, missing)
	c.StartCheckBegin = r.bounded("start_check_begin_time", p.CheckBegin, maxOperation)
	c.StartCheckEnd = r.bounded("start_check_end_time", p.CheckEnd, maxOperation)
	c.OpTimeout = r.bounded("op_timeout", p.OpTimeout, maxOperation)
	c.KindAssumed = p.Type.state == absent && cycle == 0
	if n := r.bounded("instance_num", p.Instances, maxCount); n > spec.DefaultInstances {
		s.ExpectedInstances = &n
	}
	*c = c.Defaulted()
	s.SetKind(kind, "", cycle)
	return s, r.faults
}

// percent reads a limit. A value that is not a percentage means no limit.
func (r *reader) percent(field string, v Float) float64 {
	if n := r.number(field, v); n > 0 && n <= 100 {
		return n
	}
	return 0
}

// blank reports whether the text is missing, empty or only white space.
func (v Str) blank() bool { return strings.TrimSpace(v.value) == "" }

// speltForJob replaces the field of a fault by JOB's name.
func speltForJob(f process.FieldFault) process.FieldFault {
	switch f.Field {
	case "spec.monitor_policy.crontab_rule": // JOB's only timetable is in seconds
		return process.FieldFault{
			Field: "cycle_time",
			Text:  "cycle_time is missing: type 0 (periodic) needs it, in seconds",
		}
	case "meta":
		f.Text = strings.NewReplacer("meta.namespace", "the scope", "meta.name", "value_key").Replace(f.Text)
		return f
	}
	return renamed(f, jobField(f.Field))
}

// jobField is JOB's name of a field of a GSE spec.
func jobField(field string) string {
	switch field {
	case "spec.identity.user":
		return "account"
	case "spec.identity.config_path":
		return "cfg_path"
	}
	for _, group := range []string{"spec.identity.", "spec.control.", "spec.monitor_policy."} {
		if name, ok := strings.CutPrefix(field, group); ok {
			return name
		}
	}
	return field
}
