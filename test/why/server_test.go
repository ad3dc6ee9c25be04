package why_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"drover/internal/test/harness"
)

// TestNothingIsWrong: of processes that are as somebody wanted them nothing is told without a name, whatever is being
// done to them.
func TestNothingIsWrong(t *testing.T) {
	s := harness.Start(t, binaries.drover)
	silent := func(when string) {
		t.Helper()
		if a := why(t, s); a.Code != right || a.Out != "" || !strings.HasPrefix(a.Errors, "nothing is wrong") &&
			!strings.HasPrefix(a.Errors, "there are no") {
			t.Errorf("%s: exit code %d, %s%s", when, a.Code, a.Out, a.Errors)
		}
	}
	silent("without processes")
	for _, o := range []*subject{
		newSubject(t, s, "registered", "plain"), newSubject(t, s, "stopped", "plain"),
		newSubject(t, s, "unhosted", "plain"),
	} {
		o.does("register", true)
		silent("registered")
	}
	timed := periodic(t, s, "timed", "true")
	timed.does("host", true)
	stopped := named(t, s, "stopped")
	stopped.does("start", false)
	silent("started")
	stopped.does("stop", false)
	busy := newSubject(t, s, "busy", "plain")
	busy.spec["start"] = busy.daemon("plain")
	for range 3 {
		operation := busy.ask("restart", true)
		silent("restarting")
		busy.outcome(operation)
		silent("restarted")
	}
	if a := busy.why(); a.Code != right || a.Out != "" || a.Errors != "why/busy: nothing is wrong (1 process)\n" {
		t.Errorf("by name: exit code %d, %s%s", a.Code, a.Out, a.Errors)
	}
	busy.does("unhost", false)
	harness.Signal(t, busy.pid(), syscall.SIGKILL)
	harness.Eventually(t, "its end to be seen", func() bool { return busy.state() == "stopped" })
	silent("ended, and nobody minds")
	timed.does("unhost", false) // a slow restart would miss a run, and say so
	if err := s.Terminate(); err != nil {
		t.Fatal(err)
	}
	s.Run()
	silent("after a restart of drover")
}

// TestUnknown: what is asked for by name and is not there.
func TestUnknown(t *testing.T) {
	s := harness.Start(t, binaries.drover)
	o := named(t, s, "nginx")
	if a := o.why(); a.Code != noSuch || a.Out != "" || !strings.Contains(a.Errors, "no process matches why/nginx") {
		t.Errorf("no host named: exit code %d, %s%s", a.Code, a.Out, a.Errors)
	}
	o.names("process-unknown", noSuch, "--hosts", harness.Agent)
	if a := o.why("--hosts", "7:10.0.0.7"); a.Code != noSuch || !strings.HasSuffix(a.first(), "[agent-unknown]") {
		t.Errorf("an unknown host: exit code %d, %s", a.Code, a.Out)
	}
	if err := s.Terminate(); err != nil {
		t.Fatal(err)
	}
	if a := o.why(); a.Code != 6 {
		t.Errorf("without a server: exit code %d", a.Code)
	}
}

// TestAway: when the agent of a host is gone, all that it said is out of date.
func TestAway(t *testing.T) {
	s := harness.Start(t, binaries.drover)
	o := newSubject(t, s, "lost", "plain")
	o.does("start", true)
	idle := newSubject(t, s, "idle", "plain")
	idle.does("register", true)
	if err := s.Terminate(); err != nil {
		t.Fatal(err)
	}
	// Another agent begins in the place of this one, at an address of its own.
	if err := os.RemoveAll(filepath.Join(s.DataDir, "agent")); err != nil {
		t.Fatal(err)
	}
	s.Run("--agent-ip", "127.0.0.2")
	a := o.names("agent-away", wrong)
	o.shows(a, "the process was running", "critical")
	idle.names("agent-away", right)
	if a := why(t, s); a.Code != wrong || !strings.HasPrefix(a.first(), "why/lost on ") ||
		strings.Contains(a.Out, "idle") {
		t.Errorf("without a name: exit code %d\n%s", a.Code, a.Out)
	}
}

