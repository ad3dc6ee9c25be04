package selecting_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"drover/internal/test/harness"
)

// The hosts of a fleet: one with labels of its token, one with labels and facts of its own, and a bare one.
const (
	joined = "0:127.0.0.2"
	own    = "0:127.0.0.3"
	bare   = "0:127.0.0.4"
)

type fleet struct {
	*harness.Fleet
	facts  string // the directory with the facts of host own
	agents map[string]*harness.Program
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{harness.NewFleet(t, binaries.drover, binaries.agent), "", map[string]*harness.Program{}}
	if code, errs := f.Join("joined", "127.0.0.2", f.Token(0, "--labels", "role=web,zone=a")); code != 0 {
		t.Fatal(errs)
	}
	f.agents[joined] = f.StartAgent("joined", "--facts-dir", "/nonexistent")
	f.facts = filepath.Join(f.Dir, "facts.d")
	must(t, os.Mkdir(f.facts, 0o755)) //nolint:gosec // the agent trusts it
	must(t, os.WriteFile(filepath.Join(f.facts, "rack.json"), []byte(`{"rack": "4", "ssd": true}`), 0o600))
	must(t, harness.WriteProgram(filepath.Join(f.facts, "kind"), []byte("#!/bin/sh\necho '{\"kind\": \"vm\"}'\n")))
	f.agents[own] = f.JoinAndStart("own", "127.0.0.3", 0, "--labels", "role=web,tier=x", "--facts-dir", f.facts)
	f.agents[bare] = f.JoinAndStart("bare", "127.0.0.4", 0, "--facts-dir", "/nonexistent")
	f.Online(joined)
	for _, selector := range []string{"os", "fact.kind"} {
		want := 3
		if selector == "fact.kind" {
			want = 1
		}
		harness.Eventually(t, "the facts of the hosts", func() bool { return len(f.selected(selector)) == want })
	}
	return f
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// drover runs a command against the server and returns what came of it.
func (f *fleet) drover(args ...string) (code int, stdout, stderr string) {
	f.T.Helper()
	return f.Run("server", "", f.Drover, append(args, "--data-dir", f.ServerDir())...)
}

// never is a process that no test starts by accident.
const never = `run: "true", schedule: {cron: "0 0 1 1 *"}`

// file writes a process file with a document for each process. Each gets a directory of its own: all agents are on one
// machine, where two of them do not manage the same process.
func (f *fleet) file(processes ...string) string {
	f.T.Helper()
	var text strings.Builder
	for i, p := range processes {
		dir := filepath.Join(f.Dir, fmt.Sprint("p", i))
		if err := os.Mkdir(dir, 0o700); err != nil {
			f.T.Fatal(err)
		}
		fmt.Fprintf(&text, "---\nnamespace: shop\nprocesses:\n  "+p+"\n", dir)
	}
	path := filepath.Join(f.Dir, "p.yaml")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		f.T.Fatal(err)
	}
	return path
}

// selected returns the hosts that match an expression.
func (f *fleet) selected(expression string) []string {
	f.T.Helper()
	code, out, errs := f.drover("agents", "-l", expression, "-o", "name")
	if code != 0 && code != 4 {
		f.T.Fatalf("%s: exit code %d: %s", expression, code, errs)
	}
	return strings.Fields(out)
}

func (f *fleet) want(expression string, hosts ...string) {
	f.T.Helper()
	if got := f.selected(expression); !slices.Equal(got, hosts) {
		f.T.Errorf("%s selects %q, want %q", expression, got, hosts)
	}
}

// TestLabelsAndFactsSelect: the sources in their order, and facts, also of hosts that are away after a restart.
func TestLabelsAndFactsSelect(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	look := func() {
		t.Helper()
		f.want("role=web", joined, own)
		f.want("zone=a", joined)
		f.want("role!=web", bare)
		f.want("tier", own)
		f.want("fact.rack=4,fact.ssd=true", own)
		f.want("fact.kind in (vm,metal)", own)
		f.want("!fact.kind", joined, bare)
	}
	look()
	f.CLI("agents", "label", joined, own, "role=db", "tier-")
	f.want("role=db", joined, own)
	f.want("tier")
	f.want("role=web")
	f.CLI("agents", "label", "-l", "role=db", "role-")
	f.want("role") // the removal hides what token and host say
	f.CLI("agents", "label", bare, "role=web")
	f.want("role", bare)
	f.agents[own].End(syscall.SIGKILL)
	f.Server.End(syscall.SIGKILL)
	f.StartServer()
	f.want("role", bare)
	f.want("fact.rack=4", own) // it is away, and still known

	// A fact that changes arrives with the next introduction.
	must(t, os.WriteFile(filepath.Join(f.facts, "rack.json"), []byte(`{"rack": "5"}`), 0o600))
	f.StartAgent("own", "--facts-dir", f.facts)
	harness.Eventually(t, "the new fact", func() bool { return slices.Equal(f.selected("fact.rack=5"), []string{own}) })
	f.want("fact.ssd")
	if out := f.CLI("agents", "--group-by", "fact.rack", "--no-headers"); !strings.Contains(out, "5  1") {
		t.Errorf("the groups are %s", out)
	}
}

