package gse_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "drover/api/v1"
	"drover/internal/gse"
	"drover/internal/process"

	"github.com/google/go-cmp/cmp"
)

func TestStr(t *testing.T) {
	for text, want := range map[string]string{
		`"x"`: "x", `null`: "", `12`: "12", `1.50`: "1.50", `true`: "true", `{}`: "", `[1]`: "",
		`"\u00e9\u0000"`: "é\x00", ` " a " `: " a ",
	} {
		var s gse.Str
		if err := json.Unmarshal([]byte(text), &s); err != nil || s.Text() != want {
			t.Errorf("%s is %q, %v, want %q", text, s.Text(), err, want)
		}
	}
}

// operation reads one start with the given policy and resource.
func operation(t *testing.T, policy, resource string) gse.Operation {
	t.Helper()
	ops, err := gse.ReadOperate(
		[]byte(`{"meta": {"namespace": "n", "name": "p"}, "op_type": 0, "agent_id_list": ["a"], "spec": {
		"identity": {"proc_name": "p", "setup_path": "/", "user": "root"}, "resource": ` + resource + `, "alive_monitor_policy": ` + policy + `}}`))
	if err != nil {
		t.Fatal(err)
	}
	return ops[0]
}

func TestNumbersInEverySpelling(t *testing.T) {
	for text, want := range map[string]int{
		`7`: 7, `"7"`: 7, `" 7 "`: 7, `7.0`: 7, `"7.0"`: 7, `7e0`: 7, `70e-1`: 7, `null`: 60, `0`: 60, `""`: 60,
		`-3`: 60, `"0"`: 60,
	} {
		o := operation(t, `{"op_timeout": `+text+`}`, `null`)
		if o.Problem != nil || o.Spec.Compat.OpTimeout != want {
			t.Errorf("%s is %d, %v, want %d", text, o.Spec.Compat.OpTimeout, o.Problem, want)
		}
	}
	for _, text := range []string{
		`"x"`, `7.5`, `true`, `[]`, `{}`, `"0x10"`, `"1_0"`, `"inf"`, `1e400`,
		`99999999999999999999`, `9007199254740993.5`, `"７"`,
	} {
		o := operation(t, `{"op_timeout": `+text+`}`, `null`)
		if o.Problem == nil || o.Problem.Fault != process.Failed ||
			!strings.HasPrefix(o.Problem.Text, "spec.alive_monitor_policy.op_timeout is ") {
			t.Errorf("%s: problem is %v", text, o.Problem)
		}
	}
	for text, want := range map[string]v1.Percent{
		`30.5`: 30.5, `"30.5"`: 30.5, `null`: 0, `""`: 0, `-1`: 0, `100.5`: 0, `1e1`: 10,
	} {
		o := operation(t, `null`, `{"cpu": `+text+`}`)
		if got := o.Spec.Shares().CPU; o.Problem != nil || got != want {
			t.Errorf("cpu %s is %v, %v, want %v", text, got, o.Problem, want)
		}
		// A share that is out of range limits nothing, and is kept.
		if r := o.Spec.Compat.Resource; (r != nil) != (text == `-1` || text == `100.5`) ||
			r != nil && strconv.FormatFloat(r.CPU, 'g', -1, 64) != text {
			t.Errorf("cpu %s is kept as %+v", text, r)
		}
	}
	for _, text := range []string{`"NaN"`, `"Inf"`, `"0x1p4"`, `"1_0.0"`, `1e999`, `[]`, `"ten"`} {
		if o := operation(t, `null`, `{"cpu": `+text+`}`); o.Problem == nil ||
			!strings.HasPrefix(o.Problem.Text, "spec.resource.cpu is not a number") {
			t.Errorf("cpu %s: problem is %v", text, o.Problem)
		}
	}
}

