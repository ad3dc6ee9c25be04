package liveness_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"drover/internal/agent/cgroup"
	"drover/internal/agent/instance"
	"drover/internal/agent/liveness"
	"drover/internal/agent/procfs"
)

// family says its pids: the root, a child, a grandchild in a session of its own, and one in the latter's session.
const family = `sh -c 'setsid sh -c "sleep 1000 & echo \$PPID \$\$ \$! > pids; exec sleep 1000" &
wait' &
while ! [ -s pids ]; do sleep 0.01; done
echo $$ $! $(cat pids) > said; wait`

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func checkGone(t *testing.T, ids []instance.Identity) {
	t.Helper()
	for _, id := range ids {
		if live().Same(id) {
			t.Errorf("pid %d is alive", id.PID)
		}
	}
}

func TestEndTreeByDescent(t *testing.T) {
	killTree(t, func(_ stage, root instance.Identity) liveness.Tree { return liveness.Tree{Root: root} })
}

func TestEndTreeByMark(t *testing.T) {
	killTree(t, func(s stage, _ instance.Identity) liveness.Tree {
		return liveness.Tree{Marks: []string{"stage " + s.dir}}
	})
}

// killTree ends a family that is known as the given tree, whole, and leaves a bystander alone.
func killTree(t *testing.T, known func(s stage, root instance.Identity) liveness.Tree) {
	t.Helper()
	watcher(t)
	s, other := newStage(t), newStage(t)
	root := s.start(t, family, nil)
	ids := s.said(t)
	bystander := other.start(t, "exec sleep 1000", nil)
	_, left, err := liveness.EndTree(bounded(t), liveness.NewLooks(live()), known(s, root), 0)
	if len(left) != 0 || err != nil {
		t.Errorf("%v are left: %v", left, err)
	}
	checkGone(t, ids)
	if !live().Same(bystander) {
		t.Error("a bystander was ended")
	}
	if err := liveness.Signal(live(), bystander, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
}

func TestEndTreeByGroup(t *testing.T) {
	watcher(t)
	tree, err := cgroup.Open(live(), "drover-test-liveness-"+strings.ToLower(rand.Text()[:16]))
	if err != nil {
		t.Fatal(err)
	}
	g, err := tree.Create("g")
	if err != nil {
		t.Fatal(err)
	}
	s := newStage(t)
	root := s.start(t, family, g)
	ids := s.said(t)
	_, left, err := liveness.EndTree(bounded(t), liveness.NewLooks(live()), liveness.Tree{Root: root, Groups: []*cgroup.Group{g}}, 0)
	if len(left) != 0 || err != nil {
		t.Errorf("%v are left: %v", left, err)
	}
	checkGone(t, ids)
	if err := errors.Join(g.Remove(), g.Close(), tree.Remove()); err != nil {
		t.Error(err)
	}
}

// A root that is another process by now is nobody's root.
func TestEndTreeOfAReusedPid(t *testing.T) {
	watcher(t)
	s := newStage(t)
	id := s.start(t, "exec sleep 1000", nil)
	old := id
	old.StartTicks--
	for _, root := range []instance.Identity{old, {}, {BootID: id.BootID, PID: 1}} {
		if _, left, err := liveness.EndTree(bounded(t), liveness.NewLooks(live()), liveness.Tree{Root: root}, 0); len(left) != 0 ||
			err != nil {
			t.Errorf("%v are left: %v", left, err)
		}
	}
	if !live().Same(id) {
		t.Error("a stranger was ended")
	}
	if err := liveness.Signal(live(), id, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
}

// A /proc in which nothing ever dies.
func immortals(t *testing.T, parents map[int]int) procfs.FS {
	t.Helper()
	root := t.TempDir()
	put := func(name, content string) {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	put("sys/kernel/random/boot_id", "b")
	for pid, ppid := range parents {
		put(fmt.Sprintf("%d/stat", pid), stat(pid, ppid))
	}
	return procfs.New(root)
}

func TestEndTreeSaysWhatIsLeft(t *testing.T) {
	proc := immortals(t, map[int]int{4000001: 1, 4000002: 4000001, 4000003: 1})
	ctx, cancel := context.WithCancelCause(t.Context())
	tired := errors.New("out of patience")
	cancel(tired)
	_, left, err := liveness.EndTree(ctx, liveness.NewLooks(proc),
		liveness.Tree{Root: instance.Identity{BootID: "b", PID: 4000001, StartTicks: 7}}, 0)
	if !slices.Equal(left, []int{4000001, 4000002}) || !errors.Is(err, tired) {
		t.Errorf("%v are left: %v", left, err)
	}
}

// Whoever ends a tree that it is itself a part of ends neither itself nor what it has started.
func TestEndTreeSparesItself(t *testing.T) {
	self := os.Getpid()
	proc := immortals(t, map[int]int{4000001: 1, self: 4000001, 4000002: self})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, left, err := liveness.EndTree(ctx, liveness.NewLooks(proc),
		liveness.Tree{Root: instance.Identity{BootID: "b", PID: 4000001, StartTicks: 7}}, 0)
	if !slices.Equal(left, []int{4000001}) || err == nil {
		t.Errorf("%v are left: %v", left, err)
	}
}

func stat(pid, ppid int) string {
	return fmt.Sprintf("%d (x) S %d %d %d 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 7 8192 1", pid, ppid, pid, pid)
}
