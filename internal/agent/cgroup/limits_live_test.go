package cgroup_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"drover/internal/agent/cgroup"
	"drover/internal/agent/procfs"
)

// limitedGroup is a group under the limits in the kernel's own hierarchies; nil where the host can keep none of them
// for us.
func limitedGroup(t *testing.T, l cgroup.Limits) (*cgroup.Tree, *cgroup.Group) {
	t.Helper()
	proc := procfs.New("/proc")
	for _, mode := range []cgroup.Mode{cgroup.ModeV2, cgroup.ModeFreezer} {
		tree := liveTree(t, proc, mode)
		if tree == nil {
			continue
		}
		g := liveGroup(t, tree)
		if failed := g.Limit(l); failed != nil {
			for _, u := range failed {
				if place := offered(t, proc,
					v1(map[string]string{"memory": "memory", "cpu": "cpu", "tasks": "pids"}[u.Limit])); place != "" {
					t.Errorf("%s cannot be limited although %s can be written to: %v", u.Limit, place, u.Err)
				}
			}
			return nil, nil
		}
		return tree, g
	}
	return nil, nil
}

// kept returns the content of a file of the group in whichever hierarchy keeps it, of those that hold the word.
func kept(t *testing.T, tree *cgroup.Tree, name, word string) string {
	t.Helper()
	mounts, err := procfs.New("/proc").Mounts()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mounts {
		data, err := os.ReadFile(filepath.Join(m.Point, filepath.Base(tree.Path()), "g", name))
		if err == nil && strings.Contains(string(data), word) {
			return strings.TrimSpace(string(data))
		}
	}
	t.Fatalf("no hierarchy keeps %s with %q", name, word)
	return ""
}

// TestMemoryHog: what a grandchild takes beyond the limit has the kernel end it, which is counted; what stays below
// lives.
func TestMemoryHog(t *testing.T) {
	tree, g := limitedGroup(t, cgroup.Limits{Memory: 32 << 20})
	if g == nil {
		return
	}
	if n, err := tree.OOMKilled("g"); n != 0 || err != nil {
		t.Fatalf("%d ended before the start: %v", n, err)
	}
	run(t, g, `(head -c 300000000 /dev/zero | tail -c 300000000 >/dev/null; echo up); exec sleep 1000`)
	// As a rule one; the kernel may choose another before what that one held is free.
	if n, err := tree.OOMKilled("g"); n < 1 || err != nil {
		t.Errorf("%d ended: %v", n, err)
	}
	if pids, err := g.PIDs(); len(pids) == 0 || err != nil {
		t.Errorf("%v live on: %v", pids, err)
	}
	kill(t, g)
}

// TestChangeOfARunningGroup: the kernel has the new limits of a process that runs on.
func TestChangeOfARunningGroup(t *testing.T) {
	old := cgroup.Limits{Memory: 300 << 20, CPU: 300, Tasks: 50}
	tree, g := limitedGroup(t, old)
	if g == nil {
		return
	}
	run(t, g, `echo up; exec sleep 1000`)
	fresh := cgroup.Limits{Memory: 32 << 20, CPU: 200, Tasks: 40}
	if failed := g.Change(old, fresh); failed != nil {
		t.Fatalf("%q", texts(failed))
	}
	for want, names := range map[string]string{
		"40": "pids.max", "33554432": "memory.max memory.limit_in_bytes", "200000": "cpu.max cpu.cfs_quota_us",
	} {
		found := false
		for name := range strings.FieldsSeq(names) {
			for _, dir := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
				all, err := filepath.Glob(filepath.Join(dir, filepath.Base(tree.Path()), "g", name))
				if err != nil {
					t.Fatal(err)
				}
				for _, file := range all {
					text, err := os.ReadFile(file)
					found = found || err == nil && strings.HasPrefix(string(text), want)
				}
			}
		}
		if !found {
			t.Errorf("no group keeps %s of %s", want, names)
		}
	}
	if failed := g.Change(fresh, old); failed != nil {
		t.Errorf("back: %q", texts(failed))
	}
	if failed := g.Change(old, cgroup.Limits{}); failed != nil {
		t.Errorf("without limits: %q", texts(failed))
	}
	if pids, err := g.PIDs(); len(pids) == 0 || err != nil {
		t.Errorf("%v live on: %v", pids, err)
	}
	kill(t, g)
}

