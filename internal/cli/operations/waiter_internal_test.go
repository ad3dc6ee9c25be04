package operations

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/cli/term"
)

// TestFailuresOfMany: while many targets are under way, a wait tells each kind of failure once, with one target.
func TestFailuresOfMany(t *testing.T) {
	var failed []map[string]any
	fails := func(host, message string) {
		failed = append(failed, map[string]any{
			"namespace": "shop", "name": "api", "host": host, "outcome": "check-failed", "message": message,
		})
	}
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if r.URL.Path != "/api/v1/tasks/op-1/results" || r.URL.Query().Get("outcome") != "failed" {
			t.Errorf("asked for %s", r.URL)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"items": failed})
	}))
	defer server.Close()
	c, err := client.New(client.Config{URL: server.URL, AppCode: "a", AppSecret: "s"})
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	cmd := &cobra.Command{}
	cmd.SetErr(&said)
	w := Waiter{Session: &remote.Session{Output: term.Output{Form: term.AsTable}}}
	look := func() string {
		t.Helper()
		said.Reset()
		o := v1.Task{ID: "op-1", Op: "restart", Counts: v1.Counts{Targets: 213, Failed: len(failed)}}
		if err := w.meanwhile(t.Context(), cmd, c, o, &progress{cmd: cmd}); err != nil {
			t.Fatal(err)
		}
		return said.String()
	}
	if got := look(); got != "" || asked != 0 {
		t.Errorf("without a failure: %q after %d questions", got, asked)
	}
	fails("0:10.0.0.7", "port 8080 is in use by pid 771")
	fails("0:10.0.0.8", "port 8080 is in use by pid 4")
	if got := look(); got != "  failed: port 8080 is in use by pid 771 (shop/api on 0:10.0.0.7)\n" {
		t.Errorf("two of a kind: %q", got)
	}
	if got := look(); got != "" || asked != 1 {
		t.Errorf("nothing new: %q after %d questions", got, asked)
	}
	for _, name := range []string{"api", "web"} {
		fails("0:10.0.0.8", "run: \""+name+"\" was not found")
		failed[len(failed)-1]["name"] = name
		if got := look(); got != "  failed: run: \""+name+"\" was not found (shop/"+name+" on 0:10.0.0.8)\n" {
			t.Errorf("of %s: %q", name, got)
		}
	}
	fails("0:10.0.0.9", "no answer\x1b[31m")
	if got := look(); got != "  failed: no answer?[31m (shop/api on 0:10.0.0.9)\n" {
		t.Errorf("another kind: %q", got)
	}
	for range 2 * mostKinds {
		fails("0:10.0.0.10", strings.Repeat("x", len(failed)))
	}
	if got := strings.Count(look(), "\n"); got != mostKinds-4 {
		t.Errorf("%d of many kinds", got)
	}
}

// TestProgressInAPipe: without a terminal, a wait tells one line at once and one every ten seconds, with a change or
// not.
func TestProgressInAPipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		cmd := &cobra.Command{}
		cmd.SetErr(&said)
		line := progress{cmd: cmd}
		o := v1.Task{Op: "restart", Counts: v1.Counts{Targets: 30, Pending: 30}}
		for second := range 35 {
			if second < 12 {
				o.Counts.OK, o.Counts.Pending = second, 30-second
			}
			line.show(o)
			time.Sleep(time.Second)
		}
		line.clear()
		want := "restart: 0/30 ok, 0 failed, 30 running\nrestart: 10/30 ok, 0 failed, 20 running\n" +
			strings.Repeat("restart: 11/30 ok, 0 failed, 19 running\n", 2)
		if said.String() != want {
			t.Errorf("it told %q, want %q", said.String(), want)
		}
	})
}

// TestOutputOfResults: what programs have written comes below the results, in lines and once.
func TestOutputOfResults(t *testing.T) {
	var out, said strings.Builder
	cmd := &cobra.Command{}
	cmd.SetOut(&out)
	cmd.SetErr(&said)
	w := Waiter{Session: &remote.Session{Output: term.Output{Form: term.AsTable}}, shown: map[target]bool{}}
	w.table = term.TableOf(w.Session.Output, &out, resultColumns())
	failed := v1.Result{
		Namespace: "shop", Name: "web", Host: "a", Outcome: "check-failed",
		Message: "restart process (web) failed, for post-check status not alive: pid 3817 exit status 127; " +
			"run: \"pyton3\" was not found; output: [one\ntwo]",
	}
	again := failed
	again.Host = "b"
	if err := w.rows(cmd, []v1.Result{failed, again}); err != nil {
		t.Fatal(err)
	}
	const text = `restart failed: run: "pyton3" was not found; pid 3817 exit status 127`
	if strings.Count(out.String(), text+"\n") != 2 || said.String() != "shop/web on a wrote:\n  one\n  two\n" {
		t.Errorf("%s%s", out.String(), said.String())
	}
}

// TestLongMessages: a long output hides neither the reason before it nor its end.
func TestLongMessages(t *testing.T) {
	if short := "not alive: exit status 3; output: [no]"; briefly(short) != "not alive: exit status 3: no" {
		t.Errorf("%q", briefly(short))
	}
	got := briefly("not alive: exit status 3; output: [" + strings.Repeat("x", 64<<10) + "the last words]")
	if len(got) > 1000 || !strings.HasPrefix(got, "not alive: exit status 3: x") ||
		!strings.HasSuffix(got, "the last words") || !strings.Contains(got, " [... 64676 bytes ...] ") {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}
