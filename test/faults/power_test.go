package faults_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"drover/internal/test/harness"
	"drover/test/judge"
)

// outlet is the power of the machine on which a rig's drover runs. The disk is an ext4 of its own.
type outlet struct {
	t           *testing.T
	image, disk string
	// boot holds the boot id of the machine, which its programs find in /proc.
	boot  string
	boots int
}

// plugIn puts the data of a rig on a disk that a cut of the power strikes.
func plugIn(r *rig) *outlet {
	r.t.Helper()
	boot, err := os.CreateTemp(r.dir, "boot-id-") // the name tells its machine from others
	must(r.t, err)
	must(r.t, boot.Close())
	o := &outlet{t: r.t, image: filepath.Join(r.dir, "image"), disk: filepath.Join(r.dir, "disk"), boot: boot.Name()}
	r.boot = o.boot
	must(r.t, os.Mkdir(o.disk, 0o700))
	must(r.t, os.WriteFile(o.image, nil, 0o600))
	must(r.t, os.Truncate(o.image, 256<<20))
	o.command("mkfs.ext4", "-q", o.image)
	o.on()
	for _, half := range []string{roleAgent, roleServer} {
		must(r.t, os.Mkdir(filepath.Join(o.disk, half), 0o700))
		must(r.t, os.Symlink(filepath.Join(o.disk, half), filepath.Join(r.dir, half)))
	}
	r.t.Cleanup(func() {
		r.server.kill()
		o.end()
		must(r.t, unix.Unmount(o.disk, 0))
	})
	return o
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (o *outlet) command(name string, args ...string) string {
	o.t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		o.t.Fatalf("%s %q: %v: %s", name, args, err, out)
	}
	return string(out)
}

// on boots the machine: the disk is as it was at the cut, and the boot id is another one.
func (o *outlet) on() {
	o.t.Helper()
	o.boots++
	must(o.t, os.WriteFile(o.boot, fmt.Appendf(nil, "00000000-0000-4000-8000-%012d\n", o.boots), 0o644))
	o.command("mount", "-o", "loop", o.image, o.disk)
}

// cut takes the power away and gives it back. What was written and not synced is gone with the page cache, and all
// processes of the machine have ended.
func (o *outlet) cut() {
	o.t.Helper()
	dir, err := os.Open(o.disk)
	must(o.t, err)
	// EXT4_IOC_SHUTDOWN of fs/ext4/ext4.h with EXT4_GOING_FLAGS_NOLOGFLUSH: not even the journal is written.
	const shutdown, noLogFlush = 0x8004587d, 2
	err = unix.IoctlSetPointerInt(int(dir.Fd()), shutdown, noLogFlush)
	must(o.t, dir.Close())
	must(o.t, err)
	o.end()
	must(o.t, unix.Unmount(o.disk, 0))
	harness.Eventually(o.t, "the release of the disk", func() bool { return o.command("losetup", "-j", o.image) == "" })
	o.on()
}

// end ends all processes that see the boot id of the machine: each boot has a mount namespace of its own.
func (o *outlet) end() {
	o.t.Helper()
	seen := []byte(filepath.Base(o.boot) + " /proc/sys/kernel/random/boot_id ")
	harness.Eventually(o.t, "the end of all processes of the machine", func() bool {
		tables, _ := filepath.Glob("/proc/[0-9]*/mountinfo") // the pattern is right
		left := false
		for _, path := range tables {
			table, err := os.ReadFile(path)
			if err != nil || !bytes.Contains(table, seen) {
				continue // it has ended, or is not of the machine
			}
			left = true
			var pid int
			if _, err := fmt.Sscanf(path, "/proc/%d/", &pid); err == nil && pid > 1 {
				harness.Signal(o.t, pid, syscall.SIGKILL)
			}
		}
		return !left
	})
}

// TestI1_I2_I3_I7_PowerCut cuts the power of a machine with both halves of drover at every moment of operations. A task
// that was answered with an id has an outcome after the boot, and what had begun does not begin again.
func TestI1_I2_I3_I7_PowerCut(t *testing.T) {
	stride := 2 * shortStride
	if judge.Long() {
		stride = 1
	}
	for i, op := range []int{judge.Start, judge.Stop, judge.Unhost, judge.Restart, judge.Reload} {
		t.Run(fmt.Sprint("op ", op), func(t *testing.T) {
			t.Parallel()
			a := &attack{rig: newRig(t), role: roleDev, op: op}
			o := plugIn(a.rig)
			a.cutAll(o, i, stride)
		})
	}
}

func (a *attack) cutAll(o *outlet, first, stride int) {
	a.t.Helper()
	all := a.rehearse()
	var chosen []string
	for i, moment := range all {
		if (i+first)%stride == 0 {
			chosen = append(chosen, moment)
		}
	}
	processes := make([]*harness.Process, len(chosen))
	var setups sync.WaitGroup
	for i := range chosen {
		setups.Go(func() { processes[i] = a.prepared(fmt.Sprint("p", i+1)) })
	}
	setups.Wait()
	for i, moment := range chosen {
		p := processes[i]
		a.dying().kill()
		a.victim = p.Name
		a.begin(moment)
		a.linked()
		task, unanswered := a.submit(p, a.op)
		passed := a.diesDuring(p, task, unanswered)
		o.cut()
		a.begin(never)
		var got harness.Result
		if unanswered == nil {
			got = a.await(p, task)
		}
		a.t.Logf("%s: passed %t, unanswered %v: %d %q; %+v, before %+v, after %+v", moment, passed, unanswered, got.Code, got.Msg,
			a.traceOf(p), a.before, a.after)
	}
	a.t.Log(strings.Join(chosen, ", "))
}
