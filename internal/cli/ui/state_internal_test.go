package ui

import (
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/words"
)

// submits is how many operations were sent.
func (r *rig) submits() (n int) {
	for _, d := range r.done {
		if _, ok := d.(Submit); ok {
			n++
		}
	}
	return n
}

// TestConfirmation: nothing is sent by accident, and above 20 or for a kill nobody gets around the number.
func TestConfirmation(t *testing.T) {
	for _, row := range []struct {
		name string
		n    int
		keys []string
		sent bool
	}{
		{"the focus is on cancel", 1, []string{"r", "enter"}, false},
		{"esc", 1, []string{"r", "tab", "esc"}, false},
		{"the key again", 1, []string{"r", "r", "r"}, false},
		{"tab and enter", 1, []string{"r", "tab", "enter"}, true},
		{"y", 20, []string{"s", "y"}, true},
		{"y above 20", 21, []string{"s", "y"}, false},
		{"tab and enter above 20", 21, []string{"S", "tab", "enter"}, false},
		{"another number", 21, []string{"r", "2", "0", "enter", "tab", "enter"}, false},
		{"the number alone", 21, []string{"r", "2", "1"}, false},
		{"the number and enter", 21, []string{"r", "2", "1", "enter"}, true},
		{"a kill of one", 1, []string{"K", "y", "tab", "enter"}, false},
		{"a kill with its number", 1, []string{"K", "1", "enter"}, true},
		{"a number that begins so", 21, []string{"r", "2", "1", "0", "enter"}, false},
	} {
		r := begin(t, 80, 24, State{}).answer(many(row.n)...)
		for range row.n {
			r.press("space")
		}
		r.press(row.keys...)
		if got := r.submits() == 1; got != row.sent {
			t.Errorf("%s: sent %v, want %v\n%s", row.name, got, row.sent, View(r.state))
		}
	}
}

func TestOperationIsForWhatWasListed(t *testing.T) {
	r := begin(t, 80, 24, State{}).answer(fleet()...).press("down", "space", "space", "o")
	r.answer(many(3)...) // the list changes behind the dialog
	r.press("y")
	sent := asked[Submit](r)
	if sent.Op != "reload" || len(sent.Targets) != 2 || keyOf(sent.Targets[0]) != "shop/api@0:10.0.0.8" ||
		keyOf(sent.Targets[1]) != "shop/网关@0:10.0.0.9" {
		t.Errorf("sent %+v", sent)
	}
	want := v1.Target{Namespace: "shop", Name: "api", Hosts: []string{"0:10.0.0.8"}}
	if got := byProcess(sent.Targets); len(got) != 2 || got[0].Name != want.Name || got[0].Hosts[0] != want.Hosts[0] {
		t.Errorf("targets %+v", got)
	}
}

func TestReadOnlySendsNothing(t *testing.T) {
	r := begin(t, 80, 24, State{readOnly: true}).answer(fleet()...)
	r.press("r", "tab", "enter", "y", "K", "1", "enter", "d").answer(fleet()[0]).press("r", "y")
	if r.submits() != 0 || r.state.dialog != nil {
		t.Error("it sent an operation")
	}
}

// TestLeavingWaitsForAnOperation: a person must know whether the server has accepted it.
func TestLeavingWaitsForAnOperation(t *testing.T) {
	left := func(r *rig) bool {
		for _, d := range r.done {
			if _, ok := d.(Leave); ok {
				return true
			}
		}
		return false
	}
	r := begin(t, 80, 24, State{}).answer(fleet()...).press("r", "y", "ctrl+c")
	if left(r) {
		t.Fatal("it left before the answer")
	}
	if r.send(Submitted{}); !left(r) {
		t.Error("it stays after the answer")
	}
	if r := begin(t, 80, 24, State{}).answer(fleet()...).press("r", "y", "ctrl+c", "ctrl+c"); !left(r) {
		t.Error("the second Ctrl-c does not leave")
	}
	if r := begin(t, 80, 24, State{}).press("ctrl+c"); !left(r) {
		t.Error("Ctrl-c does not leave")
	}
}

