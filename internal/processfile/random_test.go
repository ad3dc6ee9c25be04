package processfile_test

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "drover/api/v1"
	"drover/internal/gse"
	"drover/internal/process"
	"drover/internal/spec"
)

// dice makes random values.
type dice struct{ *rand.Rand }

func newDice(seed uint64) dice {
	return dice{rand.New(rand.NewPCG(seed, 1))} //nolint:gosec // repeatable numbers
}

func (r dice) yes() bool { return r.IntN(2) == 0 }

// some returns a value in half of all cases.
func some[T any](r dice, value T) (v T) {
	if r.yes() {
		return value
	}
	return v
}

// maybe returns a pointer to a value in half of all cases.
func maybe[T any](r dice, value T) *T {
	if r.yes() {
		return &value
	}
	return nil
}

func pick[T any](r dice, values ...T) T { return values[r.IntN(len(values))] }

func (r dice) duration(unit time.Duration, least, most int) v1.Duration {
	return v1.Duration(time.Duration(least+r.IntN(most-least+1)) * unit)
}

func (r dice) text() string {
	return pick(r, "x", "./run --a \"b c\" # d", "echo $A\nexec y\n", "é\t\\", "true", "1", "a: b")
}

// randomProcess returns a valid process.
func randomProcess(seed uint64) v1.Spec {
	r := newDice(seed)
	f := v1.Spec{
		Directory: pick(r, "", "/", "/srv/x"), User: some(r, "u"), Group: some(r, "g"),
		Groups: pick(r, nil, []string{}, []string{"a", "b"}), EnvironmentFiles: pick(r, nil, []string{"/e"}),
		Environment: pick(r, nil, v1.Variables{}, v1.Variables{"A": r.text(), "B": ""}),
		Umask:       pick(r, "", "022", "0", "777"), Nice: maybe(r, r.IntN(40)-20),
		OOMScoreAdjust: maybe(r, r.IntN(2001)-1000), NoNewPrivileges: r.yes(),
		Capabilities: pick(r, nil, []string{}, []string{"cap_kill", "NET_RAW"}), RuntimeDirectory: some(r, "x"),
		After:          pick(r, nil, map[string]string{"b": "ready", "c/d": "finished"}),
		VersionCommand: some(r, r.text()), Stop: some(r, r.text()), StopScope: pick[spec.StopScope](r, "", "tree", "process"),
		Reload:  pick(r, nil, &v1.Reload{Command: "none"}, &v1.Reload{Command: r.text()}, &v1.Reload{Signal: "HUP"}),
		LogFile: some(r, "/var/log/x/"),
		Labels:  pick(r, nil, map[string]string{}, map[string]string{"a": r.text(), "é<": ""}),
		AlarmID: some(r, r.Int64N(9)),
		Leave:   pick[spec.Leave](r, "", "keep", "stop"), Drift: pick[spec.Drifting](r, "", "report", "mend"),
		TimeLimit: nil, ExpectedInstances: maybe(r, 1+r.IntN(3)),
		Timeouts: maybe(r, v1.Timeouts{
			Start: maybe(r, r.duration(time.Second, 59, 61)), Stop: maybe(r, r.duration(time.Second, 59, 61)),
			Reload: maybe(r, r.duration(time.Second, 59, 61)), Version: maybe(r, r.duration(time.Second, 4, 6)),
		}),
		StopSignals: pick(r, nil, []v1.StopSignal{}, []v1.StopSignal{{Signal: "INT"}}, []v1.StopSignal{
			{Signal: "TERM", Wait: r.duration(time.Second, 10, 11)}, {Signal: "KILL"},
		}),
		Log: maybe(r, v1.Log{
			MaxSize: maybe(r, v1.Size(pick(r, 10<<20, 1, 7<<30))), Keep: maybe(r, 4+r.IntN(3)),
			MaxAge: maybe(r, r.duration(24*time.Hour, 29, 31)), Compress: maybe(r, r.yes()),
			Pipe: r.yes(),
		}),
		Thresholds: maybe(r, v1.Thresholds{Memory: some(r, v1.Percent(80.5)), CPU: some(r, v1.Percent(100))}),
	}
	if r.yes() {
		f.Run, f.ExpectedInstances = r.text(), nil
	} else {
		f.Start, f.PIDFile, f.ProcessName = r.text(), some(r, "/run/x.pid"), "x"
	}
	if r.yes() {
		f.Preflight = &v1.Before{Run: r.text(), Timeout: maybe(r, r.duration(time.Second, 29, 31))}
		f.BeforeStart = &v1.Before{Run: r.text(), Timeout: maybe(r, r.duration(time.Second, 59, 61))}
		f.BeforeStop = &v1.BeforeStop{Run: r.text(), Wait: maybe(r, r.duration(time.Second, 0, 1))}
		f.ConfigFiles = []v1.ConfigFile{{Path: "/a", MD5: strings.Repeat("aB", 16)}, {Path: "/b", SHA256: strings.Repeat("0", 64)}}
	}
	f.Rollout = maybe(r, v1.RolloutPlan{
		Batch: pick(r, v1.HostCount{Number: 20}, v1.HostCount{Percent: 10}), Canary: 1,
		Bake: some(r, r.duration(time.Second, 59, 61)), Pause: some(r, r.duration(time.Hour, 23, 24)),
		MaxFailures: pick(r, v1.HostCount{}, v1.HostCount{Percent: 5}), MaxUnavailable: some(r, v1.HostCount{Number: 3}),
		Order: pick(r, "", "zone", "os", "fact.rack"), SkipAway: r.yes(), CanaryApproval: r.yes(),
		UndoOnFailure: r.yes(),
		CanarySelect:  pick(r, "", "ring=early,!old"), Spread: pick(r, "", "zone"),
	})
	f.Limits, f.Ready, f.Health = r.limits(), r.ready(), r.health()
	if f.Run == "" && f.Ready != nil && f.Ready.NotifyFD != nil {
		f.Ready.NotifyFD, f.Ready.Notify = nil, true
	}
	r.kind(&f)
	return f
}