// TestOnlyLabelsOfPeopleAndTokensGrant: what a host says of itself opens nothing.
func TestOnlyLabelsOfPeopleAndTokensGrant(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	file := f.file(`api: {`+never+`, directory: %s, hosts: {select: "role=web,!tier"}}`,
		`api: {`+never+`, directory: %s, hosts: {select: "role=web,tier"}}`)
	f.CLI("apply", "-f", file, "--yes")
	var made struct{ Secret string }
	must(t, json.Unmarshal([]byte(f.CLI("app", "create", "shop", "--grant", "read,operate on shop at label:role=web",
		"--may-name-users", "-o", "json")), &made))
	secret := made.Secret
	list := func() string {
		t.Helper()
		return f.asApp("shop", secret, "ps", "-o", "json")
	}
	if out := list(); !strings.Contains(out, joined) || strings.Contains(out, own) {
		t.Errorf("the app sees %s", out)
	}
	for host, want := range map[string]int{joined: 0, own: 4} {
		if code, errs := f.asAppCode("shop", secret, "stop", "shop/api", "--hosts", host); code != want {
			t.Errorf("stop on %s: exit code %d, want %d: %s", host, code, want, errs)
		}
	}
	// A person's word opens the host, and closes the other.
	f.CLI("agents", "label", own, "role=web")
	f.CLI("agents", "label", joined, "role-")
	for host, want := range map[string]int{joined: 4, own: 0} {
		if code, errs := f.asAppCode("shop", secret, "stop", "shop/api", "--hosts", host); code != want {
			t.Errorf("after labels: stop on %s: exit code %d, want %d: %s", host, code, want, errs)
		}
	}
	if code, _ := f.asAppCode("shop", secret, "agents", "label", joined, "role=web"); code != 5 {
		t.Errorf("an app without label-agents labels hosts: exit code %d", code)
	}
	for _, grant := range []string{"read on * at label:os=debian", "read on * at label:fact.rack=4", "read on * at label:a"} {
		if code, _, _ := f.drover("app", "create", "facts", "--grant", grant); code != 2 {
			t.Errorf("%s: exit code %d, want 2", grant, code)
		}
	}
	// An expression excludes, and never turns into the pattern of a host.
	f.CLI("agents", "label", own, "zone=b")
	f.CLI("agents", "label", joined, "role=web")
	f.CLI("app", "revoke", "shop", "read,operate on shop at label:role=web")
	f.CLI("app", "grant", "shop", "read,operate on shop at label:role in (web,db),zone!=b")
	for host, want := range map[string]int{joined: 0, own: 4} {
		if code, errs := f.asAppCode("shop", secret, "stop", "shop/api", "--hosts", host); code != want {
			t.Errorf("by an expression: stop on %s: exit code %d, want %d: %s", host, code, want, errs)
		}
	}
	if code, _, errs := f.drover("app", "grant", "shop", "operate on shop at zone!=b"); code != 2 ||
		!strings.Contains(errs, "needs label:") {
		t.Errorf("a condition without label: exit code %d: %s", code, errs)
	}
	rows := f.CLI("audit", "--action", "hosts.label", "-o", "json")
	if !strings.Contains(rows, `"role"`) || !strings.Contains(rows, own) {
		t.Errorf("the audit rows are %s", rows)
	}
}

// asApp runs a command as an app that calls over the network, which must succeed.
func (f *fleet) asApp(app, secret string, args ...string) string {
	f.T.Helper()
	r := f.remote(app, secret, args...)
	if r.Code != 0 {
		f.T.Fatalf("drover %q: exit code %d: %s", args, r.Code, r.Errors)
	}
	return r.Out
}

func (f *fleet) asAppCode(app, secret string, args ...string) (code int, stderr string) {
	f.T.Helper()
	r := f.remote(app, secret, args...)
	return r.Code, r.Errors
}