// TestTaskOfARow: the row shows the task until the task is done.
func TestTaskOfARow(t *testing.T) {
	r := begin(t, 110, 24, State{}).answer(fleet()...).press("r", "y")
	sent := asked[Submit](r)
	task := v1.Task{ID: "op-1", State: "running", Counts: v1.Counts{Targets: 1, Pending: 1}}
	r.send(Submitted{Op: sent.Op, Rows: sent.Rows, Task: task}).answer(fleet()...)
	if !strings.Contains(View(r.state), "▶ restart op-1 0/1") {
		t.Errorf("no task:\n%s", View(r.state))
	}
	if got := asked[Watch](r).ID; got != "op-1" {
		t.Errorf("it watches %q", got)
	}
	task.State, task.Counts = "done", v1.Counts{Targets: 1, Failed: 1}
	r.send(Watched{ID: "op-1", Task: task})
	if frame := View(r.state); strings.Contains(frame, "▶") || !strings.Contains(frame, "op-1: 0 ok, 1 failed") ||
		!strings.Contains(frame, "out of memory") {
		t.Errorf("after the end:\n%s", frame)
	}
}

func TestOldAnswersAreDropped(t *testing.T) {
	r := begin(t, 80, 24, State{})
	old := asked[Ask](r).Number
	r.press(":").typing("hosts").press("enter")
	r.send(Listed{Number: old, At: noon, Items: fleet()})
	if len(r.state.items) != 0 {
		t.Error("the hosts are processes")
	}
	r.answer(v1.JoinedHost{Host: v1.Host{ID: "h"}})
	if len(r.state.items) != 1 {
		t.Error("the answer is missing")
	}
}

// TestHistoryKeepsFiltersAndRows: going back shows what was there.
func TestHistoryKeepsFiltersAndRows(t *testing.T) {
	r := begin(t, 80, 24, State{}).answer(fleet()...)
	r.press("/").typing("shop/* -l role=web").press("enter").answer(fleet()...).press("down", "down")
	r.press("d").answer(fleet()[2]).press("[")
	p := asked[Ask](r).place
	if p.kind != processes || p.filter != "shop/* -l role=web" {
		t.Errorf("back at %+v", p)
	}
	reordered := fleet()
	reordered[0], reordered[2] = reordered[2], reordered[0]
	r.answer(reordered...)
	if r.state.here.row != 0 || !strings.Contains(View(r.state), "▸ shop/网关") {
		t.Errorf("the selection does not follow its row:\n%s", View(r.state))
	}
	if r.press("]"); asked[Ask](r).place.kind != describe {
		t.Error("forward is elsewhere")
	}
	r.press("q", "q")
	if p := asked[Ask](r).place; p.filter != "" || p.kind != processes {
		t.Errorf("at the beginning is %+v", p)
	}
}

// TestPagesOf200Rows: the screen holds one page, whatever the list has.
func TestPagesOf200Rows(t *testing.T) {
	r := begin(t, 80, 24, State{})
	r.send(Listed{Number: asked[Ask](r).Number, At: noon, Items: many(Page), Next: "second"})
	r.press("end")
	if len(asked[Ask](r).place.pages) != 0 {
		t.Fatal("the end of a page is the next page")
	}
	r.press("down")
	if p := asked[Ask](r).place; p.cursor() != "second" {
		t.Fatalf("asked for %q", p.cursor())
	}
	r.send(Listed{Number: asked[Ask](r).Number, At: noon, Items: many(3)})
	if frame := View(r.state); !strings.Contains(frame, "rows 201 to 203") || len(r.state.items) != 3 {
		t.Errorf("the second page:\n%s", frame)
	}
	r.press("down", "down", "down", "down")
	if r.state.here.row != 2 {
		t.Errorf("row %d after the last one", r.state.here.row)
	}
	r.press("k", "k", "k")
	if p := asked[Ask](r).place; p.cursor() != "" || p.row != Page-1 {
		t.Errorf("back at row %d of %q", p.row, p.cursor())
	}
}