func (r dice) limits() *v1.Limits {
	size := func() *v1.LimitSize { return maybe(r, v1.LimitSize(pick[int64](r, 0, 1, 64<<20, spec.Unlimited))) }
	return maybe(r, v1.Limits{
		Memory: some(r, v1.Size(64<<20)), CPU: some(r, v1.Percent(150)), Tasks: some(r, int64(9)),
		OpenFiles: pick[v1.LimitNumber](r, 0, 65536, spec.Unlimited), CoreSize: size(), LockedMemory: size(),
		StackSize: pick[v1.LimitSize](r, 0, 8<<20, spec.Unlimited), Processes: pick[v1.LimitNumber](r, 0, 100),
		FileSize: size(), Strict: r.yes(),
	})
}

func (r dice) ready() *v1.Ready {
	ready := v1.Ready{
		Within: maybe(r, r.duration(time.Second, 29, 31)), OnTimeout: pick(r, "", "", "report", "stop"),
	}
	switch r.IntN(9) {
	case 0:
		return nil
	case 1:
		ready.Notify = true
	case 7:
		fd := 3 + r.IntN(9)
		ready.NotifyFD = &fd
	case 2:
		ready.HTTP = pick(r, "http://a/b", "https://a/b")
		ready.Insecure = strings.HasPrefix(ready.HTTP, "https") && r.yes()
	case 3:
		ready.TCP = "a:1"
	case 4:
		ready.Log = "x.*"
	case 5:
		ready.Exec = r.text()
	case 6:
		d := pick(r, r.duration(time.Second, 0, 2), r.duration(time.Millisecond, 0, 1500))
		ready.Alive = &d
	default:
		if ready.Within == nil && ready.OnTimeout == "" {
			return nil
		}
	}
	return &ready
}

func (r dice) health() *v1.Health {
	h := v1.Health{
		Every: maybe(r, r.duration(time.Second, 59, 61)), Timeout: maybe(r, r.duration(time.Second, 4, 6)),
		Failures: maybe(r, 2+r.IntN(3)), Grace: maybe(r, r.duration(time.Second, 0, 1)),
		Action: pick(r, "", "report", "restart"),
	}
	switch r.IntN(5) {
	case 0:
		return nil
	case 1:
		h.Exec = r.text()
	case 2:
		h.HTTP, h.Insecure = "https://a", r.yes()
	case 3:
		h.TCP = "a:1"
	default:
		h.Watchdog = true
	}
	return &h
}

// kind makes the process resident, periodic or one that runs once.
func (r dice) kind(f *v1.Spec) {
	switch r.IntN(5) {
	case 4:
		f.OnDemand = true
	case 0:
		f.Once, f.TimeLimit = true, maybe(r, r.duration(time.Second, 1, 9))
	case 1:
		f.Schedule = &v1.Schedule{
			TimeZone: some(r, "UTC"), Overlap: pick[spec.Overlap](r, "", "skip", "wait", "replace"),
			Missed: pick[spec.Missed](r, "", "skip", "run-once"), Jitter: maybe(r, r.duration(time.Second, 0, 1)),
		}
		if r.yes() {
			f.Schedule.Cron = "30 3 * * *"
		} else {
			every := r.duration(time.Minute, 1, 90)
			f.Schedule.Every = &every
		}
	case 2:
		f.Restart = r.restart()
	}
}

func (r dice) restart() *v1.Restart {
	delay := r.duration(time.Millisecond, 999, 1001)
	statuses := func() []v1.Status { return pick(r, nil, []v1.Status{}, []v1.Status{"0"}, []v1.Status{"0", "TERM"}) }
	return &v1.Restart{
		When: pick[spec.When](r, "", "always", "on-failure", "never"), Delay: pick(r, nil, &delay),
		MaxDelay: pick(r, nil, new(v1.Duration(5*time.Minute)), new(v1.Duration(time.Hour))),
		Factor:   maybe(r, pick(r, 1, 2, 1.5)), Jitter: maybe(r, v1.Percent(pick(r, 0, 10, 33.3))),
		ResetAfter: maybe(r, r.duration(time.Second, 59, 61)), GiveUpAfter: maybe(r, pick(r, spec.NeverGiveUp, 1, 9)),
		SuccessCodes: statuses(), NeverOn: statuses(),
	}
}

