package ui

import (
	"strings"
	"testing"

	v1 "drover/api/v1"
	"drover/internal/words"
)

// sees fails the test unless the screen shows each of the texts.
func (r *rig) sees(texts ...string) *rig {
	r.t.Helper()
	for _, text := range texts {
		if !strings.Contains(View(r.state), text) {
			r.t.Errorf("no %q:\n%s", text, View(r.state))
		}
	}
	return r
}

// TestBatches: the operation of a dialog becomes a rollout with the batches that a person has typed, and with no others.
func TestBatches(t *testing.T) {
	r := begin(t, 110, 30, State{}).answer(many(3)...).press("r", "b")
	if r.state.prompt != nil {
		t.Fatal("one host has batches")
	}
	r.press("esc", "space", "space", "K", "b")
	if r.state.prompt != nil {
		t.Fatal("a kill has batches")
	}
	r.press("esc", "r").sees("On all 2 hosts at once", "<b>in batches").press("b").sees("in batches: --batch 10%")
	for text, fault := range map[string]string{
		"--batch x":          "--batch x does not fit",
		"--batch 1 --bake x": "--bake x does not fit",
		"--bake 30s":         "--batch: expected a value",
		"--batch":            "--batch: expected a value",
		"--batches 1":        "--batches: no such flag here",
		"all":                "all: no such flag here",
	} {
		if r.press("ctrl+u").typing(text).press("enter").sees(fault); r.state.prompt == nil {
			t.Fatalf("%q was taken", text)
		}
	}
	r.press("ctrl+u").typing("--batch 50% --canary=1 --bake 1m --max-failures 2").press("enter")
	r.sees("In batches, as a rollout  --batch 50%").press("C")
	if got := string(asked[Copy](r)); !strings.HasSuffix(got, " --batch 50% --canary=1 --bake 1m --max-failures 2 --server https://drover:7350") {
		t.Errorf("copied %q", got)
	}
	r.press("y")
	p := asked[Submit](r).plan
	if p == nil || p.Batch.String() != "50%" || p.Canary != 1 || p.Bake.String() != "1m" || p.MaxFailures.String() != "2" {
		t.Fatalf("the plan is %+v", p)
	}
	r.send(Submitted{Op: "restart", Rollout: v1.Rollout{ID: "ro-1", LeftOut: 2}}).sees("Left out: 2")
	if at := asked[Ask](r).place; at.kind != rollout || at.of.id != "ro-1" || len(r.state.marked) > 0 {
		t.Errorf("afterwards at %+v, marked %v", at, r.state.marked)
	}
	r.press("q").answer(many(3)...).press("g", "space", "space", "r", "b", "ctrl+u", "enter", "y")
	if asked[Submit](r).plan != nil {
		t.Error("no batches are batches")
	}
}

// TestFaultOfAPromptStays: the end of a task does not hide what is wrong with a text.
func TestFaultOfAPromptStays(t *testing.T) {
	r := begin(t, 110, 24, State{}).answer(fleet()...).press("/").typing("--foo").press("enter").sees("(--foo: no such flag here)")
	r.send(Notice("the disk is full")).sees("(--foo: no such flag here)").press("esc").sees("the disk is full")
}

// TestManyHostsGoInBatches: above 200 hosts the careful way is the first one.
func TestManyHostsGoInBatches(t *testing.T) {
	for n, want := range map[int]string{200: "On all 200 hosts at once", 201: "In batches, as a rollout  " + careful} {
		r := begin(t, 110, 30, State{}).answer(many(3)...).press("*", "r")
		r.send(Chosen{Op: "restart", all: asked[Choose](r).all, Selection: v1.Selection{Targets: n, Hosts: n}}).sees(want)
	}
}

// TestTasks: a task is done again for what has failed, and what has not begun of it is cancelled, each after a dialog.
func TestTasks(t *testing.T) {
	r := begin(t, 110, 24, State{}).press("t").answer(doneTask()).press("K").sees("does not apply: the task is done.").press("R")
	choose := asked[Choose](r)
	if choose.Op != "restart" || choose.failedOf != doneTask().ID || r.state.dialog != nil {
		t.Fatalf("the server shall hold %+v", choose)
	}
	held := v1.Selection{ID: "sel-1", Targets: 2, Hosts: 2, Sample: []v1.SelectedProcess{
		{Namespace: "shop", Name: "api", Host: "0:10.0.0.7"}, {Namespace: "shop", Name: "api", Host: "0:10.0.0.8"},
	}}
	r.send(Chosen{Op: "restart", failedOf: "op-other", Selection: held})
	if r.state.dialog != nil {
		t.Error("the dialog is about another task")
	}
	r.press("R").send(Chosen{Op: "restart", failedOf: choose.failedOf, Selection: held})
	r.sees("Restart 2 processes on 2 hosts?", "shop/api  0:10.0.0.8").press("y")
	if sent := asked[Submit](r); sent.Selection != "sel-1" || sent.Op != "restart" || len(sent.Rows) > 0 {
		t.Errorf("sent %+v", sent)
	}

	running := doneTask()
	running.State, running.Counts = "running", v1.Counts{Targets: 3, OK: 1, Pending: 2}
	r = begin(t, 110, 24, State{}).press("t").answer(running).press("R").sees("does not apply: the task is running.")
	r.press("K").sees("Cancel what has not begun of task op-x7k2m9q4w1zd?", "drover task cancel op-x7k2m9q4w1zd").press("enter")
	for _, d := range r.done {
		if _, ok := d.(Cancel); ok {
			t.Fatal("the focus is not on Cancel")
		}
	}
	r.press("K", "tab", "enter")
	if asked[Cancel](r).ID != running.ID {
		t.Errorf("cancels %+v", asked[Cancel](r))
	}
	r.send(Cancelled{ID: running.ID, Answer: v1.Cancellation{Cancelled: 1, Asked: 1}}).sees("2 cancelled, 0 had begun and go on")
	r.press("ctrl+c")
	asked[Leave](r) // it waits for no answer
	r = begin(t, 110, 24, State{readOnly: true}).press("t").answer(running).press("K")
	if r.state.dialog != nil || strings.Contains(View(r.state), "<K>") {
		t.Error("a read-only screen cancels tasks")
	}
}

