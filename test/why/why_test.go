package why_test

import (
	"crypto/md5"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"drover/internal/test/harness"
)

// Exit codes of `drover why`.
const (
	right  = 0
	wrong  = 3
	noSuch = 4
)

// injection brings one kind of trouble about.
type injection struct {
	cause  string
	code   int
	inject func(t *testing.T, s *harness.Server, name string) *subject
	// shows are parts of what the answer must say besides.
	shows []string
}

func TestWhy(t *testing.T) {
	s := harness.Start(t, binaries.drover)
	for _, group := range [][]injection{asked(), ends(), failures(), findings(), limits(), timetables()} {
		for _, i := range group {
			t.Run(i.cause, func(t *testing.T) {
				t.Parallel()
				o := i.inject(t, s, i.cause)
				o.shows(o.names(i.cause, i.code), i.shows...)
			})
		}
	}
	t.Run("flapping", func(t *testing.T) {
		t.Parallel()
		flapping(t, s)
	})
}

// flapping: up or down, the reason for its ends comes before the number of its relaunches.
func flapping(t *testing.T, s *harness.Server) {
	t.Helper()
	o := newSubject(t, s, "flapping", "plain")
	o.spec["start"] = o.daemon("plain")
	o.does("start", true)
	for n := range 4 {
		harness.Signal(t, o.pid(), syscall.SIGKILL)
		harness.Eventually(t, "it to be started again", func() bool {
			return harness.Starts(t, o.dir) == n+2 && slices.Contains([]string{"running", "flapping"}, o.state())
		})
	}
	o.shows(o.names("killed-by-signal", wrong), "[flapping]", "more than 3 times", "critical")
}

// asked are the states that somebody wanted.
func asked() []injection {
	return []injection{
		{"never-started", right, func(t *testing.T, s *harness.Server, name string) *subject {
			o := newSubject(t, s, name, "plain")
			o.does("register", true)
			return o
		}, []string{"registered"}},
		{"stopped-by-operation", right, func(t *testing.T, s *harness.Server, name string) *subject {
			o := newSubject(t, s, name, "plain")
			o.does("start", true)
			o.does("stop", false)
			return o
		}, []string{"stopped by tester", "as it should be"}},
		{"unhosted", right, func(t *testing.T, s *harness.Server, name string) *subject {
			o := newSubject(t, s, name, "plain")
			o.compat()["start_interval"] = 3600
			o.spec["start"] = "[ -e begun ] && exit 1; touch begun; " + o.daemon("plain")
			o.does("start", true)
			harness.Signal(t, o.pid(), syscall.SIGKILL)
			o.names("command-failed", wrong)
			o.does("unhost", false)
			return o
		}, []string{"by tester"}},
		{"finished", right, func(t *testing.T, s *harness.Server, name string) *subject {
			o := newSubject(t, s, name, "crash-at-usr1", "-code", "0")
			o.spec["once"] = true
			o.does("start", true)
			harness.Signal(t, o.pid(), syscall.SIGUSR1)
			return o
		}, nil},
		{"started-outside", right, func(t *testing.T, s *harness.Server, name string) *subject {
			o := newSubject(t, s, name, "plain")
			o.does("start", true)
			o.does("stop", false)
			run(t, o.dir, o.daemon("plain"))
			o.does("host", false)
			return o
		}, nil},
		{"not-in-force", right, func(t *testing.T, s *harness.Server, name string) *subject {
			o := newSubject(t, s, name, "plain")
			o.compat()["crontab_rule"] = "*/5 * * * *"
			o.does("start", true)
			return o
		}, []string{"crontab_rule is stored and not used"}},
		{"operation-under-way", right, func(t *testing.T, s *harness.Server, name string) *subject {
			o := newSubject(t, s, name, "plain")
			o.does("start", true)
			o.ask("restart", false)
			o.ask("stop", false)
			return o
		}, []string{"restart by tester", "stop by tester"}},
	}
}

