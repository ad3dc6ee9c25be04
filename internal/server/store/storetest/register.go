//nolint:thelper // these are the tests themselves, and fail at their own lines
package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
)

func pruneTasks(t *testing.T, s store.Store) {
	createAt(t, s, "done", at(0), request(process.Start, "a", "x", "y"))
	createAt(t, s, "half", at(1), request(process.Start, "b", "x", "y"))
	createAt(t, s, "empty", at(2))
	createAt(t, s, "old too", at(3), request(process.Start, "c", "x"))
	createAt(t, s, "new", at(time.Hour), request(process.Start, "d", "x"))
	for _, it := range lease(t, s, at(time.Hour), 100) {
		if it.Task != "half" || it.Agent == "x" {
			finish(t, s, it, success())
		}
	}
	prune := func(limit, want int) {
		t.Helper()
		n, err := s.PruneTasks(t.Context(), at(time.Hour), limit)
		must(t, err)
		if n != want {
			t.Errorf("%d tasks were removed, want %d", n, want)
		}
	}
	there := func(want map[string]bool) {
		t.Helper()
		for id, is := range want {
			err := s.TaskItems(t.Context(), id, "", func(store.ItemView) error { return nil })
			if is != (err == nil) || !is && !errors.Is(err, store.ErrNotFound) {
				t.Errorf("task %q: %v, want it there: %v", id, err, is)
			}
		}
	}
	prune(1, 1)
	there(map[string]bool{"done": false, "half": true, "empty": true, "old too": true, "new": true})
	prune(10, 2)
	prune(10, 0)
	there(map[string]bool{"done": false, "half": true, "empty": false, "old too": false, "new": true})
	if n := len(views(t, s, "half")); n != 2 {
		t.Errorf("a kept task has %d keys, want 2", n)
	}
	create(t, s, "done", request(process.Start, "e", "x")) // the id is free again, and no old row appears
	if v := views(t, s, "done"); len(v) != 1 || v[0].Done {
		t.Errorf("a task under a pruned id shows %+v", v)
	}
}

func agents(t *testing.T, s store.Store) {
	all := []store.Agent{
		{Key: "C", Cloud: 0, IP: "10.0.0.2", Created: epoch, Sealing: "XC"},
		{Key: "B", Cloud: 1, IP: "10.0.0.1", ID: "id", Build: "1.0", Created: epoch},
		{Key: "D", Cloud: 1, IP: "10.0.0.1", Created: epoch},
		{Key: "A", Cloud: 1, IP: "10.0.0.2", Created: epoch},
	}
	for _, i := range []int{3, 1, 2, 0} {
		must(t, s.PutAgent(t.Context(), all[i]))
	}
	all[1] = store.Agent{
		Key: "B", Cloud: 1, IP: "10.0.0.1", Assigned: "given", Build: "2.0", Created: at(time.Hour), Sealing: "XB",
	}
	must(t, s.PutAgent(t.Context(), all[1]))
	got, err := s.ListAgents(t.Context())
	must(t, err)
	same(t, "agents", all, got)
}

// agentLabels: the labels of people have one writer, and survive every other change of an agent.
func agentLabels(t *testing.T, s store.Store) {
	web, none := "web", map[string]*string(nil)
	a := store.Agent{
		Key: "A", IP: "10.0.0.1", Created: epoch, Labels: map[string]string{"zone": "a"},
		Host: store.Host{
			System: "linux", OS: "debian", Version: "12", Kernel: "6.1", Arch: "x86_64", CPUs: 2, Memory: 1 << 40,
			Disks: []store.Mount{{Path: "/", Size: 1 << 41}}, Labels: map[string]string{"rack": "4"},
			Facts: map[string]string{"bios": "1.2 \u00fc"},
		},
	}
	b := store.Agent{Key: "B", IP: "10.0.0.2", Created: epoch}
	must(t, s.PutAgent(t.Context(), a))
	must(t, s.PutAgent(t.Context(), b))
	set := map[string]*string{"role": &web, "rack": nil}
	must(t, s.LabelAgents(t.Context(), []string{"B", "A"}, func(was store.Agent) (map[string]*string, error) {
		if was.Key == "A" {
			same(t, "the agent to change", a, was)
			return set, nil
		}
		return none, nil
	}))
	a.SetLabels = set
	listed := func() {
		t.Helper()
		got, err := s.ListAgents(t.Context())
		must(t, err)
		same(t, "agents", []store.Agent{a, b}, got)
	}
	listed()
	// Writers with an old copy of the agent do not undo the labels.
	old := a
	old.SetLabels, old.Host.OS = none, "ubuntu"
	a.Host.OS = "ubuntu"
	must(t, s.ChangeAgent(t.Context(), old, epoch))
	listed()
	must(t, s.PutAgent(t.Context(), old))
	listed()
	refused := errors.New("refused")
	err := s.LabelAgents(t.Context(), []string{"A", "B"}, func(was store.Agent) (map[string]*string, error) {
		if was.Key == "B" {
			return nil, refused
		}
		return none, nil
	})
	if !errors.Is(err, refused) {
		t.Errorf("the refusal became %v", err)
	}
	listed()
	err = s.LabelAgents(t.Context(), []string{"A", "C"}, func(store.Agent) (map[string]*string, error) { return none, nil })
	if !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an unknown agent: %v", err)
	}
	listed()
	must(t, s.LabelAgents(t.Context(), []string{"A"}, func(store.Agent) (map[string]*string, error) { return none, nil }))
	a.SetLabels = none
	listed()
}

