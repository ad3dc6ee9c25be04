package cgroup_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drover/internal/agent/cgroup"
)

// all is a limit of each kind.
func all() cgroup.Limits { return cgroup.Limits{Memory: 64 << 20, CPU: 150, Tasks: 40} }

// texts puts what could not be enforced into words.
func texts(failed []cgroup.Unenforced) []string {
	var list []string
	for _, u := range failed {
		list = append(list, u.Limit+": "+u.Err.Error())
	}
	return list
}

func (h host) content(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(h.root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestLimitsV2(t *testing.T) {
	h := fakeHost(t, v2Mount, "0::/\n")
	h.put(t, "cgroup.subtree_control", "")
	h.put(t, "d-1/cgroup.procs", "")
	h.put(t, "d-1/cgroup.controllers", "cpu memory pids\n")
	h.put(t, "d-1/cgroup.subtree_control", "memory\n")
	tree := open(t, h)
	if got := tree.Unenforced(all()); got != nil {
		t.Errorf("not enforced: %q", texts(got))
	}
	if got := h.content(t, "d-1/cgroup.subtree_control"); !strings.HasPrefix(got, "+pids") &&
		!strings.HasPrefix(got, "+cpu") {
		t.Errorf("handed down: %q", got)
	}
	if got := h.content(t, "cgroup.subtree_control"); got != "" {
		t.Errorf("the top was changed without need: %q", got)
	}
	g := create(t, tree, "g")
	for _, file := range []string{"memory.max", "memory.swap.max", "cpu.max", "pids.max"} {
		h.put(t, "d-1/g/"+file, "")
	}
	if got := g.Limit(all()); got != nil {
		t.Errorf("not enforced: %q", texts(got))
	}
	got := map[string]string{}
	for _, file := range []string{"memory.max", "memory.swap.max", "cpu.max", "pids.max"} {
		got[file] = h.content(t, "d-1/g/"+file)
	}
	want := map[string]string{
		"memory.max": "67108864", "memory.swap.max": "0", "cpu.max": "150000 100000",
		"pids.max": "40",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if err := g.Bind(77); err != nil {
		t.Error(err)
	}
	// A kernel that does not account swap.
	other := create(t, tree, "other")
	h.put(t, "d-1/other/memory.max", "")
	if got := other.Limit(cgroup.Limits{Memory: 1}); got != nil {
		t.Errorf("not enforced: %q", texts(got))
	}
}

// A controller that nobody has needed yet is handed down from the top.
func TestLimitsV2AreHandedDownFromTheTop(t *testing.T) {
	h := fakeHost(t, v2Mount, "0::/\n")
	h.put(t, "cgroup.subtree_control", "")
	h.put(t, "d-1/cgroup.procs", "")
	h.put(t, "d-1/cgroup.controllers", "")
	h.put(t, "d-1/cgroup.subtree_control", "")
	tree := open(t, h)
	want := []string{"memory: no memory controller can be written"} // files in place of a kernel do not answer
	if diff := cmp.Diff(want, texts(tree.Unenforced(cgroup.Limits{Memory: 1}))); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if got := h.content(t, "cgroup.subtree_control"); got != "+memory" {
		t.Errorf("the top was asked for %q", got)
	}
}

// hybrid is a host whose controllers are in hierarchies of version 1. All of them are one directory here.
func hybrid(t *testing.T) host {
	t.Helper()
	const mounts = "41 31 0:38 / ROOT/u rw - cgroup2 cgroup2 rw\n" +
		"35 31 0:32 / ROOT/memory rw - cgroup cgroup rw,memory\n" +
		"36 31 0:33 / ROOT/cpu rw - cgroup cgroup rw,cpu,cpuacct\n" +
		"39 31 0:36 / ROOT/pids rw - cgroup cgroup rw,pids\n"
	h := fakeHost(t, mounts, "4:memory:/us\n2:cpu,cpuacct:/\n0::/\n")
	h.put(t, "u/d-1/cgroup.procs", "")
	h.put(t, "cpu/d-1/cgroup.procs", "")
	h.put(t, "memory/us/d-1/cgroup.procs", "")
	h.put(t, "memory/us/d-1/g/cgroup.procs", "")
	h.put(t, "memory/us/d-1/g/memory.limit_in_bytes", "")
	h.put(t, "memory/us/d-1/g/memory.memsw.limit_in_bytes", "")
	h.put(t, "cpu/d-1/g/cgroup.procs", "")
	h.put(t, "cpu/d-1/g/cpu.cfs_quota_us", "")
	h.put(t, "cpu/d-1/g/cpu.cfs_period_us", "")
	return h
}

func TestLimitsV1(t *testing.T) {
	h := hybrid(t)
	tree := open(t, h)
	g := create(t, tree, "g")
	want := []string{"tasks: no pids controller can be written"}
	if diff := cmp.Diff(want, texts(g.Limit(all()))); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if diff := cmp.Diff(want, texts(tree.Unenforced(all()))); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if err := g.Bind(77); err != nil {
		t.Error(err)
	}
	got := map[string]string{}
	for _, file := range []string{
		"memory/us/d-1/g/memory.limit_in_bytes",
		"memory/us/d-1/g/memory.memsw.limit_in_bytes", "memory/us/d-1/g/cgroup.procs", "cpu/d-1/g/cpu.cfs_quota_us",
		"cpu/d-1/g/cpu.cfs_period_us", "cpu/d-1/g/cgroup.procs",
	} {
		got[filepath.Base(filepath.Dir(filepath.Dir(filepath.Dir(file))))+" "+filepath.Base(file)] = h.content(t, file)
	}
	wantFiles := map[string]string{
		"us memory.limit_in_bytes": "67108864", "us memory.memsw.limit_in_bytes": "67108864", "us cgroup.procs": "77",
		"cpu cpu.cfs_quota_us": "150000", "cpu cpu.cfs_period_us": "100000", "cpu cgroup.procs": "77",
	}
	if diff := cmp.Diff(wantFiles, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestChangeV2: limits change, come and go on a group with processes.
func TestChangeV2(t *testing.T) {
	h := v2Host(t)
	h.put(t, "cgroup.subtree_control", "")
	h.put(t, "d-1/cgroup.controllers", "cpu memory pids\n")
	h.put(t, "d-1/cgroup.subtree_control", "cpu memory pids\n")
	g := create(t, open(t, h), "g")
	files := []string{"memory.max", "memory.swap.max", "cpu.max", "pids.max"}
	for _, c := range []struct {
		from, to cgroup.Limits
		want     []string
	}{
		{all(), all(), []string{"", "", "", ""}},
		{all(), cgroup.Limits{Memory: 32 << 20, CPU: 150, Tasks: 40}, []string{"33554432", "0", "", ""}},
		{all(), cgroup.Limits{Memory: 64 << 20, CPU: 50, Tasks: 41}, []string{"", "", "50000 100000", "41"}},
		{cgroup.Limits{}, all(), []string{"67108864", "0", "150000 100000", "40"}},
		{all(), cgroup.Limits{}, []string{"max", "max", "max", "max"}},
		{all(), cgroup.Limits{Tasks: 40}, []string{"max", "max", "max", ""}},
	} {
		for _, file := range files {
			h.put(t, "d-1/g/"+file, "")
		}
		if failed := g.Change(c.from, c.to); failed != nil {
			t.Errorf("%+v: %q", c.to, texts(failed))
		}
		var got []string
		for _, file := range files {
			got = append(got, h.content(t, "d-1/g/"+file))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%+v: -want +got\n%s", c.to, diff)
		}
	}
	if err := os.Remove(filepath.Join(h.root, "d-1/g/pids.max")); err != nil {
		t.Fatal(err)
	}
	want := []string{"tasks: the process runs in no group of the pids controller"}
	if diff := cmp.Diff(want, texts(g.Change(cgroup.Limits{}, cgroup.Limits{Tasks: 1}))); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestChangeV1: a limit that the group has had changes, and a new one waits.
func TestChangeV1(t *testing.T) {
	h := hybrid(t)
	g := create(t, open(t, h), "g")
	if failed := g.Limit(cgroup.Limits{Memory: 64 << 20}); failed != nil {
		t.Fatalf("%q", texts(failed))
	}
	if failed := g.Change(cgroup.Limits{Memory: 64 << 20}, cgroup.Limits{Memory: 32 << 20}); failed != nil {
		t.Errorf("%q", texts(failed))
	}
	if got := h.content(t, "memory/us/d-1/g/memory.limit_in_bytes"); got != "33554432" {
		t.Errorf("the limit is %q", got)
	}
	h.put(t, "memory/us/d-1/g/memory.memsw.limit_in_bytes", "")
	if failed := g.Change(cgroup.Limits{Memory: 1}, cgroup.Limits{}); failed != nil {
		t.Errorf("%q", texts(failed))
	}
	if got := h.content(t, "memory/us/d-1/g/memory.memsw.limit_in_bytes"); got != "-1" {
		t.Errorf("without a limit it is %q", got)
	}
	want := []string{
		"cpu: the process runs in no group of the cpu controller", "tasks: no pids controller can be written",
	}
	other := create(t, open(t, h), "other")
	if err := os.RemoveAll(filepath.Join(h.root, "cpu/d-1/other")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, texts(other.Change(cgroup.Limits{}, cgroup.Limits{CPU: 5, Tasks: 5}))); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// What fails at a run is told until one succeeds.
func TestFailuresAreRemembered(t *testing.T) {
	h := hybrid(t)
	tree := open(t, h)
	if got := tree.Unenforced(cgroup.Limits{CPU: 5}); got != nil {
		t.Fatalf("not enforced: %q", texts(got))
	}
	g := create(t, tree, "g")
	if err := os.Remove(filepath.Join(h.root, "cpu/d-1/g/cgroup.procs")); err != nil {
		t.Fatal(err)
	}
	if got := g.Limit(cgroup.Limits{CPU: 5}); got != nil {
		t.Errorf("not enforced: %q", texts(got))
	}
	if err := g.Bind(77); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("bound to nothing: %v", err)
	}
	if got := texts(tree.Unenforced(cgroup.Limits{CPU: 5})); len(got) != 1 ||
		!strings.HasPrefix(got[0], "cpu: cannot put pid 77 under the cpu limit of cgroup g") {
		t.Errorf("got %q", got)
	}
	g.Limit(cgroup.Limits{CPU: 5})
	if got := tree.Unenforced(cgroup.Limits{CPU: 5}); got != nil {
		t.Errorf("not enforced: %q", texts(got))
	}
}

func TestLimitsWithoutGroups(t *testing.T) {
	h := fakeHost(t, pidsMount, "")
	h.put(t, "d-1/cgroup.procs", "")
	tree := open(t, h)
	g := create(t, tree, "g")
	want := []string{"tasks: cannot create a control group"}
	if diff := cmp.Diff(want, texts(g.Limit(cgroup.Limits{Tasks: 1}))); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if n, err := tree.OOMKilled("g"); n != 0 || err != nil {
		t.Errorf("%d ended: %v", n, err)
	}
	if got := g.Limit(cgroup.Limits{}); got != nil {
		t.Errorf("no limits: %q", texts(got))
	}
}

func TestOOMKilled(t *testing.T) {
	h := v2Host(t)
	tree := open(t, h)
	for id, want := range map[string]int{"none": 0, "limited": 0, "ended": 3, "../d-1": 0, "gone": 0} {
		switch id {
		case "none":
			create(t, tree, id)
		case "limited":
			h.put(t, "d-1/limited/memory.events", "low 0\noom 0\noom_kill 0\n")
		case "ended":
			h.put(t, "d-1/ended/memory.events", "low 0\nmax 7\noom 4\noom_kill 3\noom_group_kill 0\n")
		}
		if n, err := tree.OOMKilled(id); n != want || err != nil {
			t.Errorf("%s: %d, want %d: %v", id, n, want, err)
		}
	}
	h = hybrid(t)
	h.put(t, "memory/us/d-1/g/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
	// What an earlier agent has left is found.
	if n, err := open(t, h).OOMKilled("g"); n != 2 || err != nil {
		t.Errorf("version 1: %d ended: %v", n, err)
	}
	h.put(t, "memory/us/d-1/g/memory.oom_control", "oom_kill many\n")
	if n, err := open(t, h).OOMKilled("g"); err == nil {
		t.Errorf("a count that is none is %d", n)
	}
}

func TestMarks(t *testing.T) {
	h := v2Host(t)
	tree := open(t, h)
	h.put(t, "d-1/both/memory.peak", "5242880\n")
	h.put(t, "d-1/both/pids.events", "max 3\n")
	h.put(t, "d-1/tasks/pids.events", "max 0\n")
	for id, want := range map[string]cgroup.Marks{
		"both": {Peak: 5 << 20, Refused: 3}, "tasks": {}, "gone": {}, "../d-1": {},
	} {
		if got, err := tree.Marks(id); got != want || err != nil {
			t.Errorf("%s: %+v, want %+v: %v", id, got, want, err)
		}
	}
	h = hybrid(t)
	h.put(t, "memory/us/d-1/g/memory.max_usage_in_bytes", "4096\n")
	if got, err := open(t, h).Marks("g"); got.Peak != 4096 || err != nil {
		t.Errorf("version 1: %+v, %v", got, err)
	}
	h.put(t, "memory/us/d-1/g/memory.max_usage_in_bytes", "much\n")
	if got, err := open(t, h).Marks("g"); err == nil {
		t.Errorf("a number that is none is %+v", got)
	}
}
