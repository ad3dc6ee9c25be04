package processfile_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	v1 "drover/api/v1"
	"drover/internal/test/harness"
)

// revisions are those of the namespace, the oldest first.
func (p *place) revisions() []v1.Revision {
	p.T.Helper()
	a := p.CLI("revisions", "shop", "--limit", "0", "-o", "json")
	var newest, all []v1.Revision
	if err := json.Unmarshal([]byte(a.Out), &newest); err != nil || a.Code != 0 {
		p.T.Fatalf("exit code %d, %v\n%s%s", a.Code, err, a.Out, a.Errors)
	}
	for _, r := range newest {
		all = append([]v1.Revision{r}, all...)
	}
	return all
}

// shown is a revision in one line.
func shown(r v1.Revision) string {
	text := fmt.Sprintf("%d %s %q", r.Number, r.Through, r.Message)
	for _, c := range r.Changes {
		text += fmt.Sprintf("; %s %s %d", c.Action, c.Process, c.Hosts)
		for _, f := range c.Fields {
			text += " " + f.Path
		}
	}
	return text
}

// gse is a process of a caller of GSE, with a start command of its own.
func (p *place) gse(name, start string) *harness.Process {
	g := p.Process(name)
	g.Identity = harness.Object{
		"proc_name": "sleep", "setup_path": p.Dir, "pid_path": filepath.Join(p.Dir, name+".pid"), "user": "root",
	}
	g.Control = harness.Object{
		"start_cmd": start + " >/dev/null 2>&1 & echo $! >" + name + ".pid", "kill_cmd": "kill -9 $(cat " + name + ".pid)",
	}
	return g
}

