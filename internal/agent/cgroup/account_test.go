package cgroup_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover/internal/agent/cgroup"
	"drover/internal/agent/procfs"
)

func TestAccount(t *testing.T) {
	h := v2Host(t)
	tree := open(t, h)
	g := create(t, tree, "g")
	if _, err := g.Account(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("account of a group without files: %v", err)
	}
	many := make([]int, 1000)
	var list strings.Builder
	for i := range many {
		many[i] = 1000 + i
		fmt.Fprintln(&list, 1999-i)
	}
	h.put(t, "d-1/g/cgroup.procs", list.String())
	h.put(t, "d-1/g/cpu.stat", "usage_usec 1500000\nuser_usec 1\n")
	look := func(want cgroup.Reading) {
		t.Helper()
		a, err := g.Account()
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		for range 2 { // the second look reads what is open
			got, err := a.Look()
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%v, account (-want +got):\n%s", err, diff)
			}
		}
	}
	look(cgroup.Reading{PIDs: many, CPU: 1500 * time.Millisecond, Accounted: true})
	h.put(t, "d-1/g/cgroup.procs", "30\n0\n")
	h.put(t, "d-1/g/sub/cgroup.procs", "20\n30\n")
	h.put(t, "d-1/g/cpu.stat", "something_else 1\n")
	look(cgroup.Reading{PIDs: []int{20, 30}})
	if err := os.Remove(h.root + "/d-1/g/cpu.stat"); err != nil {
		t.Fatal(err)
	}
	look(cgroup.Reading{PIDs: []int{20, 30}})
}

func TestAccountOfNoGroup(t *testing.T) {
	tree := open(t, fakeHost(t, pidsMount, ""))
	g := create(t, tree, "g")
	if _, err := g.Account(); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("got %v, want ErrUnsupported", err)
	}
}

// TestAccountLive: the kernel's own files answer again and again, count what has ended, and fail once the group is
// gone.
func TestAccountLive(t *testing.T) {
	for mode, proc := range map[cgroup.Mode]procfs.FS{
		cgroup.ModeV2:      procfs.New("/proc"),
		cgroup.ModeFreezer: without(t, "cgroup2"),
	} {
		t.Run(string(mode), func(t *testing.T) {
			tree := liveTree(t, proc, mode)
			if tree == nil {
				return
			}
			g := liveGroup(t, tree)
			a, err := g.Account()
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			empty, err := a.Look()
			if err != nil || len(empty.PIDs) != 0 || empty.CPU != 0 {
				t.Errorf("an empty group: %+v, %v", empty, err)
			}
			run(t, g, `i=0; (while [ $i -lt 20000 ]; do i=$((i+1)); done); sleep 1000 & echo up; wait`)
			r, err := a.Look()
			if err != nil || len(r.PIDs) != 2 || r.Accounted != (mode == cgroup.ModeV2) || r.Accounted && r.CPU <= 0 {
				t.Errorf("got %+v, %v, want two processes, and processor time where there is an account", r, err)
			}
			kill(t, g)
			if err := g.Remove(); err != nil {
				t.Fatal(err)
			}
			if r, err := a.Look(); err == nil {
				t.Errorf("the account of a removed group says %+v", r)
			}
		})
	}
}