// TestOnlyFailedResults: Ctrl-z in the results of a task leaves those that have failed.
func TestOnlyFailedResults(t *testing.T) {
	r := begin(t, 110, 24, State{}).press("t").answer(doneTask()).press("enter").answer(v1.Result{Host: "h"}).press("ctrl+z")
	if p := asked[Ask](r).place; p.kind != results || !p.wrong || p.of.id != doneTask().ID {
		t.Errorf("it asks for %+v", p)
	}
}

// TestOperatingFromTheCause: what 'w' explains can be operated on there.
func TestOperatingFromTheCause(t *testing.T) {
	p := fleet()[0].(v1.Process)
	r := begin(t, 110, 24, State{}).answer(fleet()...).press("w").answer(v1.Why{Findings: []v1.Finding{{
		Namespace: "shop", Name: "api", Host: p.Host, Wrong: true, State: "given-up", Cause: *p.Cause,
	}}})
	r.press("R").sees("Retry shop/api on 0:10.0.0.7?", "given up").press("y")
	if sent := asked[Submit](r); sent.Op != "retry" || len(sent.Targets) != 1 || keyOf(sent.Targets[0]) != "shop/api@0:10.0.0.7" {
		t.Errorf("sent %+v", sent)
	}
}

// TestWhatIsNew: hosts get a token, and people a right. A secret is on the screen once.
func TestWhatIsNew(t *testing.T) {
	r := begin(t, 110, 24, State{}).press(":").typing("hosts").press("enter").answer().press("+").sees("Add hosts: " + tenHosts)
	for text, fault := range map[string]string{
		"--uses ten": "--uses ten does not fit", "--ttl 5": "--ttl 5 does not fit",
		"--labels a": "--labels a does not fit", "--user x": "--user: no such flag here",
	} {
		r.press("ctrl+u").typing(text).press("enter").sees(fault)
	}
	r.press("ctrl+u").typing("--uses 10 --ttl 24h --area 3 --labels rack=4,env=prod --note 'rack 4'").press("enter")
	if made := asked[Add](r).token; made.Uses != 10 || made.TTL.Hours() != 24 || made.Cloud != 3 ||
		len(made.Labels) != 2 || made.Labels["rack"] != "4" || made.Note != "rack 4" {
		t.Errorf("a token %+v", made)
	}
	r.send(Added{place: place{kind: secret, text: []string{"the token"}}}).sees("the token").press("q", "]")
	if strings.Contains(View(r.state), "the token") || r.state.here.kind != hosts {
		t.Errorf("the secret is shown again:\n%s", View(r.state))
	}
	r.send(Added{place: place{kind: secret, text: []string{"the token"}}}).press(":").typing("ps").press("enter", "q")
	if strings.Contains(View(r.state), "the token") || r.state.here.kind != hosts {
		t.Errorf("the secret is shown again:\n%s", View(r.state))
	}

	r = begin(t, 110, 24, State{}).press(":").typing("people").press("enter").answer(colleagues()...).press("+").typing("bea viewer")
	r.press("enter").sees("expected NAME RIGHT").typing(" on web").press("enter")
	if add := asked[Add](r); add.name != "bea" || strings.Join(add.right.Namespaces, "") != "web" {
		t.Errorf("adds %+v", add)
	}
	r.send(Added{place: place{kind: person, of: subject{id: "bea"}}}).answer(colleagues()[1]).sees("viewer on web").press("i")
	if asked[Link](r).User != "bea" {
		t.Error("the link is for somebody else")
	}
	for _, where := range []string{"hosts", "people"} {
		r = begin(t, 110, 24, State{readOnly: true}).press(":").typing(where).press("enter").answer().press("+")
		if r.state.prompt != nil || strings.Contains(View(r.state), "<+>") {
			t.Errorf("a read-only screen adds %s", where)
		}
	}
}

// TestTimesOfEvents: events and records are filtered by time as drover events does it.
func TestTimesOfEvents(t *testing.T) {
	for _, k := range []kind{events, audit} {
		f, err := parse(place{kind: k, filter: "--since 16h --until 8h"}, words.English)
		if err != nil || f.until.Sub(f.since).Hours() < 7.9 || f.until.Sub(f.since).Hours() > 8.1 {
			t.Errorf("%s: %+v, %v", k, f, err)
		}
		if _, err = parse(place{kind: k, filter: "--since yesterday"}, words.English); errorText(err) != "yesterday: expected a time, or an age such as 16h" {
			t.Errorf("%s: %v", k, err)
		}
	}
}
