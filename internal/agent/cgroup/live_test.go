package cgroup_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"drover/internal/agent/cgroup"
	"drover/internal/agent/pidns"
	"drover/internal/agent/procfs"
)

func TestMain(m *testing.M) {
	if name := os.Getenv(delegatedChild); name != "" {
		if err := openTree(name); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	os.Exit(pidns.Run(m))
}

// storm starts processes that start others and end, and never stops; each is in a session of its own.
const storm = `hydra() { (setsid sh -c "$body" & ) ; }
body='sleep 0.005; (setsid sh -c "$body" &)'; export body
for i in 1 2 3 4; do hydra; done; echo up; exec sleep 1000`

// still starts ten processes in as many sessions and ends.
const still = `for i in 1 2 3 4 5 6 7 8 9 10; do setsid sleep 1000 & done; echo up`

// liveTree is a tree on the kernel's own hierarchy, nil where the host has none for us: to an ordinary user, say.
func liveTree(t *testing.T, proc procfs.FS, mode cgroup.Mode) *cgroup.Tree {
	t.Helper()
	tree, err := cgroup.Open(proc, "drover-test-"+strings.ToLower(rand.Text()[:16]))
	if err != nil {
		t.Fatal(err)
	}
	if tree.Mode() != mode {
		fits := v2
		if mode == cgroup.ModeFreezer {
			fits = v1("freezer")
		}
		if place := offered(t, proc, fits); place != "" {
			t.Errorf("got %s although %s can be written to", tree.Mode(), place)
		}
		return nil
	}
	t.Cleanup(func() {
		if err := tree.Remove(); err != nil {
			t.Error(err)
		}
	})
	return tree
}

// offered returns where the host has a hierarchy of the kind that groups can be made in, empty if nowhere.
func offered(t *testing.T, proc procfs.FS, fits func(procfs.Mount) bool) string {
	t.Helper()
	mounts, err := proc.Mounts()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mounts {
		if !fits(m) {
			continue
		}
		probe := filepath.Join(m.Point, "drover-test-probe-"+strings.ToLower(rand.Text()[:16]))
		if os.Mkdir(probe, 0o755) == nil {
			if err := os.Remove(probe); err != nil {
				t.Error(err)
			}
			return m.Point
		}
	}
	return ""
}

// v2 is the unified hierarchy.
func v2(m procfs.Mount) bool { return m.Type == "cgroup2" }

// v1 is a hierarchy of version 1 with the controller.
func v1(controller string) func(procfs.Mount) bool {
	return func(m procfs.Mount) bool { return m.Type == "cgroup" && slices.Contains(m.Options, controller) }
}

func liveGroup(t *testing.T, tree *cgroup.Tree) *cgroup.Group {
	t.Helper()
	g := create(t, tree, "g")
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := errors.Join(g.Kill(ctx), g.Remove(), g.Close()); err != nil {
			t.Error(err)
		}
	})
	return g
}