// TestEndedMeanwhile: while drover was not running a process has ended, or the host was restarted.
func TestEndedMeanwhile(t *testing.T) {
	for cause, meanwhile := range map[string]func(t *testing.T, s *harness.Server){
		"ended-unseen": func(*testing.T, *harness.Server) {},
		// What is known of running processes is kept for one boot only: without it the agent is as after a reboot.
		"host-rebooted": func(t *testing.T, s *harness.Server) {
			found, err := filepath.Glob(filepath.Join(s.DataDir, "agent", "runtime*"))
			if err != nil || len(found) == 0 {
				t.Fatalf("no file of running processes: %v", err)
			}
			for _, path := range found {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		t.Run(cause, func(t *testing.T) {
			t.Parallel()
			s := harness.Start(t, binaries.drover)
			o := newSubject(t, s, cause, "plain")
			o.does("start", true)
			pid := o.pid()
			if err := s.Terminate(); err != nil {
				t.Fatal(err)
			}
			harness.Signal(t, pid, syscall.SIGKILL)
			harness.Eventually(t, "it to be gone", func() bool { return !harness.Alive(pid) })
			meanwhile(t, s)
			s.Run()
			o.names(cause, wrong)
		})
	}
}

// TestNeedsRoot: an agent of an ordinary user runs nothing as somebody else.
func TestNeedsRoot(t *testing.T) {
	nobody := filepath.Join(harness.Workdir(t), "drover")
	script := fmt.Sprintf(
		"#!/bin/sh\nchown -R 65534:65534 \"$(dirname \"$3\")\"\nexec setpriv --reuid 65534 --regid 65534 --clear-groups %s \"$@\"\n", binaries.drover)
	if err := harness.WriteProgram(nobody, []byte(script)); err != nil {
		t.Fatal(err)
	}
	s := harness.Start(t, nobody)
	o := newSubject(t, s, "roots", "plain")
	o.failsToStart()
	o.shows(o.names("needs-root", wrong), "root")
}

// TestFolding: what is the same is told once.
func TestFolding(t *testing.T) {
	s := harness.Start(t, binaries.drover)
	for _, name := range []string{"a", "b"} {
		commandFails("exit 1")(t, s, name)
	}
	a := why(t, s)
	if a.Code != wrong || strings.Count(a.Out, "[command-failed]") != 2 || strings.Contains(a.Out, "What to do") {
		t.Errorf("exit code %d\n%s", a.Code, a.Out)
	}
	if want := "2 of 2 processes are not as they should be: 2 command-failed\n"; a.Errors != want {
		t.Errorf("said %q, want %q", a.Errors, want)
	}
	if a := why(t, s, "--cause", "exited"); a.Code != right || a.Out != "" ||
		a.Errors != "no finding has one of these causes (2 processes)\n" {
		t.Errorf("another cause: exit code %d\n%s%s", a.Code, a.Out, a.Errors)
	}
}

// TestGivenUp: what is given up is named by what it was given up for, also by the next drover, until it is tried again.
func TestGivenUp(t *testing.T) {
	s := harness.Start(t, binaries.drover)
	o := newSubject(t, s, "lost", "plain")
	o.compat()["start_retries"] = 1
	o.spec["start"] = "if [ -e begun ]; then echo no licence; exit 4; fi; touch begun; " + o.daemon("plain")
	o.does("start", true)
	harness.Signal(t, o.pid(), syscall.SIGKILL)
	harness.Eventually(t, "it to be given up", func() bool { return o.state() == "given-up" })
	// The states of a report are read after its events, so a state may be told a little earlier than the event that
	// belongs to it.
	harness.Eventually(t, "the event of it", func() bool { return strings.Contains(o.why().Out, "given-up") })
	o.shows(o.names("command-failed", wrong), "given up after 1 start that", "critical", "no licence", "given-up")
	if err := s.Terminate(); err != nil {
		t.Fatal(err)
	}
	s.Run()
	o.shows(o.names("command-failed", wrong), "critical", "no licence")
	if err := os.Remove(filepath.Join(o.dir, "begun")); err != nil {
		t.Fatal(err)
	}
	o.does("retry", false)
	harness.Eventually(t, "it to run again", func() bool { return o.state() == "running" })
	if a := o.why(); a.Code != right || a.Out != "" {
		t.Errorf("after another try: exit code %d\n%s", a.Code, a.Out)
	}
}