// ends are those of the process by itself.
func ends() []injection {
	return []injection{
		{"exited", wrong, func(t *testing.T, s *harness.Server, name string) *subject {
			o := newSubject(t, s, name, "crash-at-usr1", "-code", "0")
			o.does("start", true)
			harness.Signal(t, o.pid(), syscall.SIGUSR1)
			return o
		}, []string{"exit status 0"}},
		{"exit-status", wrong, func(t *testing.T, s *harness.Server, name string) *subject {
			o := newSubject(t, s, name, "crash-at-usr1,hold-stdout", "-code", "3")
			o.does("start", true)
			harness.Signal(t, o.pid(), syscall.SIGUSR1)
			return o
		}, []string{"exit status 3", "still here"}},
		{"killed-by-signal", wrong, func(t *testing.T, s *harness.Server, name string) *subject {
			o := newSubject(t, s, name, "plain")
			o.does("start", true)
			harness.Signal(t, o.pid(), syscall.SIGKILL)
			return o
		}, []string{"SIGKILL"}},
		{"relaunched", right, func(t *testing.T, s *harness.Server, name string) *subject {
			o := newSubject(t, s, name, "plain")
			o.spec["start"] = o.daemon("plain")
			o.does("start", true)
			harness.Signal(t, o.pid(), syscall.SIGKILL)
			return o
		}, []string{"SIGKILL", "relaunched as pid"}},
		{"crashed", wrong, func(t *testing.T, s *harness.Server, name string) *subject {
			o := newSubject(t, s, name, "plain")
			o.spec["process_name"] = "sleep"
			o.spec["start"] = o.once("ulimit -c unlimited; sleep 1000 >/dev/null 2>&1 & echo $! >oddd.pid")
			o.does("start", true)
			harness.Signal(t, o.pid(), syscall.SIGSEGV)
			return o
		}, []string{"SIGSEGV", "core dumped"}},
		{"out-of-memory", wrong, func(t *testing.T, s *harness.Server, name string) *subject {
			o := newSubject(t, s, name, "hog-mem", "-delay", "3s", "-mb", "200")
			o.spec["limits"] = harness.Object{"memory": "64MiB"}
			o.does("start", true)
			return o
		}, []string{"out of memory"}},
		{"stop-failed", wrong, func(t *testing.T, s *harness.Server, name string) *subject {
			o := newSubject(t, s, name, "ignore-term")
			o.does("start", true)
			o.fails("stop")
			return o
		}, []string{"still alive"}},
	}
}

