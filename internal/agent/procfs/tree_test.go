package procfs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover/internal/agent/instance"
	"drover/internal/agent/procfs"
)

// family is a made-up /proc of a machine with two processors and 1000 KiB of memory, and what control groups tell of
// it.
type family struct {
	t    *testing.T
	root string
	now  time.Duration
	runs map[string]procfs.Account
	*procfs.Trees
}

func newFamily(t *testing.T) *family {
	t.Helper()
	f := &family{t: t, root: t.TempDir(), now: time.Minute, runs: map[string]procfs.Account{}}
	write(t, f.root, map[string]string{"sys/kernel/random/boot_id": "b1\n", "meminfo": "MemTotal: 1000 kB\n"})
	fs := procfs.New(f.root)
	f.Trees = procfs.NewTrees(procfs.NewSampler(fs, 2), f, func() time.Duration { return f.now })
	return f
}

func (f *family) Account(run string) (procfs.Account, bool) {
	a, ok := f.runs[run]
	return a, ok
}

// born is when every process of the family was started, in ticks; joined is when those were that came later.
const (
	born   = 1000
	joined = 6100
)

// put says how a process is: own ticks, ticks of reaped children. Its pages are as many as its pid.
func (f *family) put(pid, parent int, state rune, start, own, reaped int) {
	f.t.Helper()
	stat := fmt.Sprintf("%d (p) %c %d %d %d 0 -1 0 0 0 0 0 %d 0 %d 0 20 0 1 0 %d 4096 %d 1\n", pid, state, parent, pid,
		pid, own, reaped, start, pid)
	path := filepath.Join(f.root, strconv.Itoa(pid), "stat")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		f.t.Fatal(err)
	}
	// In place, as the kernel's files are: they are kept open.
	if err := os.WriteFile(path, []byte(stat), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// end removes a process; whoever holds its file open reads nothing any more.
func (f *family) end(pid int) {
	f.t.Helper()
	dir := filepath.Join(f.root, strconv.Itoa(pid))
	if err := os.Truncate(filepath.Join(dir, "stat"), 0); err != nil {
		f.t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		f.t.Fatal(err)
	}
}

// want measures one process and compares.
func (f *family) want(what string, pid int, run string, cpu float64, pages, processes int) {
	f.t.Helper()
	at := f.now
	if processes == 0 {
		at = 0
	}
	uses, err := f.Measure([]procfs.Root{{
		Identity: instance.Identity{BootID: "b1", PID: pid, StartTicks: born},
		Run:      run,
	}})
	if err != nil {
		f.t.Fatal(err)
	}
	mem := float64(pages*os.Getpagesize()) / 1024 / 10
	got := uses[0]
	if got.CPU != cpu || got.Mem != mem || got.Processes != processes || got.At != at {
		f.t.Errorf("%s: %+v, want cpu %v, mem %v, %d processes, at %v", what, got, cpu, mem, processes, at)
	}
}

func TestTreeByDescent(t *testing.T) {
	f := newFamily(t)
	f.put(2, 1, 'S', 1, 999, 0)
	f.put(10, 1, 'S', born, 100, 50)
	f.put(11, 10, 'S', born, 50, 0)
	f.put(12, 11, 'R', born, 800, 0)
	f.put(13, 1, 'S', born, 700, 0)
	f.want("first, over its life of 50 s", 10, "", 10, 33, 3)

	f.now += 5 * time.Second
	f.put(12, 11, 'R', born, 1300, 0) // 5 s of 5 s
	f.want("a busy grandchild", 10, "", 50, 33, 3)

	f.now += 5 * time.Second
	f.put(12, 11, 'Z', born, 1800, 0)
	f.want("one that ended and was not reaped", 10, "", 50, 21, 2)

	f.now += 5 * time.Second
	f.end(12)
	f.put(11, 10, 'S', born, 50, 1800)
	f.want("and was then: nothing is counted twice", 10, "", 0, 21, 2)

	f.now += 5 * time.Second
	f.put(14, 11, 'R', joined+15*100, 500, 0)
	f.want("a new child", 10, "", 50, 35, 3)

	f.now += 5 * time.Second
	f.end(11)
	f.put(14, 10, 'R', joined+15*100, 1000, 0)
	f.want("its parent, with all it had reaped, is gone", 10, "", 50, 24, 2)

	f.now += 5 * time.Second
	f.put(13, 10, 'S', born, 10000, 0)
	f.want("one that came with its own past", 10, "", 0, 37, 3)

	f.now += 5 * time.Second
	f.end(10)
	f.want("the root is gone", 10, "", 0, 0, 0)
}

func TestTreeByControlGroup(t *testing.T) {
	f := newFamily(t)
	f.put(10, 1, 'S', born, 100, 0)
	f.put(20, 1, 'S', born, 100, 0) // lost its parent, and was never lost
	f.runs["r"] = procfs.Account{PIDs: []int{10, 20}, CPU: 10 * time.Second, Accounted: true}
	f.want("first", 10, "r", 10, 30, 2)

	f.now += 5 * time.Second
	f.runs["r"] = procfs.Account{PIDs: []int{10, 20}, CPU: 17500 * time.Millisecond, Accounted: true}
	f.want("what the group has used", 10, "r", 75, 30, 2)

	f.now += 5 * time.Second
	f.runs["r"] = procfs.Account{PIDs: []int{10}, CPU: 17500 * time.Millisecond, Accounted: true}
	f.want("idle", 10, "r", 0, 10, 1)

	// A kernel without that account.
	f.put(20, 1, 'S', born, 500, 0)
	f.put(10, 1, 'S', born, 600, 0)
	f.runs["r"] = procfs.Account{PIDs: []int{10, 20}}
	f.now += 4900 * time.Millisecond
	f.want("anew, over a life of 65 s less a tick", 10, "r", 8.47, 30, 2)
	f.now += 5 * time.Second
	f.put(20, 1, 'S', born, 1000, 0)
	f.want("by its members", 10, "r", 50, 30, 2)

	// A start command that had something else start the process.
	f.runs["r"] = procfs.Account{PIDs: []int{20}, CPU: time.Hour, Accounted: true}
	f.now += 5 * time.Second
	f.put(10, 1, 'S', born, 1100, 0)
	f.put(12, 10, 'S', joined, 0, 0)
	f.want("by descent, as its run does not hold it", 10, "r", 50, 22, 2)
}

// TestTreesThatAreNotThere: nobody else's use is told as theirs.
func TestTreesThatAreNotThere(t *testing.T) {
	f := newFamily(t)
	f.put(10, 1, 'S', born, 100, 0)
	f.put(11, 1, 'Z', born, 100, 0)
	ids := []instance.Identity{
		{BootID: "b1", PID: 10, StartTicks: born},
		{BootID: "b2", PID: 10, StartTicks: born},
		{BootID: "b1", PID: 10, StartTicks: born + 1},
		{BootID: "b1", PID: 11, StartTicks: born},
		{BootID: "b1", PID: 12, StartTicks: born},
		{BootID: "b1", PID: 1, StartTicks: born},
		{},
		{BootID: "b1", PID: 10, StartTicks: born},
	}
	roots := make([]procfs.Root, len(ids))
	for i, id := range ids {
		roots[i].Identity = id
	}
	uses, err := f.Measure(roots)
	if err != nil {
		t.Fatal(err)
	}
	var there []string
	for i, u := range uses {
		if u.Processes > 0 {
			there = append(there, strconv.Itoa(i))
		} else if u != (procfs.TreeUse{}) {
			t.Errorf("%+v, which is not there, uses %+v", ids[i], u)
		}
	}
	if diff := cmp.Diff("0 7", strings.Join(there, " ")); diff != "" || uses[0] != uses[7] {
		t.Errorf("there are (-want +got):\n%s\n%+v", diff, uses)
	}
}

// TestTreeAfterLong: what nobody has asked for is forgotten, and begins anew.
func TestTreeAfterLong(t *testing.T) {
	f := newFamily(t)
	f.put(10, 1, 'S', born, 1000, 0)
	f.put(20, 1, 'S', born, 1000, 0)
	f.want("first, over 50 s", 10, "", 10, 10, 1)
	f.now += 3 * time.Minute
	f.want("the other", 20, "", 2.17, 20, 1)
	f.want("anew, over 230 s", 10, "", 2.17, 10, 1)
}