func TestCrontabRuleBeforeItsMisspelling(t *testing.T) {
	for policy, want := range map[string]string{
		`{"auto_type": 0, "crotab_rule": "* * * * *"}`:                         "* * * * *",
		`{"auto_type": 0, "crotab_rule": "a", "crontab_rule": "b"}`:            "b",
		`{"auto_type": 0, "crotab_rule": "a", "crontab_rule": ""}`:             "a",
		`{"auto_type": "0", "crotab_rule": null, "crontab_rule": "0 1 * * *"}`: "0 1 * * *",
	} {
		if s := operation(t, policy, `null`).Spec; s.Timetable().Cron != want || s.Kind() != process.Periodic {
			t.Errorf("%s: the schedule is %+v", policy, s.Schedule)
		}
	}
}

func TestAbsentPolicyIsAllDefault(t *testing.T) {
	want := v1.Compat{StartCheckBegin: 5, StopCheck: 5, StartRetries: 4, StartInterval: 10, OpTimeout: 60}
	for _, policy := range []string{
		`null`, `{}`,
		`{"auto_type": null, "start_check_secs": 0, "start_retries": null, "start_interval": 0}`,
	} {
		if s := operation(t, policy, `null`).Spec; *s.Compat != want || s.Kind() != process.Resident {
			t.Errorf("%s: %s with the policy %+v", policy, s.Kind(), s.Compat)
		}
	}
}

func TestSpecKeepsWhatIsOnlyStored(t *testing.T) {
	ops, err := gse.ReadRegistration(
		[]byte(
			`{"meta": {"namespace": "n", "name": "p", "labels": {"id": 1}}, "hosts": [{"ip": "::1", "bk_cloud_id": "2", "bk_supplier_id": "3"}],
		"spec": {"warn_report_policy": {"report_id": "77"}, "configmap": [{"path": "/a", "md5": "x"}, {"path": "", "md5": ""}, null]}}`), process.Register)
	if err != nil {
		t.Fatal(err)
	}
	s := ops[0].Spec
	if s.AlarmID != 77 || len(s.ConfigFiles) != 1 || s.ConfigFiles[0] != (v1.ConfigFile{Path: "/a", MD5: "x"}) ||
		string(s.LabelsJSON()) != `{"id":1}` {
		t.Errorf("spec is %+v", s)
	}
	if key := ops[0].Targets[0].Key; key != "2:3:::1:n:p" {
		t.Errorf("key is %q", key)
	}
}

func TestHostOf(t *testing.T) {
	for id, want := range map[string]gse.Host{
		"0:10.0.0.1": {IP: "10.0.0.1"}, "12:2001:db8::1": {IP: "2001:db8::1", Cloud: 12}, "0200000002": {},
		"x:10.0.0.1": {}, "0:host": {}, "": {},
	} {
		if got := gse.HostOf(id); got != want {
			t.Errorf("HostOf(%q) = %+v, want %+v", id, got, want)
		}
	}
}

func TestCodes(t *testing.T) {
	for fault, want := range map[process.Fault]int{
		process.None: 0, process.Failed: 65535, "a new one": 65535,
		process.CheckFailed: 836,
	} {
		if got := gse.Code(fault); got != want {
			t.Errorf("Code(%q) = %d, want %d", fault, got, want)
		}
	}
}