// run starts a script in the group and returns when it has said that it is up.
func run(t *testing.T, g *cgroup.Group, script string) {
	t.Helper()
	cmd := exec.Command("/bin/sh")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if fd, ok := g.FD(); ok {
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, fd
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	t.Cleanup(func() {
		// Also where the test has failed before it came to that.
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = g.Kill(ctx)
		_ = cmd.Wait()
	})
	if _, ok := g.FD(); !ok {
		if err := g.Add(cmd.Process.Pid); err != nil {
			t.Fatal(err)
		}
	} else if err := g.Bind(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintln(in, script); err != nil {
		t.Fatal(err)
	}
	in.Close()
	if _, err := r.Read(make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
}

func kill(t *testing.T, g *cgroup.Group) {
	t.Helper()
	if err := g.Remove(); !errors.Is(err, unix.EBUSY) {
		t.Errorf("a populated group was removed: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := g.Kill(ctx); err != nil {
		t.Fatal(err)
	}
	if pids, err := g.PIDs(); len(pids) != 0 || err != nil {
		t.Errorf("%v are left: %v", pids, err)
	}
	if populated, err := g.Populated(); populated || err != nil {
		t.Errorf("still populated: %v %v", populated, err)
	}
}

// each runs the test with a group in which processes of either kind are.
func each(t *testing.T, tree *cgroup.Tree, test func(t *testing.T, g *cgroup.Group)) {
	t.Helper()
	for name, script := range map[string]string{"still": still, "storm": storm} {
		t.Run(name, func(t *testing.T) {
			g := liveGroup(t, tree)
			run(t, g, script)
			test(t, g)
		})
	}
}

func TestKillV2(t *testing.T) {
	tree := liveTree(t, procfs.New("/proc"), cgroup.ModeV2)
	if tree == nil {
		return
	}
	each(t, tree, func(t *testing.T, g *cgroup.Group) {
		again, ok := tree.Group("g")
		if !ok {
			t.Fatal("the group is not found again")
		}
		if populated, err := again.Populated(); !populated || err != nil {
			t.Errorf("populated %v: %v", populated, err)
		}
		if pids, err := again.PIDs(); len(pids) < 4 || err != nil {
			t.Errorf("only %v are in the group: %v", pids, err)
		}
		kill(t, again)
	})
}

func TestKillFreezer(t *testing.T) {
	// The host as it is, less its v2 hierarchy.
	tree := liveTree(t, without(t, "cgroup2"), cgroup.ModeFreezer)
	if tree == nil {
		return
	}
	each(t, tree, func(t *testing.T, g *cgroup.Group) {
		if pids, err := g.PIDs(); len(pids) < 4 || err != nil {
			t.Errorf("only %v are in the group: %v", pids, err)
		}
		kill(t, g)
	})
}

// Kernels before 5.14 have the hierarchy but cannot kill a group.
func TestKillV2ByFreezing(t *testing.T) {
	tree := liveTree(t, procfs.New("/proc"), cgroup.ModeV2)
	if tree == nil {
		return
	}
	each(t, tree, func(t *testing.T, g *cgroup.Group) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err := g.KillByFreezing(ctx); err != nil {
			t.Fatal(err)
		}
		events, err := os.ReadFile(filepath.Join(tree.Path(), "g", "cgroup.events"))
		if err != nil || string(events) != "populated 0\nfrozen 0\n" {
			t.Errorf("%q are left: %v", events, err)
		}
	})
}

func TestKillReachesGroupsBelow(t *testing.T) {
	tree := liveTree(t, procfs.New("/proc"), cgroup.ModeV2)
	if tree == nil {
		return
	}
	g := liveGroup(t, tree)
	sub := filepath.Join(tree.Path(), "g", "inner")
	run(t, g, "mkdir "+sub+"; sleep 1000 & echo $! > "+sub+"/cgroup.procs; echo up")
	pids, err := g.PIDs()
	if len(pids) == 0 || err != nil {
		t.Fatalf("the group below is not seen: %v", err)
	}
	inner, _ := os.ReadFile(sub + "/cgroup.procs")
	if !slices.Contains(pids, atoi(t, string(inner))) {
		t.Errorf("%v lack %q of the group below", pids, inner)
	}
	kill(t, g)
}

func TestDescriptorEndsWithClose(t *testing.T) {
	tree := liveTree(t, procfs.New("/proc"), cgroup.ModeV2)
	if tree == nil {
		return
	}
	g := create(t, tree, "g")
	first, ok := g.FD()
	second, _ := g.FD()
	if !ok || first != second {
		t.Errorf("descriptors %d and %d, %v", first, second, ok)
	}
	if err := errors.Join(g.Close(), g.Close()); err != nil {
		t.Error(err)
	}
	if fd, ok := g.FD(); ok {
		t.Errorf("descriptor %d after Close", fd)
	}
	if err := g.Remove(); err != nil {
		t.Error(err)
	}
}

func without(t *testing.T, fsType string) procfs.FS {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(dir+"/self", 0o755); err != nil {
		t.Fatal(err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	lines := slices.DeleteFunc(strings.SplitAfter(string(mounts), "\n"), func(line string) bool {
		return strings.Contains(line, " - "+fsType+" ")
	})
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(
		os.WriteFile(dir+"/self/mountinfo", []byte(strings.Join(lines, "")), 0o600),
		os.WriteFile(dir+"/self/cgroup", own, 0o600),
	); err != nil {
		t.Fatal(err)
	}
	return procfs.New(dir)
}

func atoi(t *testing.T, s string) int {
	t.Helper()
	var n int
	if _, err := fmt.Sscan(s, &n); err != nil {
		t.Fatal(err)
	}
	return n
}