// failures are those of operations.
func failures() []injection {
	return []injection{
		{"no-start-command", wrong, func(t *testing.T, s *harness.Server, name string) *subject {
			o := newSubject(t, s, name, "plain")
			o.spec["start"] = ""
			o.failsToStart()
			return o
		}, []string{"start_cmd"}},
		{"command-not-found", wrong, commandFails("./missing"), []string{"./missing"}},
		{"command-not-executable", wrong, func(t *testing.T, s *harness.Server, name string) *subject {
			o := newSubject(t, s, name, "plain")
			o.script("script", "#!/bin/sh\n", 0o644)
			o.spec["start"] = "./script"
			o.failsToStart()
			return o
		}, []string{"126"}},
		{
			"command-failed", wrong, commandFails("echo the port is taken; exit 7"),
			[]string{"the port is taken", "exit status 7"},
		},
		{"command-timed-out", wrong, func(t *testing.T, s *harness.Server, name string) *subject {
			o := newSubject(t, s, name, "plain")
			o.spec["start"] = "sleep 1000"
			o.compat()["op_timeout"] = 1
			o.failsToStart()
			return o
		}, nil},
		{"no-such-directory", wrong, func(t *testing.T, s *harness.Server, name string) *subject {
			o := newSubject(t, s, name, "plain")
			o.spec["directory"] = o.dir + "/missing"
			o.failsToStart()
			return o
		}, []string{"/missing"}},
		{"no-such-user", wrong, func(t *testing.T, s *harness.Server, name string) *subject {
			o := newSubject(t, s, name, "plain")
			o.spec["user"] = "nobody-of-that-name"
			o.failsToStart()
			return o
		}, []string{"nobody-of-that-name"}},
		{"no-pid-file", wrong, commandFails("sleep 1000 >/dev/null 2>&1 &"), []string{"oddd.pid"}},
		{"odd-pid-file", wrong, commandFails("echo what >oddd.pid"), []string{"oddd.pid does not begin with a number"}},
		{"owned-by-another", wrong, func(t *testing.T, s *harness.Server, name string) *subject {
			first := newSubject(t, s, name+"-first", "plain")
			second := newSubject(t, s, name, "plain")
			second.dir, second.spec = first.dir, first.spec
			second.does("register", true)
			first.does("start", true)
			second.fails("host")
			return second
		}, []string{"owned-by-another-first"}},
		{"died-in-start-check", wrong, func(t *testing.T, s *harness.Server, name string) *subject {
			o := newSubject(t, s, name, "crash-after", "-delay", "200ms", "-code", "9")
			o.failsToStart()
			return o
		}, []string{"exit status 9"}},
		{"not-ready", wrong, func(t *testing.T, s *harness.Server, name string) *subject {
			o := newSubject(t, s, name, "plain")
			delete(o.spec, "compat")
			o.spec["ready"] = harness.Object{"tcp": harness.FreeAddress(t), "within": "1s"}
			o.failsToStart()
			return o
		}, []string{"not ready"}},
		{"operation-queued", wrong, func(t *testing.T, s *harness.Server, name string) *subject {
			o := newSubject(t, s, name, "plain")
			o.does("start", true)
			harness.Signal(t, o.pid(), syscall.SIGKILL)
			harness.Eventually(t, "the relaunch to hang", func() bool {
				_, err := os.Stat(o.dir + "/fifo")
				return err == nil
			})
			o.ask("reload", false)
			harness.Eventually(t, "the server to hear of the end and of the receipt", func() bool {
				said := o.why().Out
				return strings.Contains(said, "[killed-by-signal]") && strings.Contains(said, "has accepted the operation")
			})
			return o
		}, []string{"reload by tester", "the agent has accepted the operation", "[killed-by-signal]"}},
	}
}

// hog is a worker that takes more than 64 MiB, a little later.
const hog = "sleep 2; x=aaaaaaaaaaaaaaaa; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24; do x=$x$x; done"

// findings are what is wrong with a process that runs.
func findings() []injection {
	return []injection{
		{"unhealthy", wrong, func(t *testing.T, s *harness.Server, name string) *subject {
			o := newSubject(t, s, name, "plain")
			o.spec["health"] = harness.Object{
				"exec": "echo no answer from the database; exit 1", "every": "1s", "failures": 2,
			}
			o.does("start", true)
			return o
		}, []string{"no answer from the database"}},
		{"config-drift", wrong, func(t *testing.T, s *harness.Server, name string) *subject {
			o := newSubject(t, s, name, "plain")
			o.script("some.conf", "port = 1\n", 0o644)
			o.spec["config_files"] = []any{harness.Object{
				"path": o.dir + "/some.conf",
				"md5":  fmt.Sprintf("%x", md5.Sum([]byte("port = 2\n"))),
			}}
			o.does("start", true)
			return o
		}, []string{"some.conf"}},
		{"too-few-instances", wrong, func(t *testing.T, s *harness.Server, name string) *subject {
			o := newSubject(t, s, name, "plain")
			o.spec["expected_instances"] = 40
			o.does("start", true)
			return o
		}, []string{"of 40 instances"}},
		{"suspended", wrong, func(t *testing.T, s *harness.Server, name string) *subject {
			o := newSubject(t, s, name, "plain")
			o.does("start", true)
			harness.Signal(t, o.pid(), syscall.SIGSTOP)
			return o
		}, []string{"SIGSTOP"}},
		// Two causes at once, and a death that has nothing to do with the worker's.
		{"worker-out-of-memory", wrong, func(t *testing.T, s *harness.Server, name string) *subject {
			killed, o := newSubject(t, s, name+"-killed", "plain"), newSubject(t, s, name, "plain")
			for _, o := range []*subject{killed, o} {
				o.spec["start"] = o.once(o.daemon("plain") + "; (" + hog + ") >/dev/null 2>&1 &")
				o.spec["limits"] = harness.Object{"memory": "64MiB"}
				o.spec["expected_instances"] = 40
				o.does("start", true)
			}
			killed.names("worker-out-of-memory", wrong)
			harness.Signal(t, killed.pid(), syscall.SIGKILL)
			killed.shows(killed.names("killed-by-signal", wrong), "SIGKILL", "out of memory, the last at", "oom-killed")
			return o
		}, []string{"1 process of its run", "also, for", "of 40 instances", "[too-few-instances]"}},
	}
}