// TestQuestionsComeInTurn: no question while one is open, and the next one only after a pause. An event shortens the
// pause, and the loss of the events brings back the short one.
func TestQuestionsComeInTurn(t *testing.T) {
	r := begin(t, 80, 24, State{})
	for i := range 5 {
		r.send(Tick(noon.Add(time.Duration(i) * time.Second)))
	}
	asks := func() (n int) {
		for _, d := range r.done {
			if _, ok := d.(Ask); ok {
				n++
			}
		}
		return n
	}
	if asks() != 1 {
		t.Fatalf("%d questions without an answer", asks())
	}
	followed := asked[Follow](r).place
	for _, row := range []struct {
		msg  tea.Msg
		asks int
	}{
		{Tick(noon.Add(9 * time.Second)), 0},
		{Tick(noon.Add(10 * time.Second)), 1},
		{Happened{of: place{kind: hosts}}, 0},
		{Happened{of: followed}, 0}, // too early
		{Tick(noon.Add(time.Second)), 1},
		{Happened{of: followed, Lost: true}, 0},
		{Tick(noon.Add(time.Second)), 1}, // the loss may be that of the server
		{Tick(noon.Add(2 * time.Second)), 0},
		{Tick(noon.Add(3 * time.Second)), 1},
	} {
		if r.state.waiting {
			r.answer(fleet()...)
		}
		before := asks()
		if r.send(row.msg); asks()-before != row.asks {
			t.Errorf("%T %v: %d questions, want %d", row.msg, row.msg, asks()-before, row.asks)
		}
	}
	r.send(Happened{of: followed}).answer(fleet()...).send(Tick(noon.Add(time.Second)))
	if !r.state.waiting {
		t.Error("an event that came after the question is forgotten")
	}
}

// TestEndOfATask: the screen learns of it also while it shows a text, and forgets a task that the server refuses to
// show.
func TestEndOfATask(t *testing.T) {
	r := begin(t, 80, 24, State{}).answer(fleet()...).press("r", "y")
	sent := asked[Submit](r)
	task := v1.Task{ID: "op-1", State: "running", Counts: v1.Counts{Targets: 1, Pending: 1}}
	r.send(Submitted{Op: sent.Op, Rows: sent.Rows, Task: task}).press("?")
	r.done = nil
	if r.send(Tick(noon.Add(2 * time.Second))); len(r.done) != 0 {
		t.Errorf("it asks too early: %+v", r.done)
	}
	r.send(Tick(noon.Add(3 * time.Second)))
	if asked[Watch](r).ID != "op-1" {
		t.Error("the help hides the task")
	}
	r.send(Watched{ID: "op-1", Away: true, Err: "unreachable"})
	if len(r.state.sent) != 1 {
		t.Error("a lost server ends the task")
	}
	r.send(Watched{ID: "op-1", Err: "no operation op-1"})
	if len(r.state.sent)+len(r.state.on) != 0 || !strings.Contains(View(r.state), "no operation op-1") {
		t.Errorf("it shows the task for ever: %+v\n%s", r.state.sent, View(r.state))
	}
}

// TestNotesOnTheirOwnPass: the end of a task hides the keys for a moment, and not until a person presses a key.
func TestNotesOnTheirOwnPass(t *testing.T) {
	r := begin(t, 80, 24, State{}).answer(fleet()...).press("r", "y")
	sent := asked[Submit](r)
	task := v1.Task{ID: "op-1", State: "running", Counts: v1.Counts{Targets: 1, Pending: 1}}
	r.send(Submitted{Op: sent.Op, Rows: sent.Rows, Task: task})
	r.send(Tick(noon.Add(time.Minute))).sees("task op-1")
	task.State, task.Counts = "done", v1.Counts{Targets: 1, OK: 1}
	r.send(Watched{ID: "op-1", Task: task})
	r.send(Tick(noon.Add(time.Minute + 4*time.Second))).sees("task op-1: 1 ok, 0 failed")
	r.send(Tick(noon.Add(time.Minute+5*time.Second))).sees("<?>", "<w>")
}