func (f *fleet) remote(app, secret string, args ...string) harness.Finished {
	f.T.Helper()
	return harness.Finish(f.T, "", f.environment(app, secret), f.Drover, append(args, "--server", f.URL)...)
}

// environment is that of a caller over the network.
func (f *fleet) environment(app, secret string) []string {
	return append(os.Environ(), "DROVER_APP_CODE="+app, "DROVER_APP_SECRET="+secret, "DROVER_USER=anna",
		"SSL_CERT_FILE="+filepath.Join(f.ServerDir(), "server", "pki", "ca.pem"), "DROVER_SERVER="+f.URL)
}

// TestASelectionIsKept: the server resolves an expression once; what comes to match later is no part of the task.
func TestASelectionIsKept(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	const api = `api: {` + never + `, labels: {tier: front}, directory: %s, hosts: `
	file := f.file(api+`["`+joined+`"]}`, api+`{select: "tier"}}`, api+`["`+bare+`"]}`,
		`db: {`+never+`, directory: %s, hosts: {select: "!role"}}`)
	f.CLI("apply", "-f", file, "--yes")
	if out := f.CLI("ps", "shop/db", "-o", "json"); strings.Count(out, `"shop"`) != 1 || !strings.Contains(out, bare) {
		t.Errorf("db is on %s", out)
	}
	f.CLI("stop", "shop/api", "-l", "role=web,zone!=b", "--yes")
	stopped := f.CLI("ps", "shop/api", "--state", "stopped", "--no-headers")
	if strings.Count(stopped, "shop/api") != 2 || strings.Contains(stopped, bare) {
		t.Errorf("stopped are %s", stopped)
	}
	f.CLI("agents", "label", bare, "role=web")
	tasks := f.CLI("task", "list", "--limit", "1", "-o", "json")
	if !strings.Contains(tasks, `"selector": "role=web,zone!=b"`) || !strings.Contains(tasks, `"targets": 2`) {
		t.Errorf("the last task is %s", tasks)
	}
	f.CLI("start", "shop/*", "--process-label", "tier=front", "--state", "stopped", "--limit", "1", "--yes")
	if out := f.CLI("ps", "shop/api", "--state", "stopped", "--no-headers"); strings.Count(out, "shop/api") != 1 {
		t.Errorf("still stopped are %s", out)
	}
	names := filepath.Join(f.Dir, "hosts")
	must(t, os.WriteFile(names, []byte("# two\n"+joined+"\n\n"+own+"\n"), 0o600))
	if out := f.CLI("ps", "shop/api", "--hosts", "@"+names, "--no-headers"); strings.Count(out, "shop/api") != 2 {
		t.Errorf("on the hosts of the file are %s", out)
	}
	for _, args := range [][]string{{"restart", "shop/api", "-l", ""}, {"stop", "shop/*", "-l", "role="}} {
		if code, _, errs := f.drover(args...); code != 2 || !strings.Contains(errs, "character") {
			t.Errorf("%q: exit code %d: %s", args, code, errs)
		}
	}
	if code, _, errs := f.drover("restart", "shop/api", "-l", "role=none"); code != 4 || !strings.Contains(errs, "role=none") {
		t.Errorf("an expression without a host: exit code %d: %s", code, errs)
	}
}

// TestInventory: other programs read the fleet.
func TestInventory(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	table := strings.Split(strings.TrimSpace(f.CLI("agents", "-o", "csv")), "\n")
	if len(table) != 4 || !strings.HasPrefix(table[0], "HOST,ADDRESS,STATE,") ||
		!strings.Contains(table[1], `"role=web,zone=a"`) {
		t.Errorf("the table is %q", table)
	}
	if out := f.CLI("agents", "--search", "RACK=4", "-o", "name"); strings.TrimSpace(out) != own {
		t.Errorf("found are %s", out)
	}
}