// limits are exceeded.
func limits() []injection {
	return []injection{
		{"cpu-limit", wrong, func(t *testing.T, s *harness.Server, name string) *subject {
			o := newSubject(t, s, name, "hog-cpu")
			o.spec["thresholds"] = harness.Object{"cpu": "2%"}
			o.does("start", true)
			return o
		}, []string{"may use 2 %"}},
		{"memory-limit", wrong, func(t *testing.T, s *harness.Server, name string) *subject {
			o := newSubject(t, s, name, "hog-mem", "-mb", "200")
			o.spec["thresholds"] = harness.Object{"memory": harness.MemoryPercent(t, 100)}
			o.does("start", true)
			return o
		}, []string{"of the host's memory"}},
		{"group-limit", wrong, func(t *testing.T, s *harness.Server, name string) *subject {
			o := newSubject(t, s, name, "hog-mem", "-mb", "200")
			o.Namespace = "pool"
			o.does("start", true)
			s.Call("set_process_group_info", harness.Object{
				"meta": harness.Object{"namespace": o.Namespace}, "agent_id_list": []string{harness.Agent},
				"spec": harness.Object{"process_group": []any{harness.Object{
					"id":       "one",
					"resource": harness.Object{"mem_pool_limit": harness.MemoryPercent(t, 100)},
				}}},
			})
			return o
		}, []string{`process group "one"`}},
	}
}

// timetables are those of periodic processes.
func timetables() []injection {
	return []injection{
		{"waits-for-schedule", right, func(t *testing.T, s *harness.Server, name string) *subject {
			o := periodic(t, s, name, "true")
			o.spec["schedule"] = harness.Object{"cron": "0 0 1 1 *"}
			o.does("host", true)
			return o
		}, []string{"next run"}},
		{"run-failed", wrong, func(t *testing.T, s *harness.Server, name string) *subject {
			o := periodic(t, s, name, "echo the disk is full; exit 5")
			o.spec["schedule"] = harness.Object{"every": "5s"}
			o.does("host", true)
			return o
		}, []string{"exit status 5", "the disk is full"}},
		{"run-skipped", wrong, func(t *testing.T, s *harness.Server, name string) *subject {
			o := periodic(t, s, name, "sleep 1000")
			o.spec["schedule"] = harness.Object{"every": "2s"}
			o.does("host", true)
			return o
		}, []string{"was skipped"}},
	}
}

// periodic returns one that runs the command every few seconds.
func periodic(t *testing.T, s *harness.Server, name, command string) *subject {
	t.Helper()
	o := newSubject(t, s, name, "plain")
	o.spec["process_name"] = "no-process-of-that-name"
	o.spec["start"] = command
	o.spec["schedule"] = harness.Object{"every": "1s"}
	return o
}

// commandFails returns an injection of a start command that does not bring the process up.
func commandFails(command string) func(t *testing.T, s *harness.Server, name string) *subject {
	return func(t *testing.T, s *harness.Server, name string) *subject {
		t.Helper()
		o := newSubject(t, s, name, "plain")
		o.spec["start"] = command
		o.failsToStart()
		return o
	}
}