// TestRolloutSteps: each state of a rollout allows its own steps, with the confirmation that their hosts need.
func TestRolloutSteps(t *testing.T) {
	rolloutIn := func(state string, waiting, failed int) v1.Rollout {
		return v1.Rollout{ID: "r-81", Op: "restart", State: state, Counts: v1.RolloutCounts{
			Hosts: 40, Waiting: waiting, Failed: failed, OK: 40 - waiting - failed,
		}}
	}
	for _, row := range []struct {
		r    v1.Rollout
		keys []string
		want string
	}{
		{rolloutIn("running", 30, 0), []string{"p", "y"}, "pause"},
		{rolloutIn("running", 30, 0), []string{"p", "enter"}, ""},
		{rolloutIn("running", 30, 0), []string{"r"}, ""},
		{rolloutIn("paused", 20, 0), []string{"r", "y"}, "resume"},
		{rolloutIn("paused", 21, 0), []string{"r", "y", "tab", "enter"}, ""},
		{rolloutIn("paused", 21, 0), []string{"r", "2", "1", "enter"}, "resume"},
		{rolloutIn("held", 5, 0), []string{"a", "y"}, "approve"},
		{rolloutIn("running", 30, 0), []string{"a"}, ""},
		{rolloutIn("running", 30, 0), []string{"K", "y"}, ""},
		{rolloutIn("paused", 30, 2), []string{"K", "3", "0", "enter"}, "abort"},
		{rolloutIn("paused", 30, 2), []string{"R", "y"}, "retry"},
		{rolloutIn("done", 0, 0), []string{"R"}, ""},
		{rolloutIn("done", 0, 1), []string{"R", "tab", "enter"}, "retry"},
	} {
		for _, text := range []bool{false, true} {
			r := begin(t, 100, 24, State{}).press(":").typing("rollouts").press("enter").answer(row.r)
			if text {
				r.press("enter").answer(row.r)
			}
			r.press(row.keys...)
			got := ""
			for _, d := range r.done {
				if one, ok := d.(Step); ok {
					got = one.Verb
				}
			}
			if got != row.want || r.submits() > 0 {
				t.Errorf("%s, %v: %q, want %q\n%s", row.r.State, row.keys, got, row.want, View(r.state))
			}
		}
	}
	r := begin(t, 100, 24, State{readOnly: true}).press(":").typing("rollouts").press("enter")
	r.answer(rolloutIn("running", 3, 0)).press("p")
	if r.state.dialog != nil || strings.Contains(View(r.state), "<p>") {
		t.Error("a read-only screen pauses rollouts")
	}
	r = begin(t, 100, 24, State{}).press(":").typing("rollouts").press("enter").answer(rolloutIn("running", 3, 0))
	r.press("p", "y").send(Stepped{Verb: "pause", ID: "r-81", State: "paused"})
	if !strings.Contains(View(r.state), "pause: rollout r-81 is paused") {
		t.Errorf("no word of the end:\n%s", View(r.state))
	}
}

// TestLogOfManyScrolls: it holds its place while lines come, finds a text, and follows again at its end.
func TestLogOfManyScrolls(t *testing.T) {
	line := func(of, n int) LogLine { return LogLine{of, fmt.Sprintf("line %d", n)} }
	r := begin(t, 80, 20, State{}).answer(many(3)...).press("m")
	if !strings.Contains(View(r.state), "No process is marked") {
		t.Error("it shows the logs of no process")
	}
	r.press("space", "space", "m")
	read := asked[ReadLog](r)
	if len(read.of) != 2 || read.of[1].host != "0:10.1.0.2" {
		t.Fatalf("it reads %+v", read)
	}
	var lines []LogLine
	for n := range 100 {
		lines = append(lines, line(n%2, n))
	}
	r.send(LogRead{Number: read.Number, Lines: lines})
	sees := func(texts ...string) {
		t.Helper()
		for _, text := range texts {
			if no := strings.HasPrefix(text, "no "); strings.Contains(View(r.state), strings.TrimPrefix(text, "no ")) == no {
				t.Errorf("%q:\n%s", text, View(r.state))
			}
		}
	}
	sees("0:10.1.0.1  line 98", "0:10.1.0.2  line 99", "and 1 more")
	r.press("tab", "k", "k")
	sees("line 97", "no line 98", "2 lines below")
	r.send(LogRead{Number: read.Number, Lines: []LogLine{line(0, 100)}})
	sees("line 97", "no line 98", "3 lines below")
	r.press("end")
	sees("line 100", "no lines below")
	r.press("/").typing("LINE 42").press("enter")
	sees("▸0:10.1.0.1  line 42", "/LINE 42")
	if r.state.here.filter != "" {
		t.Error("it filters the list")
	}
	r.press("n")
	sees("not found")
	r.press("/", "ctrl+u").typing("e 0").press("enter")
	sees("▸0:10.1.0.1  line 0 ")
	var more []LogLine
	for n := range logKept {
		more = append(more, line(0, 1000+n))
	}
	r.send(LogRead{Number: read.Number, Lines: more})
	sees("line 1000", "no line 0 ")
	if r.press("q"); r.state.log == nil || r.state.log.focus || r.state.here.kind != processes {
		t.Error("q does not go back to the list")
	}
	before := r.state.here.row
	if r.press("k"); r.state.here.row == before {
		t.Error("the list does not move")
	}
	if r.press("l"); r.state.log != nil {
		t.Error("the log does not close")
	}
}

