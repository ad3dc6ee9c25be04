package cgroup_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drover/internal/agent/cgroup"
	"drover/internal/agent/procfs"
)

// host is a made-up machine: a /proc that knows one hierarchy, and a directory in place of that.
type host struct {
	proc procfs.FS
	root string
}

func fakeHost(t *testing.T, mountinfo, ownCgroups string) host {
	t.Helper()
	dir := t.TempDir()
	h := host{root: filepath.Join(dir, "cg")}
	for name, content := range map[string]string{
		"proc/self/mountinfo": strings.ReplaceAll(mountinfo, "ROOT", h.root),
		"proc/self/cgroup":    ownCgroups,
	} {
		h.put(t, filepath.Join(dir, name), content)
	}
	if err := os.MkdirAll(h.root, 0o755); err != nil {
		t.Fatal(err)
	}
	h.proc = procfs.New(filepath.Join(dir, "proc"))
	return h
}

func (h host) put(t *testing.T, path, content string) {
	t.Helper()
	if !filepath.IsAbs(path) {
		path = filepath.Join(h.root, path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

const (
	v2Mount      = "41 31 0:38 / ROOT rw - cgroup2 cgroup2 rw\n"
	freezerMount = "37 31 0:34 / ROOT rw - cgroup cgroup rw,freezer\n"
	pidsMount    = "36 31 0:33 / ROOT rw - cgroup cgroup rw,pids\n"
)

// v2Host is a host with an empty v2 hierarchy for us.
func v2Host(t *testing.T) host {
	t.Helper()
	h := fakeHost(t, v2Mount, "0::/\n")
	h.put(t, "d-1/cgroup.procs", "")
	return h
}

func open(t *testing.T, h host) *cgroup.Tree {
	t.Helper()
	tree, err := cgroup.Open(h.proc, "d-1")
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func create(t *testing.T, tree *cgroup.Tree, id string) *cgroup.Group {
	t.Helper()
	g, err := tree.Create(id)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestOpenFindsAHierarchy(t *testing.T) {
	for name, tc := range map[string]struct {
		mounts, own string
		// procs are the groups that can be used.
		procs []string
		mode  cgroup.Mode
		base  string
	}{
		"none":             {pidsMount, "", nil, cgroup.ModeNone, ""},
		"v2 at its top":    {v2Mount, "0::/us\n", []string{"d-1"}, cgroup.ModeV2, "d-1"},
		"v2 below our own": {v2Mount, "0::/us\n", []string{"us/d-1"}, cgroup.ModeV2, "us/d-1"},
		"v2 not ours":      {v2Mount, "0::/us\n", []string{"us"}, cgroup.ModeNone, ""},
		"a part of v2": {
			strings.Replace(v2Mount, " / ", " /ct/x ", 1), "0::/ct/x/us\n",
			[]string{"us/d-1"},
			cgroup.ModeV2, "us/d-1",
		},
		"freezer": {
			pidsMount + freezerMount, "3:freezer:/us\n0::/\n",
			[]string{"d-1"},
			cgroup.ModeFreezer,
			"d-1",
		},
		"freezer below own": {freezerMount, "3:freezer:/us\n", []string{"us/d-1"}, cgroup.ModeFreezer, "us/d-1"},
	} {
		t.Run(name, func(t *testing.T) {
			h := fakeHost(t, tc.mounts, tc.own)
			for _, dir := range tc.procs {
				h.put(t, filepath.Join(dir, "cgroup.procs"), "")
			}
			tree, err := cgroup.Open(h.proc, "d-1")
			if err != nil {
				t.Fatal(err)
			}
			want := ""
			if tc.base != "" {
				want = filepath.Join(h.root, tc.base)
			}
			if tree.Mode() != tc.mode || tree.Path() != want {
				t.Errorf("got %s at %q, want %s at %q", tree.Mode(), tree.Path(), tc.mode, want)
			}
			if tc.mode == cgroup.ModeNone {
				if _, err := os.Stat(filepath.Join(h.root, "d-1")); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("a directory was left behind: %v", err)
				}
			}
		})
	}
}

// TestHolder: a group of the name elsewhere, which an account may have made for itself, is none of the tree.
func TestHolder(t *testing.T) {
	for name, tc := range map[string]struct {
		mounts, own, base string
		holders           map[string]string
	}{
		"at the top": {v2Mount, "0::/us\n", "d-1", map[string]string{
			"/d-1/run-1": "run-1", "/d-1/run-1/below": "run-1", "/d-1": "", "/d-12/run-1": "", "/us": "", "/": "",
			"/user.slice/d-1/run-1": "", "/user.slice/d-1/d-1/run-1": "", "/d-1/run-2/d-1/run-1": "run-2",
		}},
		"below our own": {v2Mount, "0::/us\n", "us/d-1", map[string]string{
			"/us/d-1/run-1": "run-1", "/d-1/run-1": "",
			"/user.slice/us/d-1/run-1": "",
		}},
		"a part of it": {strings.Replace(v2Mount, " / ", " /ct/x ", 1), "0::/ct/x/us\n", "us/d-1", map[string]string{
			"/ct/x/us/d-1/run-1": "run-1", "/us/d-1/run-1": "", "/ct/y/us/d-1/run-1": "",
		}},
		// The process itself is in the group, although the mount calls it otherwise.
		"by another name": {strings.Replace(v2Mount, " / ", " /ct/x ", 1), "0::/us\n", "us/d-1", map[string]string{
			"/us/d-1/run-9": "run-9", "/us/d-1/run-1": "", "/us/d-1/../run-9": "",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			h := fakeHost(t, tc.mounts, tc.own)
			h.put(t, tc.base+"/cgroup.procs", "")
			h.put(t, tc.base+"/run-1/cgroup.procs", "7\n")
			h.put(t, tc.base+"/run-9/cgroup.procs", "42\n")
			tree := open(t, h)
			for path, want := range tc.holders {
				h.put(t, filepath.Join(filepath.Dir(h.root), "proc/42/cgroup"), "0::"+path+"\n")
				if got, ok := tree.Holder(h.proc, 42); got != want && ok || ok != (want != "") {
					t.Errorf("in %s: held by %q, %v, want %q", path, got, ok, want)
				}
			}
		})
	}
}

func TestNamesAreSafe(t *testing.T) {
	h := v2Host(t)
	tree := open(t, h)
	for _, name := range []string{"", ".", "..", "a/b", "A", "a b", "a.b", "ä", "a\n", strings.Repeat("a", 129)} {
		if _, err := tree.Create(name); err == nil {
			t.Errorf("group %q was created", name)
		}
		if _, ok := tree.Group(name); ok {
			t.Errorf("group %q was found", name)
		}
		if _, err := cgroup.Open(h.proc, name); err == nil {
			t.Errorf("tree %q was opened", name)
		}
	}
}

func TestGroupsComeAndGo(t *testing.T) {
	tree := open(t, v2Host(t))
	for _, id := range []string{"b", "a"} {
		create(t, tree, id)
	}
	if _, err := tree.Create("a"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second group of the same name: %v", err)
	}
	ids, err := tree.IDs()
	if diff := cmp.Diff([]string{"a", "b"}, ids); err != nil || diff != "" {
		t.Errorf("%v -want +got\n%s", err, diff)
	}
	if _, ok := tree.Group("c"); ok {
		t.Error("a group was found that is not there")
	}
	a, ok := tree.Group("a")
	if !ok || a.ID() != "a" {
		t.Fatalf("group a was not found: %v", a)
	}
	if err := os.MkdirAll(filepath.Join(tree.Path(), "a/x/y"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := a.Remove(); err != nil {
		t.Fatal(err)
	}
	if err := a.Remove(); err != nil {
		t.Errorf("a group that is gone: %v", err)
	}
	if _, ok := tree.Group("a"); ok {
		t.Error("a removed group was found")
	}
}

func TestMembers(t *testing.T) {
	h := v2Host(t)
	tree := open(t, h)
	g := create(t, tree, "g")
	h.put(t, "d-1/g/cgroup.procs", "30\n10\n0\n")
	h.put(t, "d-1/g/sub/sub/cgroup.procs", "20\n10\n")
	h.put(t, "d-1/g/cgroup.events", "populated 1\nfrozen 0\n")
	pids, err := g.PIDs()
	if diff := cmp.Diff([]int{10, 20, 30}, pids); err != nil || diff != "" {
		t.Errorf("%v -want +got\n%s", err, diff)
	}
	if populated, err := g.Populated(); err != nil || !populated {
		t.Errorf("populated: %v %v", populated, err)
	}
	h.put(t, "d-1/g/cgroup.events", "populated 0\nfrozen 0\n")
	if populated, err := g.Populated(); err != nil || populated {
		t.Errorf("populated when empty: %v %v", populated, err)
	}
	if err := g.Add(77); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(filepath.Join(h.root, "d-1/g/cgroup.procs")); !strings.HasPrefix(string(got), "77") {
		t.Errorf("after Add: %q", got)
	}
	for _, pid := range []int{0, -1} {
		if err := g.Add(pid); err == nil {
			t.Errorf("pid %d was added: to the kernel that is the writer itself", pid)
		}
	}
}

func TestKillNeverEndsItself(t *testing.T) {
	h := fakeHost(t, freezerMount, "3:freezer:/\n")
	h.put(t, "d-1/cgroup.procs", "")
	tree := open(t, h)
	g := create(t, tree, "g")
	h.put(t, "d-1/g/cgroup.procs", fmt.Sprintf("%d\n", os.Getpid()))
	h.put(t, "d-1/g/freezer.state", "FROZEN")
	if err := g.Kill(t.Context()); err == nil || !strings.Contains(err.Error(), "this process itself") {
		t.Errorf("got %v", err)
	}
}

func TestKillSaysWhatIsLeft(t *testing.T) {
	h := v2Host(t)
	tree := open(t, h)
	g := create(t, tree, "g")
	// A hierarchy in which nothing ever dies.
	h.put(t, "d-1/g/cgroup.procs", "4000001\n4000002\n")
	h.put(t, "d-1/g/cgroup.events", "populated 1\n")
	h.put(t, "d-1/g/cgroup.kill", "")
	ctx, cancel := context.WithCancelCause(t.Context())
	stuck := errors.New("out of patience")
	cancel(stuck)
	err := g.Kill(ctx)
	if !errors.Is(err, stuck) || !strings.Contains(err.Error(), "[4000001 4000002]") {
		t.Errorf("got %v", err)
	}
	if got, _ := os.ReadFile(filepath.Join(h.root, "d-1/g/cgroup.kill")); string(got) != "1" {
		t.Errorf("cgroup.kill holds %q", got)
	}
}

func TestNoHierarchy(t *testing.T) {
	tree := open(t, fakeHost(t, "", ""))
	g := create(t, tree, "g")
	if _, ok := g.FD(); ok {
		t.Error("a descriptor of nothing")
	}
	if err := g.Add(os.Getpid()); err != nil {
		t.Error(err)
	}
	if pids, err := g.PIDs(); len(pids) != 0 || err != nil {
		t.Errorf("pids %v: %v", pids, err)
	}
	if populated, err := g.Populated(); populated || err != nil {
		t.Errorf("populated %v: %v", populated, err)
	}
	if err := g.Kill(t.Context()); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("kill: %v", err)
	}
	if ids, err := tree.IDs(); len(ids) != 0 || err != nil {
		t.Errorf("ids %v: %v", ids, err)
	}
	if err := errors.Join(g.Remove(), g.Close(), tree.Remove()); err != nil {
		t.Error(err)
	}
}