// TestRevisions: each change of a spec is a revision, whoever made it, and an apply that was made for an earlier one is
// refused.
func TestRevisions(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	file := func(mode string) string {
		return "namespace: shop\nprocesses:\n  api:\n    hosts: [\"0:127.0.0.1\"]\n    run: sleep 1000\n    directory: DIR\n" +
			"    ready: {alive: 0s}\n    environment: {MODE: " + mode + "}\n"
	}
	if a := p.CLI("apply", "-f", p.Write("file.yaml", file("one")), "--yes", "-m", "first"); a.Code != 0 {
		t.Fatalf("%s%s", a.Out, a.Errors)
	}
	pid := p.PID("api")
	p.gse("legacy", "sleep 1001").Operate(0).Want(t, "start by GSE", 0)
	p.gse("legacy", "sleep 1001").Operate(7).Want(t, "restart by GSE with the same spec", 0)
	p.gse("legacy", "sleep 1002").Operate(7).Want(t, "restart by GSE with another spec", 0)

	// Somebody else is first while a person edits.
	between := filepath.Join(p.Dir, "between.yaml")
	if err := os.WriteFile(between, []byte(strings.ReplaceAll(file("two"), "DIR", p.Dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	env := append(harness.Environment(p.Dir), "VISUAL="+binaries.drover+" apply --no-restart --yes -f "+between+" --data-dir "+p.S.DataDir+
		" >&2; sed -i s/one/three/")
	late := harness.Finish(t, "", env, binaries.drover, "edit", "shop/api", "--yes", "-m", "late", "--data-dir", p.S.DataDir)
	if late.Code != 1 || !strings.Contains(late.Errors, "somebody else has changed namespace") {
		t.Errorf("an edit that comes late: exit code %d\n%s%s", late.Code, late.Out, late.Errors)
	}
	env = append(harness.Environment(p.Dir), "VISUAL=sed -i s/two/three/")
	if a := harness.Finish(t, "", env, binaries.drover, "edit", "shop/api", "--yes", "--no-restart", "-m", "in time",
		"--data-dir", p.S.DataDir); a.Code != 0 {
		t.Errorf("edit: exit code %d\n%s%s", a.Code, a.Out, a.Errors)
	}
	for _, tag := range []string{`"4"`, `"4-x"`} {
		if status := p.put(file("four"), tag); status != http.StatusPreconditionFailed {
			t.Errorf("an apply for %s: HTTP %d", tag, status)
		}
	}
	if status := p.put(file("four"), `"5"`); status != http.StatusAccepted {
		t.Errorf("an apply for the latest revision: HTTP %d", status)
	}
	want := []string{
		`1 apply "first"; create api 1`, `2 gse ""; create legacy 1`, `3 gse ""; change legacy 1 start`,
		`4 apply ""; change api 1 environment.MODE`, `5 edit "in time"; change api 1 environment.MODE`,
		`6 apply ""; change api 1 environment.MODE`,
	}
	var got []string
	for _, r := range p.revisions() {
		got = append(got, shown(r))
		if r.Operation == "" || r.At.IsZero() || r.User == "" {
			t.Errorf("revision %d does not say when, by whom or by which operation: %+v", r.Number, r)
		}
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("revisions\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	harness.Eventually(t, "the host to have revision 6", func() bool {
		return p.Process("api").Status()["revision"] == 6.0
	})
	p.wantEvents("api", "4 environment.MODE", "5 environment.MODE", "6 environment.MODE")
	p.wantEvents("legacy", "3 start")
	if a := p.CLI("diff", "shop", "--revision", "1"); a.Code != 3 || !strings.Contains(a.Out, "~ shop/api") ||
		!strings.Contains(a.Out, "+ shop/legacy") {
		t.Errorf("hosts differ from revision 1 by: exit code %d\n%s%s", a.Code, a.Out, a.Errors)
	}
	if a := p.CLI("diff", "shop", "--revision", "5..6"); a.Code != 3 || !strings.Contains(a.Out, "~ shop/api") {
		t.Errorf("diff: exit code %d\n%s%s", a.Code, a.Out, a.Errors)
	}
	old := p.CLI("get", "shop/*", "--revision", "2")
	if old.Code != 0 || !strings.Contains(old.Out, "MODE: one") || !strings.Contains(old.Out, "sleep 1001") {
		t.Errorf("revision 2: exit code %d\n%s%s", old.Code, old.Out, old.Errors)
	}

	// Going back is an apply of an old file.
	if a := p.CLI("apply", "-f", p.Write("file.yaml", old.Out), "--yes", "-m", "back"); a.Code != 0 {
		t.Errorf("back: exit code %d\n%s%s", a.Code, a.Out, a.Errors)
	}
	if a := p.CLI("diff", "shop", "--revision", "2"); a.Code != 0 {
		t.Errorf("after the way back: exit code %d\n%s%s", a.Code, a.Out, a.Errors)
	}
	if now := p.PID("api"); now == pid {
		t.Error("the apply without --no-restart restarted nothing")
	}
	instance, _ := p.Process("api").Status()["instance"].(map[string]any)
	if instance["revision"] != 7.0 {
		t.Errorf("api runs with revision %v, want 7", instance["revision"])
	}
}

// wantEvents compares the changes of the spec that the history shows: the revision and the fields of each.
func (p *place) wantEvents(name string, want ...string) {
	p.T.Helper()
	var got []string
	for _, e := range p.Process(name).AwaitEvents(len(want), "updated") {
		text := fmt.Sprint(e["revision"])
		for _, f := range e["fields"].([]any) {
			text += fmt.Sprint(" ", f)
		}
		got = append(got, text)
		if strings.Contains(fmt.Sprint(e), "three") {
			p.T.Errorf("the event has a value: %v", e)
		}
	}
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		p.T.Errorf("changes of %s: %v, want %v", name, got, want)
	}
}

// put applies a file without restarts for a state of the namespace, and returns the status of the answer.
func (p *place) put(yaml, tag string) int {
	p.T.Helper()
	status, err := p.tryPut(yaml, tag, "")
	if err != nil {
		p.T.Fatal(err)
	}
	return status
}

func (p *place) tryPut(mode, tag, message string) (status int, err error) {
	_, mode, _ = strings.Cut(mode, "MODE: ")
	mode, _, _ = strings.Cut(mode, "}")
	body := `{"namespace":"shop","processes":{"api":{"hosts":["0:127.0.0.1"],"run":"sleep 1000","ready":{"alive":"0s"},` +
		`"directory":"` + p.Dir + `","environment":{"MODE":"` + mode + `"}}}}`
	req, err := http.NewRequest(http.MethodPut, p.S.URL+"/api/v1/namespaces/shop?no_restart=true&message="+message, //nolint:noctx // the server ends
		bytes.NewReader([]byte(body)))
	if err != nil {
		return 0, err
	}
	req.Header.Set("X-Bkapi-Authorization", fmt.Sprintf(`{"bk_app_code":%q,"bk_app_secret":%q,"bk_username":"tester"}`,
		harness.AppCode, harness.AppSecret))
	if tag != "" {
		req.Header.Set("If-Match", tag)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// TestRevisionsSurviveAKill: a server that is killed while callers change a namespace loses no change that it has
// accepted, and has none twice; the host ends up with the latest one.
func TestRevisionsSurviveAKill(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.Apply("namespace: shop\nprocesses:\n  api:\n    hosts: [\"0:127.0.0.1\"]\n    run: sleep 1000\n" +
		"    directory: DIR\n    ready: {alive: 0s}\n")
	pid := p.PID("api")
	accepted, tried := map[string]bool{}, 0
	for round := range 3 {
		var mu sync.Mutex
		var callers sync.WaitGroup
		some := make(chan struct{}, 100)
		dead := make(chan struct{})
		for c := range 3 {
			callers.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-dead:
						return
					default:
					}
					name := fmt.Sprintf("%d-%d-%d", round, c, n)
					status, err := p.tryPut("MODE: "+name+"}", "", name)
					mu.Lock()
					tried++
					if err == nil && status == http.StatusAccepted {
						accepted[name] = true
						some <- struct{}{}
					}
					mu.Unlock()
					if err != nil {
						return // the server is dead
					}
				}
			})
		}
		for range 5 {
			<-some
		}
		p.S.Kill()
		close(dead)
		callers.Wait()
		p.S.Run()
	}
	all := p.revisions()
	seen := map[string]bool{}
	for i, r := range all {
		if r.Number != int64(i)+1 || seen[r.Message] {
			t.Errorf("revision %d has the number %d and the message %q", i+1, r.Number, r.Message)
		}
		seen[r.Message] = true
	}
	for name := range accepted {
		if !seen[name] {
			t.Errorf("the accepted apply %s is not a revision", name)
		}
	}
	if len(all) > tried+1 {
		t.Errorf("%d revisions of %d calls", len(all), tried+1)
	}
	latest := all[len(all)-1]
	harness.Eventually(t, "the host to have the latest revision", func() bool {
		return p.Process("api").Status()["revision"] == float64(latest.Number)
	})
	if a := p.CLI("diff", "shop", "--revision", fmt.Sprint(latest.Number)); a.Code != 0 {
		t.Errorf("the host differs from the latest revision: exit code %d\n%s%s", a.Code, a.Out, a.Errors)
	}
	if a := p.CLI("get", "shop/api"); !strings.Contains(a.Out, "MODE: "+latest.Message) &&
		!strings.Contains(a.Out, `MODE: "`+latest.Message+`"`) {
		t.Errorf("the host does not have %s:\n%s", latest.Message, a.Out)
	}
	status := p.Process("api").Status()
	instance, _ := status["instance"].(map[string]any)
	if p.PID("api") != pid || instance["revision"] != 1.0 {
		t.Errorf("pid %d was %d, it runs with revision %v", p.PID("api"), pid, instance["revision"])
	}
}