// observed returns a row with a distinct status.
func observed(agent, namespace, name string, pid int) store.Observed {
	_, spec := nginx(name)
	return store.Observed{
		Agent: agent, Process: process.ID{Namespace: namespace, Name: name}, Spec: spec,
		Status: process.Status{Known: true, State: "up", Instance: process.Instance{PID: pid, Mem: 0.5}},
	}
}

// get reads the process "a" of the namespace "ns".
func get(t *testing.T, s store.Store, agents ...string) []store.Observed {
	t.Helper()
	var rows []store.Observed
	must(t, s.GetObserved(t.Context(), process.ID{Namespace: "ns", Name: "a"}, agents, func(o store.Observed) error {
		rows = append(rows, o)
		return nil
	}))
	return rows
}

func observations(t *testing.T, s store.Store) {
	xa, ya, xb, other := observed("x", "ns", "a", 1), observed("y", "ns", "a", 2), observed("x", "ns", "b", 3),
		observed("x", "other", "a", 4)
	must(t, s.PutObserved(t.Context(), store.ReportMark{}, []store.Observed{xa, ya, xb, other}, nil))
	same(t, "in the order asked", []store.Observed{ya, xa}, get(t, s, "y", "nobody", "x"))
	same(t, "nobody", []store.Observed(nil), get(t, s))

	newer := xa
	newer.Status.Instance.PID = 11
	newer.Spec = nil
	must(t, s.PutObserved(t.Context(), store.ReportMark{}, []store.Observed{newer},
		[]store.Removal{{Agent: "y", Process: ya.Process}}))
	newer.Spec = xa.Spec // kept
	same(t, "after a change", []store.Observed{newer}, get(t, s, "x", "y"))

	respecified := newer
	_, respecified.Spec = nginx("respecified")
	must(t, s.PutObserved(t.Context(), store.ReportMark{}, []store.Observed{respecified}, nil))
	same(t, "a new spec under the same status", []store.Observed{respecified}, get(t, s, "x"))

	enough := errors.New("enough")
	err := s.GetObserved(t.Context(), xb.Process, []string{"x", "x"}, func(store.Observed) error { return enough })
	if !errors.Is(err, enough) {
		t.Errorf("the reader's error became %v", err)
	}
}

// observationsAreBounded: the number of an agent's processes is bounded, and so is the number of its removed processes.
func observationsAreBounded(t *testing.T, s store.Store) {
	ctx := t.Context()
	fill := func(from, n int) error {
		rows := make([]store.Observed, n)
		for i := range rows {
			rows[i] = store.Observed{Agent: "a", Process: process.ID{Namespace: "n", Name: fmt.Sprint(from + i)}}
		}
		return s.PutObserved(ctx, store.ReportMark{Agent: "a"}, rows, nil)
	}
	must(t, fill(0, store.MostProcesses))
	if err := fill(store.MostProcesses, 1); !errors.Is(err, store.ErrTooManyProcesses) {
		t.Errorf("one more: %v", err)
	}
	must(t, fill(0, 10)) // the existing processes
	gone := make([]store.Removal, 3*store.MostProcesses+1)
	for i := range gone {
		gone[i] = store.Removal{
			Agent: "a", Process: process.ID{Namespace: "n", Name: fmt.Sprint("gone-", i)},
			Revision: 1, At: at(time.Duration(i) * time.Second),
		}
	}
	for part := range slices.Chunk(gone, store.MostProcesses/4) { // a busy database answers for each part in time
		must(t, s.PutObserved(ctx, store.ReportMark{Agent: "a"}, nil, part))
	}
	known, err := s.AgentConfirmed(ctx, "a")
	must(t, err)
	if len(known) != store.MostProcesses {
		t.Errorf("%d processes that were there are remembered", len(known))
	}
	for _, k := range known {
		if k.Process.Name == "gone-0" {
			t.Error("the first of them is remembered, and a later one is not")
		}
	}
}

// observationsTakeSoMuch: the size of all processes of an agent is bounded, whether or not it still has them.
func observationsTakeSoMuch(t *testing.T, s store.Store) {
	if testing.Short() {
		t.Skip("-short: it stores 130 MB")
	}
	spec := &process.Spec{}
	spec.ProcessName = strings.Repeat("x", 4<<20)
	const fit = store.MostBytes / (4 << 20)
	fill := func(agent string, i int, replace bool) error {
		o := store.Observed{
			Agent: agent, Process: process.ID{Namespace: "n", Name: fmt.Sprint(i)}, Spec: spec,
			Status: process.Status{Revision: 1},
		}
		if replace {
			return replaced(s.ReplaceObserved(t.Context(), store.ReportMark{Agent: agent}, []store.Observed{o}, nil))
		}
		return s.PutObserved(t.Context(), store.ReportMark{Agent: agent}, []store.Observed{o}, nil)
	}
	for i := range fit - 1 {
		must(t, fill("x", i, i%2 == 0)) // both ways count
	}
	for _, replace := range []bool{true, false} {
		if err := fill("x", fit, replace); !errors.Is(err, store.ErrTooMuch) {
			t.Errorf("one more, replaced %v: %v", replace, err)
		}
		must(t, fill("x", fit-2, replace))
	}
}

