package cgroup_test

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"drover/internal/agent/cgroup"
	"drover/internal/agent/procfs"
)

// TestDelegatedGroup: the tree is in the group that a service manager has delegated, and the agent makes room there; but
// what an earlier agent has at the top stays in use.
func TestDelegatedGroup(t *testing.T) {
	for name, tc := range map[string]struct {
		own, earlier string
		base, moved  string
	}{
		"of the unit":           {"/unit", "", "unit/d-1", "unit/agent/cgroup.procs"},
		"below the unit's":      {"/unit/agent", "", "unit/d-1", ""},
		"an earlier tree":       {"/unit", "d-1/run-1", "d-1", ""},
		"an earlier, empty one": {"/unit", "d-1", "unit/d-1", "unit/agent/cgroup.procs"},
		"of another unit":       {"/other", "", "d-1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := fakeHost(t, v2Mount, "0::"+tc.own+"\n")
			for _, group := range []string{"unit/d-1", "unit/agent", "other", "d-1"} {
				h.put(t, filepath.Join(group, "cgroup.procs"), "")
			}
			if tc.earlier != "" {
				h.put(t, filepath.Join(tc.earlier, "cgroup.procs"), "")
			}
			if err := unix.Setxattr(filepath.Join(h.root, "unit"), "user.delegate", []byte("1"), 0); err != nil {
				t.Fatal(err)
			}
			tree := open(t, h)
			if want := filepath.Join(h.root, tc.base); tree.Mode() != cgroup.ModeV2 || tree.Path() != want {
				t.Errorf("got %s at %q, want %q", tree.Mode(), tree.Path(), want)
			}
			moved, err := os.ReadFile(filepath.Join(h.root, "unit/agent/cgroup.procs"))
			if want := strconv.Itoa(os.Getpid()); err != nil || (string(moved) == want) != (tc.moved != "") {
				t.Errorf("the agent's group holds %q, %v", moved, err)
			}
		})
	}
}

// delegatedChild is the environment variable of a test process that opens a tree of this name.
const delegatedChild = "DROVER_TEST_TREE"

// openTree is the main function of that process: it prints where its tree is, and in which group it is itself.
func openTree(name string) error {
	proc := procfs.New("/proc")
	tree, err := cgroup.Open(proc, name)
	if err != nil {
		return err
	}
	own, _ := proc.OwnCgroup("")
	fmt.Println(tree.Path(), own)
	return tree.Remove()
}

// TestDelegatedGroupOfTheKernel: the same in the hierarchy of the kernel, for a process that starts in such a group.
func TestDelegatedGroupOfTheKernel(t *testing.T) {
	name := "drover-test-" + strings.ToLower(rand.Text()[:16])
	top := offered(t, procfs.New("/proc"), v2)
	if top == "" {
		return // as to an ordinary user
	}
	unit := filepath.Join(top, name+"-unit")
	if err := os.Mkdir(unit, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, dir := range []string{filepath.Join(unit, "agent"), unit} {
			if err := os.Remove(dir); err != nil {
				t.Error(err)
			}
		}
	})
	if err := unix.Setxattr(unit, "user.delegate", []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	group, err := os.Open(unit)
	if err != nil {
		t.Fatal(err)
	}
	defer group.Close()
	child := exec.Command("/proc/self/exe")
	child.Env = append(os.Environ(), delegatedChild+"="+name)
	child.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Fd())}
	out, err := child.CombinedOutput()
	own := strings.TrimPrefix(unit, top)
	if want := filepath.Join(unit, name) + " " + own + "/agent\n"; err != nil || string(out) != want {
		t.Errorf("%q, %v; want %q", out, err, want)
	}
}