func TestQueryDocumentOfAFailureHasNoTime(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", -5*3600))
	it := gse.Item{
		Asked: "3:10.1.2.3", Op: process.Query, Process: process.ID{Namespace: "n", Name: "p"},
		Outcome: &process.Outcome{Fault: process.AgentUnavailable, Text: "gone"},
	}
	first, later := gse.Result(it, now), gse.Result(it, now.Add(time.Hour))
	if diff := cmp.Diff(first, later); diff != "" {
		t.Errorf("the answer changes with the time of the poll:\n%s", diff)
	}
	var doc struct {
		IP       string `json:"ip"`
		Local    string `json:"utctime"`
		Timezone int    `json:"timezone"`
	}
	if err := json.Unmarshal([]byte(first.Content.(string)), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.IP != "10.1.2.3" || doc.Local != "" || doc.Timezone != -5 {
		t.Errorf("document is %+v", doc)
	}
}

// readers are all that read foreign bytes.
func readers() map[string]func([]byte) ([]gse.Operation, error) {
	registration := func(op process.Op) func([]byte) ([]gse.Operation, error) {
		return func(b []byte) ([]gse.Operation, error) { return gse.ReadRegistration(b, op) }
	}
	return map[string]func([]byte) ([]gse.Operation, error){
		"operate_proc_v2": gse.ReadOperate, "operate_proc_multi": gse.ReadOperateMulti,
		"operate_process": gse.ReadJobOperate, "manage_proc": gse.ReadJobManage,
		"job's operate_proc": gse.ReadJobScripted,
		"operate_proc":       gse.ReadOperateRegistered,
		"register_proc_info": registration(process.Register), "unregister_proc_info": registration(process.Unregister),
	}
}

func FuzzOperations(f *testing.F) {
	f.Add([]byte(`{}`)) // the corpus is in testdata/fuzz
	f.Fuzz(func(t *testing.T, body []byte) {
		for name, read := range readers() {
			ops, err := read(body)
			if err != nil {
				if ops != nil || err.Error() == "" {
					t.Errorf("%s: %d operations beside the error %q", name, len(ops), err)
				}
				continue
			}
			if len(ops) == 0 {
				t.Errorf("%s: neither an operation nor an error", name)
			}
			for _, o := range ops {
				checkOperation(t, name, o)
			}
		}
	})
}

// checkOperation holds what the edge relies on: a key for each target, and no operation that the agent would refuse.
func checkOperation(t *testing.T, name string, o gse.Operation) {
	t.Helper()
	if o.Op == "" || len(o.Targets) == 0 {
		t.Errorf("%s: operation %q on %d targets", name, o.Op, len(o.Targets))
	}
	for _, target := range o.Targets {
		if target.Key == "" || target.Asked() == "" || !strings.Contains(target.Key, o.ID.Name) {
			t.Errorf("%s: target %+v of %+v", name, target, o.ID)
		}
		if e := gse.Result(gse.Item{Asked: target.Asked(), Op: o.Op, Process: o.ID, Outcome: &process.Outcome{}},
			time.Unix(0, 0)); !json.Valid([]byte(e.Content.(string))) {
			t.Errorf("%s: content is %q", name, e.Content)
		}
	}
	if o.Problem != nil {
		if o.Problem.Fault == process.None || o.Problem.Text == "" {
			t.Errorf("%s: problem is %+v", name, o.Problem)
		}
		return
	}
	if err := process.ValidateID(o.ID); err != nil {
		t.Errorf("%s: no problem, but %v", name, err)
	}
	if o.Spec == nil {
		if name != "operate_proc" && o.Op != process.Query && o.Op != process.Unhost && o.Op != process.Unregister {
			t.Errorf("%s: %s without a spec", name, o.Op)
		}
		return
	}
	if err := process.Validate(o.Spec, o.Op); err != nil {
		t.Errorf("%s: no problem, but %v", name, err)
	}
	if c := o.Spec.Compat; c == nil || c.OpTimeout <= 0 || c.StopCheck <= 0 || c.StartRetries <= 0 ||
		c.StartInterval <= 0 || c.StartCheckBegin <= 0 {
		t.Errorf("%s: policy is %+v", name, c)
	}
	if _, err := json.Marshal(o.Spec); err != nil {
		t.Errorf("%s: the spec cannot be stored: %v", name, err)
	}
}

func FuzzQueries(f *testing.F) {
	f.Add([]byte(`{}`)) // the corpus is in testdata/fuzz
	f.Fuzz(func(t *testing.T, body []byte) {
		if q, err := gse.ReadSync(body); err == nil && (q.Start < 0 || q.Limit < 1 || q.Limit > gse.MaxPage) {
			t.Errorf("page is %+v", q)
		}
		if q, err := gse.ReadStatus(body); err == nil && len(q.Targets) == 0 {
			t.Errorf("query is %+v", q)
		}
		checkGroups(t, body)
		for _, read := range []func([]byte) ([]gse.Target, error){
			gse.ReadAgentHosts, gse.ReadJobAgents,
			gse.ReadAgentIDs,
		} {
			if targets, err := read(body); (err == nil) != (len(targets) > 0) {
				t.Errorf("%d agents, %v", len(targets), err)
			}
		}
		if upgrades, err := gse.ReadUpgrade(body); err == nil {
			for _, u := range upgrades {
				if u.ID == "" || u.Target.Key == "" {
					t.Errorf("upgrade %+v", u)
				}
			}
		}
		gse.MeansJob(body)
		for _, read := range []func([]byte) (string, error){gse.ReadResult, gse.ReadJobResult} {
			if id, err := read(body); (err == nil) == (id == "") {
				t.Errorf("task %q, %v", id, err)
			}
		}
	})
}

func checkGroups(t *testing.T, body []byte) {
	t.Helper()
	if namespace, targets, err := gse.ReadGetGroups(body); (err == nil) != (namespace != "" && len(targets) > 0) {
		t.Errorf("namespace %q, %d hosts, %v", namespace, len(targets), err)
	}
	s, err := gse.ReadSetGroups(body)
	if err != nil || s.Problem != nil {
		return
	}
	seen := map[string]bool{}
	for _, g := range s.Groups {
		if g.ID == "" || seen[g.ID] || g.CPULimit < 0 || g.CPULimit > 100 || g.MemLimit < 0 || g.MemLimit > 100 ||
			g.CPUWeight>>1 != 0 || g.MemWeight>>1 != 0 {
			t.Errorf("group %+v", g)
		}
		seen[g.ID] = true
	}
}

// TestSpecsOfOneBody: the same spec is read once and shared, with other labels or another text it is another, and what
// is wrong with one is the problem of all that bring it, or an error that names the first.
func TestSpecsOfOneBody(t *testing.T) {
	request := func(name, labels, spec string) string {
		return fmt.Sprintf(
			`{"meta":{"namespace":"ns","name":%q,"labels":%s},"op_type":0,"agent_id_list":["a"],"spec":%s}`, name,
			labels, spec)
	}
	spec := func(cpu string) string {
		return `{"identity":{"proc_name":"n","setup_path":"/n","user":"root"},"control":{"start_cmd":"./n"},"resource":{"cpu":` + cpu + `}}`
	}
	read := func(requests ...string) ([]gse.Operation, error) {
		return gse.ReadOperateMulti([]byte(`{"proc_operate_req":[` + strings.Join(requests, ",") + `]}`))
	}
	ops, err := read(request("a", `null`, spec("1")), request("b", `null`, spec("1")),
		request("c", `{"x":1}`, spec("1")), request("d", `null`, spec("2")),
		request("e", `null`, spec(`"much"`)), request("f", `null`, spec(`"much"`)))
	if err != nil {
		t.Fatal(err)
	}
	if ops[0].Spec != ops[1].Spec || ops[0].Spec.Shares().CPU != 1 || ops[0].Spec.LabelsJSON() != nil {
		t.Errorf("the same spec is %+v and %+v", ops[0].Spec, ops[1].Spec)
	}
	if string(ops[2].Spec.LabelsJSON()) != `{"x":1}` || ops[3].Spec.Shares().CPU != 2 {
		t.Errorf("other specs are %+v and %+v", ops[2].Spec, ops[3].Spec)
	}
	for _, o := range ops[4:] {
		if o.Problem == nil || !strings.Contains(o.Problem.Text, "spec.resource.cpu") {
			t.Errorf("the problem of %s is %v", o.ID, o.Problem)
		}
	}
	_, err = read(request("a", `null`, spec("1")), request("b", `null`, `{"control":[]}`))
	if err == nil || !strings.Contains(err.Error(), "proc_operate_req[1].spec.control is of the wrong type: array") {
		t.Errorf("the error is %v", err)
	}
	_, err = read(request("a", `null`, `"x"`))
	if err == nil || !strings.Contains(err.Error(), "proc_operate_req[0].spec is of the wrong type: string") {
		t.Errorf("the error is %v", err)
	}
	if ops, err = read(strings.Replace(request("a", `null`, `null`), `"op_type":0`, `"op_type":2`, 1)); err != nil ||
		ops[0].Spec != nil || ops[0].Problem != nil {
		t.Errorf("a query without a spec is %+v, %v", ops, err)
	}
}