func observationsReplaced(t *testing.T, s store.Store) {
	xa, xb, xc, ya := observed("x", "ns", "a", 1), observed("x", "ns", "b", 2), observed("x", "ns", "c", 3),
		observed("y", "ns", "a", 4)
	must(t, replaced(s.ReplaceObserved(t.Context(), store.ReportMark{Agent: "x"}, []store.Observed{xa, xb}, nil)))
	must(t, replaced(s.ReplaceObserved(t.Context(), store.ReportMark{Agent: "y"}, []store.Observed{ya}, nil)))
	changed := xb
	changed.Status.State, changed.Spec = "down", nil
	must(t, replaced(s.ReplaceObserved(t.Context(), store.ReportMark{Agent: "x"}, []store.Observed{changed, xc}, nil)))
	changed.Spec = xb.Spec
	rows, total, err := s.PageObserved(t.Context(), "ns", 0, 10)
	must(t, err)
	same(t, "all", []store.Observed{changed, ya, xc}, rows)
	same(t, "total", 3, total)
	if replaced(s.ReplaceObserved(t.Context(), store.ReportMark{Agent: "x"}, []store.Observed{ya}, nil)) == nil {
		t.Error("one agent's rows were replaced by another's")
	}
	must(t, replaced(s.ReplaceObserved(t.Context(), store.ReportMark{Agent: "x"}, []store.Observed{xa},
		[]process.ID{xb.Process, {Namespace: "ns", Name: "unheard of"}})))
	rows, _, err = s.PageObserved(t.Context(), "ns", 0, 10)
	must(t, err)
	same(t, "some kept", []store.Observed{changed, ya, xa}, rows)
	must(t, replaced(s.ReplaceObserved(t.Context(), store.ReportMark{Agent: "x"}, nil, nil)))
	rows, _, err = s.PageObserved(t.Context(), "ns", 0, 10)
	must(t, err)
	same(t, "the other agent's", []store.Observed{ya}, rows)
}

func observationsPaged(t *testing.T, s store.Store) {
	var all []store.Observed
	for _, agent := range []string{"a", "b", "c"} {
		for _, name := range []string{"1", "2", "3"} {
			all = append(all, observed(agent, "ns", name, len(all)+1))
		}
	}
	must(t, s.PutObserved(t.Context(), store.ReportMark{}, []store.Observed{all[0], all[1], all[2], all[3]}, nil))
	must(t, s.PutObserved(t.Context(), store.ReportMark{}, append(all[:9:9], observed("a", "other", "1", 1)), nil))
	for _, tt := range []struct {
		start, limit int
		want         []store.Observed
	}{{0, 4, all[:4]}, {4, 4, all[4:8]}, {8, 4, all[8:]}, {9, 4, nil}, {0, 0, nil}, {-1, 1, all[:1]}} {
		rows, total, err := s.PageObserved(t.Context(), "ns", tt.start, tt.limit)
		must(t, err)
		same(t, fmt.Sprintf("%d from %d", tt.limit, tt.start), tt.want, rows)
		same(t, "total", 9, total)
	}
	rows, total, err := s.PageObserved(t.Context(), "none", 0, 10)
	must(t, err)
	if len(rows) != 0 || total != 0 {
		t.Errorf("an empty namespace has %d of %d rows", len(rows), total)
	}
}

// observationsPagedMeanwhile reads a namespace page by page while processes are added. It reads no process twice and
// misses none.
func observationsPagedMeanwhile(t *testing.T, s store.Store) {
	put := func(agent, name string) {
		t.Helper()
		must(t, s.PutObserved(t.Context(), store.ReportMark{}, []store.Observed{observed(agent, "ns", name, 1)}, nil))
	}
	for i := range 9 {
		put("m", fmt.Sprint(i))
	}
	seen := map[string]int{}
	for start := 0; start < 9; start += 3 {
		rows, _, err := s.PageObserved(t.Context(), "ns", start, 3)
		must(t, err)
		for _, o := range rows {
			seen[o.Agent+o.Process.Name]++
		}
		put("a", fmt.Sprint(start))              // before all others by its names
		put("m", fmt.Sprint(8-start))            // reported again, which changes no place
		put("m", "0"+strings.Repeat("x", start)) // in the middle
	}
	for i := range 9 {
		if n := seen["m"+fmt.Sprint(i)]; n != 1 {
			t.Errorf("process %d was read %d times", i, n)
		}
	}
}
