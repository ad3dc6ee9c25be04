package host_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "drover/api/v1"
	"drover/internal/agent/host"
	"drover/internal/process"
	"drover/internal/test/harness"
)

// TestVariablesOfNotifications: a process that is to notify drover gets the socket and the time of its watchdog; any
// other gets neither.
func TestVariablesOfNotifications(t *testing.T) {
	h := open(t, t.TempDir(), func(c *host.Config) { c.Notify = "/run/drover-notify/of-a-test" })
	const line = `echo "${NOTIFY_SOCKET-none} ${WATCHDOG_USEC-none}"`
	for i, c := range []struct {
		set  func(*process.Spec)
		want string
	}{
		{func(*process.Spec) {}, "none none"},
		{func(s *process.Spec) { s.Ready = &v1.Ready{NotifyFD: new(3)} }, "none none"},
		{
			func(s *process.Spec) { s.Ready = &v1.Ready{Notify: true} },
			"/run/drover-notify/of-a-test none",
		},
		{func(s *process.Spec) { s.Health = &v1.Health{Watchdog: true} }, "/run/drover-notify/of-a-test 60000000"},
		{
			func(s *process.Spec) {
				s.Health = &v1.Health{Watchdog: true, Every: new(v1.Duration(2 * time.Second))}
				s.Environment = map[string]string{"NOTIFY_SOCKET": "/elsewhere"}
			},
			"/run/drover-notify/of-a-test 2000000",
		},
	} {
		s, id := spec("/", "sh", ""), "run-"+string(rune('a'+i))
		c.set(s)
		child, err := h.Launch(process.ID{}, id, line, s)
		if err != nil {
			t.Fatal(err)
		}
		release(t, child)
		if got := h.Output(id); got != c.want {
			t.Errorf("%d: it has %q, want %q", i, got, c.want)
		}
	}
}

// TestReadyFile: a newline at the descriptor says that the process is ready, also to the next agent. The file is small
// whatever is written to it, and goes with the run.
func TestReadyFile(t *testing.T) {
	files := t.TempDir()
	h := open(t, t.TempDir(), func(c *host.Config) { c.Signals = files })
	s := spec("/", "sh", "")
	s.Ready = &v1.Ready{NotifyFD: new(4)}
	for id, c := range map[string]struct {
		line  string
		ready bool
	}{
		"silent": {"true", false},
		"half":   {"printf x >&4", false},
		"ready":  {"echo >&4; exec 4>&-", true},
		"much":   {"echo >&4; head -c 1000000 /dev/zero >&4", true},
	} {
		child, err := h.Launch(process.ID{}, id, c.line, s)
		if err != nil {
			t.Fatal(err)
		}
		if said, _ := h.State(id); said.Ready {
			t.Errorf("%s is ready at its gate", id)
		}
		release(t, child)
		for range 2 {
			if said, _ := h.State(id); said.Ready != c.ready {
				t.Errorf("%s is ready: %v", id, said.Ready)
			}
			h.Output(id)
			h.Sweep(func() map[string]bool { return map[string]bool{id: true} })
			info, err := os.Stat(filepath.Join(files, id))
			if err != nil {
				t.Fatal(err)
			}
			if info.Size() > 64<<10 {
				t.Errorf("the file of %s has %d bytes", id, info.Size())
			}
		}
		// A child that another test forks has the file open until it executes its program, and keeps its name.
		harness.Eventually(t, "the file of "+id+" to be removed", func() bool {
			h.Sweep(nothing)
			_, err := os.Stat(filepath.Join(files, id))
			return err != nil
		})
	}
}

// TestNoSocket: a host without the socket says so to the processes that need it, and starts all others.
func TestNoSocket(t *testing.T) {
	h := open(t, t.TempDir(), func(c *host.Config) { c.Notify = "/" + strings.Repeat("x", 200) })
	s := spec("/", "sh", "")
	run(t, h, "run-1", "true")
	s.Ready = &v1.Ready{Notify: true}
	if _, err := h.Launch(process.ID{}, "run-2", "true", s); err == nil ||
		!strings.Contains(err.Error(), "this host has no socket for notifications: cannot listen for notifications: ") {
		t.Errorf("%v", err)
	}
	if err := h.Preflight(process.ID{}, s, nil, false); err == nil ||
		!strings.Contains(err.Error(), "this host has no socket for notifications") {
		t.Errorf("preflight says %v", err)
	}
	if lacks := h.Lacks(); len(lacks) != 1 || !strings.HasPrefix(lacks[0], "processes cannot notify drover: cannot listen") {
		t.Errorf("the host lacks %q", lacks)
	}
	h.Settle()
	if said, changed := h.State("run-2"); said.Ready || changed != nil || h.Ignored() != 0 {
		t.Errorf("%+v", said)
	}
}

// sayVariable makes the test binary a process that sends its value to NOTIFY_SOCKET and then waits for its end.
const sayVariable = "DROVER_TEST_SAY"

func say(text string) {
	conn, err := net.Dial("unixgram", os.Getenv("NOTIFY_SOCKET"))
	if err == nil {
		_, err = conn.Write([]byte(text))
	}
	if err != nil {
		panic(err)
	}
	<-time.After(time.Hour) // without a timer the runtime takes the wait for a deadlock, and ends the process
}

// TestSenders: a process is known as one of its run with control groups and without them.
func TestSenders(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, without := range map[string]bool{"with groups": false, "without groups": true} {
		t.Run(name, func(t *testing.T) {
			h := open(t, t.TempDir())
			if without {
				ungroup(t, h)
			}
			s := spec("/", "sh", "")
			s.Ready = &v1.Ready{Notify: true}
			s.Environment = map[string]string{sayVariable: "STATUS=here\nREADY=1"}
			child, err := h.Launch(process.ID{}, "run-1", "exec "+self, s)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = h.Signal(child.Identity(), 9) })
			if err := child.Release(); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if run, ok := h.AwaitNotice(ctx); !ok || run != "run-1" {
				t.Fatalf("heard of %q, %d ignored", run, h.Ignored())
			}
			if said, _ := h.State("run-1"); !said.Ready || said.Status != "here" {
				t.Errorf("%+v", said)
			}
		})
	}
}