// TestAnsible: the example of an inventory script tells the hosts and their groups.
func TestAnsible(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	script := filepath.Join(harness.Root(), "examples", "ansible", "drover_inventory.py")
	run := func(selector string, args ...string) map[string]json.RawMessage {
		t.Helper()
		env := append(f.environment(harness.AppCode, harness.AppSecret), "DROVER="+f.Drover)
		if selector != "" {
			env = append(env, "DROVER_SELECTOR="+selector)
		}
		r := harness.Finish(t, "", env, "/usr/bin/python3", append([]string{script}, args...)...)
		var all map[string]json.RawMessage
		if err := json.Unmarshal([]byte(r.Out), &all); err != nil {
			t.Fatalf("%v: %s%s", err, r.Out, r.Errors)
		}
		return all
	}
	all := run("", "--list")
	var group struct{ Hosts []string }
	for name, want := range map[string][]string{
		"all": {joined, own, bare}, "label_role_web": {joined, own}, "label_zone_a": {joined}, "fact_rack_4": {own},
		"online": {joined, own, bare},
	} {
		if err := json.Unmarshal(all[name], &group); err != nil || !slices.Equal(group.Hosts, want) {
			t.Errorf("group %s has %q, %v; want %q", name, group.Hosts, err, want)
		}
	}
	if host := run("", "--host", own); string(host["ansible_host"]) != `"127.0.0.3"` {
		t.Errorf("the host is %s", host)
	}
	none := harness.Finish(t, "", append(f.environment(harness.AppCode, harness.AppSecret), "DROVER="+f.Drover,
		"DROVER_SELECTOR=role=none"), "/usr/bin/python3", script, "--list")
	if none.Code != 4 || none.Out != "" || !strings.Contains(none.Errors, "no host matches role=none") {
		t.Errorf("without a host the inventory is %+v", none)
	}
	lost := harness.Finish(t, "", []string{"DROVER=/nonexistent/drover"}, "/usr/bin/python3", script, "--list")
	if lost.Code != 1 || lost.Out != "" || !strings.HasPrefix(lost.Errors, "cannot run /nonexistent/drover: ") {
		t.Errorf("without drover the inventory is %+v", lost)
	}
}

// TestLoadIsTrue: list_agent_info tells how busy the machine is.
func TestLoadIsTrue(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	harness.Eventually(t, "the load of a host", func() bool {
		data := f.CLI("agents", joined, "-o", "json")
		var agents []struct {
			Load *struct{ CPU, Memory float64 }
		}
		must(t, json.Unmarshal([]byte(data), &agents))
		return len(agents) == 1 && agents[0].Load != nil && agents[0].Load.Memory > 0 && agents[0].Load.Memory < 100
	})
	status, reply, err := harness.Caller{URL: f.URL, Client: f.Client}.Do("POST", "/api/v2/cluster/list_agent_info",
		harness.Object{"agent_id_list": []string{joined}})
	if err != nil || status != 200 {
		t.Fatalf("HTTP %d, %v, %v", status, reply, err)
	}
	rows, _ := reply["data"].([]any)
	if len(rows) != 1 {
		t.Fatalf("list_agent_info answers %v", reply)
	}
	row, _ := rows[0].(map[string]any)
	if rate, _ := row["mem_rate"].(float64); rate <= 0 || rate > 100 {
		t.Errorf("list_agent_info says %v", row)
	}
}

// TestFailedOfARemovedHost: what failed on a host that was removed since is left out, with a word.
func TestFailedOfARemovedHost(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	for _, host := range []string{joined, own} {
		dir := filepath.Join(f.Dir, strings.TrimPrefix(host, "0:"))
		must(t, os.Mkdir(dir, 0o700))
		spec := filepath.Join(dir, "spec.yaml")
		must(t, os.WriteFile(spec, fmt.Appendf(nil, "run: ./missing\ndirectory: %s\n", dir), 0o600))
		f.CLI("register", "shop/web", "--hosts", host, "--file", spec)
	}
	if code, _, errs := f.drover("start", "shop/web", "--yes"); code != 1 {
		t.Fatalf("a start without a program: exit code %d: %s", code, errs)
	}
	id := strings.TrimSpace(f.CLI("task", "list", "--op", "start", "--limit", "1", "-o", "name"))
	f.CLI("agents", "remove", own, "--yes")
	for _, command := range []string{"start", "ps"} {
		args := []string{command, "--failed-of", id}
		if command == "start" {
			args = append(args, "--dry-run")
		}
		code, out, errs := f.drover(args...)
		if code != 0 || !strings.Contains(out, joined) || strings.Contains(out, own) ||
			!strings.Contains(errs, "left out: 1 target on hosts that were removed") {
			t.Errorf("%s: exit code %d: %s%s", command, code, out, errs)
		}
	}
	f.CLI("agents", "remove", joined, "--yes")
	if code, _, errs := f.drover("start", "--failed-of", id, "--yes"); code != 4 ||
		!strings.Contains(errs, "failed only on hosts that were removed") {
		t.Errorf("of removed hosts only: exit code %d: %s", code, errs)
	}
}