// TestPersonIsThatOfTheCall: the screen names nobody else.
func TestPersonIsThatOfTheCall(t *testing.T) {
	c, err := client.New(client.Config{URL: "https://drover:7350", Token: "t"})
	if err != nil {
		t.Fatal(err)
	}
	if got := personOf(&remote.Session{User: "bo"}, c); got != "bo" {
		t.Errorf("the context's person is %q", got)
	}
	if got := personOf(&remote.Session{}, c); got != "" {
		t.Errorf("a token of the environment is that of %q", got)
	}
}

// TestMarkingAll: the server holds all that match, without those that a person has left out, and the task is for these.
func TestMarkingAll(t *testing.T) {
	r := begin(t, 80, 24, State{}).answer(fleet()...).press("*")
	if !strings.Contains(View(r.state), "5 marked") || !strings.Contains(View(r.state), "*shop/网关") {
		t.Errorf("not marked:\n%s", View(r.state))
	}
	r.press("down", "space")
	if !strings.Contains(View(r.state), "4 marked") {
		t.Errorf("nothing is left out:\n%s", View(r.state))
	}
	r.press("s")
	choose := asked[Choose](r)
	if choose.Op != "stop" || len(choose.all.except) != 1 || choose.all.filter != "" || r.state.dialog != nil {
		t.Fatalf("the server shall hold %+v", choose)
	}
	held := v1.Selection{ID: "sel-1", Targets: 213, Hosts: 200, Away: 4, Sample: []v1.SelectedProcess{
		{Namespace: "shop", Name: "api", Host: "0:10.0.0.7"},
	}}
	r.send(Chosen{Op: "stop", all: choose.all, Selection: held})
	for _, text := range []string{"Stop 213 processes on 200 hosts?", "and 212 more", "On hosts that are away, where it will fail: 4."} {
		if !strings.Contains(View(r.state), text) {
			t.Errorf("no %q:\n%s", text, View(r.state))
		}
	}
	r.press("y", "2", "1", "3", "enter")
	sent := asked[Submit](r)
	if r.submits() != 1 || sent.Selection != "sel-1" || len(sent.Targets) != 0 || len(sent.Rows) != 4 {
		t.Errorf("sent %+v", sent)
	}
	r.send(Submitted{Op: "stop", Rows: sent.Rows, Task: v1.Task{ID: "op-1", LeftOut: 3}})
	if frame := View(r.state); !strings.Contains(frame, "Left out: 3") || strings.Contains(frame, "marked") {
		t.Errorf("after the answer:\n%s", frame)
	}
}

// TestMarksOfAllAreThoseThatWereShown: an answer of the server is about the marks that it was asked for.
func TestMarksOfAllAreThoseThatWereShown(t *testing.T) {
	held := v1.Selection{ID: "sel-1", Targets: 5}
	r := begin(t, 80, 24, State{}).answer(fleet()...).press("*", "r")
	all := asked[Choose](r).all
	r.press("space") // one is left out after the question
	if r.send(Chosen{Op: "restart", all: all, Selection: held}); r.state.dialog != nil {
		t.Error("the dialog is for a process that was left out")
	}
	r.press("/").typing("shop/*").press("enter").answer(fleet()...)
	if strings.Contains(View(r.state), "marked") {
		t.Error("another filter has the marks of the former one")
	}
	r.press("q").answer(fleet()...)
	if !strings.Contains(View(r.state), "4 marked") {
		t.Errorf("the marks are gone:\n%s", View(r.state))
	}
	if r.press("*"); strings.Contains(View(r.state), "marked") {
		t.Error("the marks stay")
	}
	r.press("*", "r")
	held.DeniedCount, held.Denied = 1, []v1.SelectedProcess{{Namespace: "shop", Name: "db", Host: "h"}}
	r.send(Chosen{Op: "restart", all: asked[Choose](r).all, Selection: held}).press("y", "tab", "enter")
	if r.submits() != 0 || !strings.Contains(View(r.state), "You may not do this with 1 of them") {
		t.Errorf("it sent what the server refuses:\n%s", View(r.state))
	}
}

