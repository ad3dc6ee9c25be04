package faults_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"drover/internal/test/harness"
	"drover/test/judge"
)

// TestI1_I2_I3_I7_PowerCut cuts the power of a machine with both halves of drover at moments of operations. A task that
// was answered with an id has one outcome after the boot, what had begun does not begin again, and what an outcome said
// is still so after another cut.
func TestI1_I2_I3_I7_PowerCut(t *testing.T) {
	t.Parallel()
	stride, ops := 2*shortStride, []int{judge.Start, judge.Stop, judge.Restart}
	if judge.Long() {
		stride, ops = 1, append(ops, judge.Unhost, judge.Reload)
	}
	for i, op := range ops {
		t.Run(fmt.Sprint("op ", op), func(t *testing.T) {
			t.Parallel()
			a := &attack{rig: newRig(t), role: roleDev, op: op}
			a.plugIn()
			a.cutAll(i, stride)
		})
	}
}

// plugIn puts the data of both halves on the disk of a machine.
func (r *rig) plugIn() {
	r.t.Helper()
	disk := filepath.Join(r.dir, "disk")
	r.outlet = harness.PlugIn(r.t, disk)
	for _, half := range []string{roleAgent, roleServer} {
		must(r.t, os.Mkdir(filepath.Join(disk, half), 0o700))
		must(r.t, os.Symlink(filepath.Join(disk, half), filepath.Join(r.dir, half)))
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// struck is a process during whose operation the power was cut, and the outcome; without a code, nobody was answered.
type struck struct {
	p      *harness.Process
	moment string
	code   *int
}

func (a *attack) cutAll(first, stride int) {
	a.t.Helper()
	var all []*struck
	for i, moment := range a.rehearse() {
		if (i+first)%stride == 0 {
			all = append(all, &struck{moment: moment})
		}
	}
	var setups sync.WaitGroup
	for i, s := range all {
		setups.Go(func() { s.p = a.prepared(fmt.Sprint("p", i+1)) })
	}
	setups.Wait()
	if a.t.Failed() {
		return
	}
	passed := 0
	for _, s := range all {
		if a.cut(s) {
			passed++
		}
	}
	a.t.Logf("died at %d of %d moments", passed, len(all))
	if passed*3 < len(all) {
		a.t.Errorf("only %d of %d moments were passed: hardly anything was tried", passed, len(all))
	}
	a.outlet.Cut()
	a.begin(never)
	for _, s := range all {
		a.holds(s)
	}
}

// words are what the commands of an operation note when they have run.
var words = map[int][]string{
	judge.Start: {"start"}, judge.Stop: {"stop"}, judge.Restart: {"stop", "start"}, judge.Reload: {"reload"},
}

// cut cuts the power at one moment of the operation, and compares what has run with the outcome after the boot.
func (a *attack) cut(s *struck) (passed bool) {
	a.t.Helper()
	a.dying().kill()
	a.victim = s.p.Name
	a.begin(s.moment)
	a.linked()
	before := map[string]int{"start": judge.Ran(s.p, "start")}
	task, unanswered := a.submit(s.p, a.op)
	passed = a.diesDuring(s.p, task, unanswered)
	a.outlet.Cut()
	a.begin(never)
	var got harness.Result
	if unanswered == nil {
		got = a.await(s.p, task)
		s.code = &got.Code
		if got.Code != 0 && !strings.Contains(got.Msg, "the host rebooted") {
			a.t.Errorf("%s: outcome %d %q", s.moment, got.Code, got.Msg)
		}
		if again := a.await(s.p, task); again.Code != got.Code || again.Msg != got.Msg {
			a.t.Errorf("%s: the outcome changed from %q to %q", s.moment, got.Msg, again.Msg)
		}
	}
	a.settled(s)
	for _, word := range words[a.op] {
		least, most := 0, 1
		if s.code != nil && *s.code == 0 {
			least = 1
		}
		if word == "start" {
			most++ // and once after the boot
		}
		if n := judge.Ran(s.p, word) - before[word]; n < least || n > most {
			a.t.Errorf("%s%s: outcome %d %q, and %q ran %d times", harness.MoreThan(most, n), s.moment, got.Code, got.Msg, word, n)
		}
	}
	return passed
}

// settled waits until a process that is hosted runs, and returns whether it is hosted.
func (a *attack) settled(s *struck) (hosted bool) {
	a.t.Helper()
	harness.Eventually(a.t, s.moment+": what is hosted to run", func() bool {
		got := a.operate(s.p, judge.Query)
		hosted = got.Hosted
		return got.PID > 1 || !hosted
	})
	if n := judge.Instances(a.t, judge.Dir(s.p)); n > 1 || hosted && n == 0 {
		a.t.Errorf("%s%s: %d processes run, hosted %t", harness.MoreThan(1, n), s.moment, n, hosted)
	}
	return hosted
}

// holds fails the test unless what an outcome has said still holds.
func (a *attack) holds(s *struck) {
	a.t.Helper()
	hosted := a.settled(s)
	if s.code == nil || *s.code != 0 {
		return
	}
	if want := a.op != judge.Stop && a.op != judge.Unhost; hosted != want {
		a.t.Errorf("%s: the outcome was success, and hosted is %t", s.moment, hosted)
	}
	if !hosted && judge.Instances(a.t, judge.Dir(s.p)) > 0 {
		a.t.Errorf("%s: what is not hosted was started after a boot", s.moment)
	}
}
