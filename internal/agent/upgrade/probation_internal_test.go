package upgrade

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"drover/internal/process"
	"drover/internal/release"
)

// probation returns a directory in which a version is on probation, and the state. The test's own program is the
// installed one.
func probation(t *testing.T) (dir string, s state) {
	t.Helper()
	own, err := self()
	if err != nil {
		t.Fatal(err)
	}
	s.Installed, err = fingerprint(own)
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	s.Current, s.Probation = have(t, dir, "1.5.0"), &Probation{Former: have(t, dir, "1.4.0")}
	s.Verdict, s.Signed = &Verdict{Item: "i", Version: "1.5.0", Text: "upgraded"}, 7
	return dir, s
}

// TestAVersionThatNeverLasts: the host goes back after a few starts, to the version before or to the installed program.
func TestAVersionThatNeverLasts(t *testing.T) {
	for what, c := range map[string]struct {
		spoil func(s *state)
		// back is the version to which the host goes back; "stays" means that it does not.
		back string
	}{
		"to the former version":    {func(*state) {}, "1.4.0"},
		"to the installed program": {func(s *state) { s.Probation.Former = nil }, ""},
		"not from a later format":  {func(s *state) { s.Current.Format = release.Format + 1 }, "stays"},
		"after the probation":      {func(s *state) { s.Probation = nil }, "stays"},
	} {
		t.Run(what, func(t *testing.T) {
			dir, s := probation(t)
			c.spoil(&s)
			if err := save(dir, s); err != nil {
				t.Fatal(err)
			}
			for n := range 2 * mostStarts {
				want := "1.5.0"
				if n >= mostStarts && c.back != "stays" {
					want = c.back
				}
				got := ""
				if choice := Choose(dir, quiet()); choice.Version != nil {
					got = choice.Version.Version
				}
				if got != want {
					t.Errorf("start %d runs %q, want %q", n+1, got, want)
				}
			}
			after, err := load(dir)
			if err != nil || after.Signed != 7 || after.Verdict == nil || after.Verdict.Item != "i" {
				t.Fatalf("%+v is stored: %v", after, err)
			}
			if v := after.Verdict; (c.back != "stays") != (v.Fault == process.Failed && v.Untold &&
				strings.Contains(v.Text, "never ran for 1m0s")) {
				t.Errorf("the verdict is %+v", v)
			}
		})
	}
}

// run runs an upgrader for some time.
func (o *office) run(t *testing.T, dir string, length time.Duration) (told []process.Event) {
	t.Helper()
	d, s := newDepot(t, t.TempDir())
	k, _ := o.upgrader(dir, d, s)
	k.cfg.Changed = func(e process.Event) { told = append(told, e) }
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var running sync.WaitGroup
	running.Go(func() {
		if err := k.Run(ctx, func() {}); err != nil {
			t.Error(err)
		}
	})
	running.Wait()
	return told
}

// TestTheEndOfAProbation: a version that has run for a minute stays in use.
func TestTheEndOfAProbation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, s := probation(t)
		if err := save(dir, s); err != nil {
			t.Fatal(err)
		}
		o := &office{}
		for _, length := range []time.Duration{lasting / 2, lasting - time.Second, lasting + time.Second} {
			o.run(t, dir, length)
			after, err := load(dir)
			if over := length > lasting; err != nil || over != (after.Probation == nil) || after.Current.Version != "1.5.0" {
				t.Errorf("after %v %+v is stored: %v", length, after, err)
			}
		}
	})
}

// TestTheWayBackIsTold: by one event, whatever happens to the agent later.
func TestTheWayBackIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, s := probation(t)
		s.Probation.Starts = mostStarts
		if err := save(dir, s); err != nil {
			t.Fatal(err)
		}
		Choose(dir, quiet())
		o := &office{}
		told := append(o.run(t, dir, time.Second), o.run(t, dir, time.Second)...)
		if len(told) != 1 || told[0].Kind != process.EventAgentKept || !strings.Contains(told[0].Cause.Text, "went back later") {
			t.Errorf("it has told %+v", told)
		}
		if after, err := load(dir); err != nil || after.Current == nil || after.Current.Version != "1.4.0" {
			t.Errorf("%+v is stored: %v", after, err)
		}
	})
}