func TestTaskHog(t *testing.T) {
	tree, g := limitedGroup(t, cgroup.Limits{Tasks: 6})
	if g == nil {
		return
	}
	run(t, g, `(for i in 1 2 3 4 5 6 7 8 9; do sleep 1000 & done) 2>/dev/null; echo up; exec sleep 1000`)
	pids, err := g.PIDs()
	if len(pids) > 6 || len(pids) < 4 || err != nil {
		t.Errorf("%d processes: %v", len(pids), err)
	}
	if events := kept(t, tree, "pids.events", ""); events == "max 0" {
		t.Error("none was refused")
	}
	kill(t, g)
}

// TestCPUHog: the limit is so low that a process reaches it on a busy machine too.
func TestCPUHog(t *testing.T) {
	tree, g := limitedGroup(t, cgroup.Limits{CPU: 2})
	if g == nil {
		return
	}
	run(t, g, `echo up; while :; do :; done`)
	defer kill(t, g)
	deadline := time.After(20 * time.Second)
	for throttled(t, tree) == 0 {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-deadline:
			t.Fatal("a process that works without pause was never made to wait")
		}
	}
}

// throttled is how many periods the group was made to wait in.
func throttled(t *testing.T, tree *cgroup.Tree) int {
	t.Helper()
	for line := range strings.Lines(kept(t, tree, "cpu.stat", "nr_throttled")) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "nr_throttled "); ok {
			return atoi(t, value)
		}
	}
	t.Fatal("nobody counts how often it was made to wait")
	return 0
}

// TestLessMemoryThanUsed: version 1 refuses a limit below what is used, and drover says why. Version 2 does not.
func TestLessMemoryThanUsed(t *testing.T) {
	tree, g := limitedGroup(t, cgroup.Limits{Memory: 256 << 20})
	if g == nil {
		return
	}
	run(t, g, `x=$(head -c 20000000 /dev/zero | tr '\0' x); echo up; sleep 1000; :`)
	defer kill(t, g)
	failed := g.Change(cgroup.Limits{Memory: 256 << 20}, cgroup.Limits{Memory: 4 << 20})
	v1, err := filepath.Glob("/sys/fs/cgroup/*/" + filepath.Base(tree.Path()) + "/g/memory.limit_in_bytes")
	if err != nil || len(v1) != len(failed) || len(v1) == 1 && failed[0].Err.Error() != "its run uses more memory than that" {
		t.Errorf("version 1: %q, %+v, %v", v1, failed, err)
	}
}

// TestLimitsGoWithTheirGroup: nothing is left in any hierarchy, also where another agent made it.
func TestLimitsGoWithTheirGroup(t *testing.T) {
	tree, g := limitedGroup(t, cgroup.Limits{Memory: 32 << 20, CPU: 50, Tasks: 20})
	if g == nil {
		return
	}
	run(t, g, "echo up; exec sleep 1000")
	if err := g.Remove(); err == nil {
		t.Error("a populated group was removed")
	}
	if _, ok := tree.Group("g"); !ok {
		t.Error("what could not be removed is not found again")
	}
	again, err := cgroup.Open(procfs.New("/proc"), filepath.Base(tree.Path()))
	if err != nil {
		t.Fatal(err)
	}
	successor, ok := again.Group("g")
	if !ok {
		t.Fatal("the group is not found by a successor")
	}
	kill(t, successor)
	if err := errors.Join(successor.Remove(), again.Remove()); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob("/sys/fs/cgroup/*/" + filepath.Base(tree.Path()))
	if err != nil || len(left) > 0 {
		t.Errorf("left are %q: %v", left, err)
	}
}