func TestCopying(t *testing.T) {
	const suffix = " --server https://drover:7350"
	r := begin(t, 80, 24, State{}).answer(fleet()...)
	for _, row := range []struct {
		keys []string
		want string
	}{
		{[]string{"c"}, "shop/api 0:10.0.0.7"},
		{[]string{"C"}, "drover ps" + suffix},
		{[]string{"r", "C"}, "drover restart shop/api --hosts 0:10.0.0.7" + suffix},
		{[]string{"esc", "d", "C"}, "drover status shop/api --hosts 0:10.0.0.7" + suffix},
	} {
		if r.press(row.keys...); string(asked[Copy](r)) != row.want {
			t.Errorf("%v copied %q, want %q", row.keys, asked[Copy](r), row.want)
		}
	}
	r.press(":").typing("shop/* --state given-up -l 'a in (b)'").press("enter").answer(fleet()...).press("C")
	if got, want := string(asked[Copy](r)), "drover ps 'shop/*' --state given-up -l 'a in (b)'"+suffix; got != want {
		t.Errorf("copied %q, want %q", got, want)
	}
}

func TestFilters(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "",
		"shop/*":                 "",
		"api":                    "",
		"shop/api --state a,b":   "",
		"-l 'os in (debian, x)'": "",
		"shop/a shop/b":          "shop/b: expected one NAMESPACE/NAME; patterns may have *",
		"shop/":                  "shop/: expected NAMESPACE/NAME, or a part of a name",
		"--foo x":                "--foo: no such flag here",
		"--kind exited":          "--kind does not filter this list",
		"--state":                "--state: expected a value",
		"'shop/api":              "a quote is open",
	} {
		_, err := parse(place{kind: processes, filter: text}, words.English)
		if got := errorText(err); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	f, err := parse(place{kind: processes, filter: `sh*/a --hosts=0:1,0:2 --state given-up -l "a=b" --process-label c=d`}, words.English)
	if err != nil || f.namespace != "sh*" || f.name != "a" || len(f.hosts) != 2 || f.state() != "given-up" ||
		f.selector != "a=b" || f.labels != "c=d" {
		t.Errorf("%+v, %v", f, err)
	}
	if _, err := parse(place{kind: processes, wrong: true, filter: "--state running"}, words.English); err == nil {
		t.Error("only wrong ones have a state")
	}
	for _, k := range []kind{hosts, tasks, rollouts} {
		_, err := parse(place{kind: k, filter: "--state a,b"}, words.English)
		if got, want := errorText(err), "a,b: this list takes one state"; got != want {
			t.Errorf("%s: %q, want %q", k, got, want)
		}
	}
	if f, err := parse(place{kind: processes, filter: "api"}, words.English); err != nil || f.name != "*api*" {
		t.Errorf("%+v, %v", f, err)
	}
	if f, err := parse(place{kind: hosts, filter: "0:10.* --search rack"}, words.English); err != nil || len(f.hosts) != 1 ||
		f.search != "rack" {
		t.Errorf("%+v, %v", f, err)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestDoneWithFailures: what is done on some targets only looks so, as on the pages of the console.
func TestDoneWithFailures(t *testing.T) {
	s := State{lang: words.English}
	counts := v1.Counts{Targets: 2, OK: 1, Failed: 1}
	task := v1.Task{ID: "op-1", State: "done", Counts: counts}
	rollout := v1.Rollout{ID: "ro-1", State: "done", Counts: v1.RolloutCounts{Hosts: 2, OK: 1, Failed: 1}}
	for got, want := range map[string]string{
		taskColumns()[1].cell(&s, task):                     "✖ done with failures",
		rolloutColumns()[1].cell(&s, rollout):               "✖ done with failures",
		string(words.ClassOf(taskColumns()[1].state(task))): string(words.Bad),
		taskColumns()[1].cell(&s, v1.Task{State: "done"}):   "● done",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