// randomWireSpec returns a spec that the compatible APIs make of a random call.
func randomWireSpec(t *testing.T, seed uint64) *process.Spec {
	t.Helper()
	r := newDice(seed)
	body, read := r.gseCall(), gse.ReadOperate
	if r.yes() {
		body, read = r.jobCall(), gse.ReadJobManage
	}
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	ops, err := read(text)
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return ops[0].Spec
}

// object is a JSON object of which random fields are missing.
func (r dice) object(fields map[string]any) map[string]any {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if r.IntN(4) == 0 {
			delete(fields, name)
		}
	}
	return fields
}

func (r dice) gseCall() map[string]any {
	n := func() any { return pick[any](r, 0, 1, 7, 90, -1, "3") }
	control, policy := map[string]any{}, map[string]any{
		"auto_type": r.IntN(3), "crontab_rule": pick(r, "", "*/5 * * * *", "@daily"),
	}
	for _, name := range []string{"start", "stop", "restart", "reload", "kill", "version", "health"} {
		control[name+"_cmd"] = pick(r, "", r.text())
	}
	for _, name := range []string{"start_check_secs", "stop_check_secs", "start_retries", "start_interval", "op_timeout"} {
		policy[name] = n()
	}
	return map[string]any{
		"meta": map[string]any{"namespace": "n", "name": "p", "labels": pick[any](r, nil, 1, "x", map[string]any{}, []any{1},
			map[string]any{"a": "b<", "c": ""}, map[string]any{"a": 1}, map[string]any{"drover.stop_scope": "process"},
			map[string]any{"z": "1", "b": "2", "drover.stop_scope": "process"})},
		"op_type": 0, "agent_id_list": []string{"a"},
		"spec": map[string]any{
			"identity": map[string]any{
				"proc_name": "p", "setup_path": pick(r, "/", "/srv"), "user": "root", "pid_path": pick(r, "", "/p"),
				"config_path": pick(r, "", "c"), "log_path": pick(r, "", "l", "/l"),
			},
			"control": r.object(control), "alive_monitor_policy": r.object(policy),
			"resource": r.object(map[string]any{
				"cpu": pick[any](r, 0, 30.5, 100, 101, -1), "mem": pick[any](r, 0, 50, 1e9), "fd": n(), "disk": n(), "net": n(),
			}),
			"warn_report_policy": r.object(map[string]any{"report_id": n()}),
			"configmap": pick[any](r, nil, []any{map[string]any{"path": "/c", "md5": ""}},
				[]any{map[string]any{"path": "/c", "md5": strings.Repeat("aF", 16)}, map[string]any{"path": "", "md5": ""}}),
		},
	}
}

func (r dice) jobCall() map[string]any {
	n := func() any { return pick[any](r, 0, 1, 7, 90) }
	info := map[string]any{
		"proc_name": "p", "setup_path": pick(r, "/", "/srv/"), "account": pick(r, "", "u"),
		"pid_path": pick(r, "", "/p"), "cfg_path": pick(r, "", "c"), "log_path": pick(r, "", "/l"),
		"cpu_lmt": pick[any](r, 0, 30, 101), "mem_lmt": n(), "func_id": pick(r, "", "f"), "instance_id": pick(r, "", "i"),
		"proc_owner": "me", "contact": pick(r, "", "me"), "cycle_time": n(), "instance_num": n(), "op_timeout": n(),
		"start_check_begin_time": n(), "start_check_end_time": n(), "type": r.IntN(3),
	}
	for _, name := range []string{"start", "stop", "restart", "reload", "kill"} {
		info[name+"_cmd"] = pick(r, "", r.text())
	}
	info["value_key"], info["ip_list"] = "x", []any{map[string]any{"ip": "10.0.0.1", "bk_cloud_id": 0}}
	for _, name := range []string{"type", "cycle_time", "op_timeout", "func_id", "account"} {
		if r.yes() {
			delete(info, name)
		}
	}
	return map[string]any{
		"bk_scope_type": "biz", "bk_scope_id": "2", "op_type": 1,
		"process_infos": []any{info},
	}
}

// specsOf reads the specs in a request, whatever call it belongs to.
func specsOf(text []byte) (all []*process.Spec) {
	var request struct{ Body json.RawMessage }
	if json.Unmarshal(text, &request) != nil {
		return nil
	}
	register := func(body []byte) ([]gse.Operation, error) { return gse.ReadRegistration(body, process.Register) }
	for _, read := range []func([]byte) ([]gse.Operation, error){
		gse.ReadOperate, gse.ReadOperateMulti, gse.ReadJobManage, gse.ReadJobOperate, register,
	} {
		ops, err := read(request.Body)
		if err != nil {
			continue
		}
		for _, o := range ops {
			if o.Spec != nil {
				all = append(all, o.Spec)
			}
		}
	}
	return all
}
