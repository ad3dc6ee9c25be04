package supervisor_test

import (
	"fmt"
	"testing"
	"time"

	"drover/internal/agent/instance"
	"drover/internal/agent/operation"
	"drover/internal/agent/operation/operationtest"
	"drover/internal/process"
)

// shared returns the spec of a process under the key b that is the same as a.
func shared(r *rig) *process.Spec {
	s := r.spec("a")
	r.Script("stop b", operationtest.Script{Takes: time.Second, End: func(string) { r.Kill(file("a")) }})
	s.Stop = "stop b"
	return s
}

// TestSharedPIDFile: one process under two keys is seen by both, hosted under one of them, and may be stopped through
// either.
func TestSharedPIDFile(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.do(process.Start, "a", r.spec("a"))
		b := shared(r)
		item := r.submit(process.Start, "b", b)
		r.pass(0)
		r.expect(item, process.AlreadyRunning, "no need to start the process(a) that is already running, pid 101")
		item = r.submit(process.Host, "b", b)
		r.pass(0)
		r.expect(item, process.Failed, "cannot host the process: it is hosted as ns/a")
		item = r.submit(process.Restart, "b", b)
		r.pass(0)
		r.expect(item, process.Failed, "cannot host the process: it is hosted as ns/a")

		r.do(process.Stop, "b", b)
		r.pass(time.Hour)
		r.ran("start a", "stop b")
		if s := r.state("a", "stopped", false); s.Want != process.WantStopped {
			t.Errorf("a is wanted %q", s.Want)
		}
		r.state("b", "stopped", false)

		// Now that nobody hosts it, b may.
		r.do(process.Start, "b", b)
		r.state("b", "running", true)
	})
}

// TestFailedStopOfASharedProcess leaves it hosted if it lives: the key that hosts it takes up the watch again.
func TestFailedStopOfASharedProcess(t *testing.T) {
	for _, dies := range []bool{false, true} {
		bubble(t, func(t *testing.T, r *rig) {
			r.do(process.Start, "a", r.spec("a"))
			b := shared(r)
			r.Script("stop b", operationtest.Script{Takes: time.Second, Code: 1, Begin: func(string) {
				if dies {
					r.Kill(file("a"))
				}
			}})
			item := r.submit(process.Stop, "b", b)
			r.pass(500 * time.Millisecond)
			r.state("a", "operating", true)
			late := r.submit(process.Reload, "a", r.spec("a"))
			r.pass(0)
			r.ran("start a", "stop b")
			r.pass(30 * time.Second)
			r.expect(item, process.Failed, "Script exit code non-zero. Error msessage: [] (stop_cmd: exit status 1)")
			if _, ok := r.sink.outcome(late); !ok {
				t.Error("the operation that waited for its turn never came")
			}
			if dies { // by the stop, which need not succeed for that
				r.state("a", "stopped", false)
				return
			}
			r.state("a", "running", true)
			r.pass(2 * time.Minute)
			r.Kill(file("a"))
			r.pass(15 * time.Second)
			r.state("a", "running", true)
		})
	}
}

// TestLateEndOfASharedProcess: what a stop under another name ends after it was answered as failed stays down.
func TestLateEndOfASharedProcess(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.do(process.Start, "a", r.spec("a"))
		b := shared(r)
		r.Script("stop b", operationtest.Script{Code: 1})
		r.submit(process.Stop, "b", b)
		r.pass(10 * time.Second)
		r.state("a", "running", true)
		r.Kill(file("a"))
		r.pass(15 * time.Second)
		r.state("a", "stopped", false)
	})
}

// TestHoldEndsWithTheAgent: an agent that is told to stop does not wait for another process's turn.
func TestHoldEndsWithTheAgent(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.do(process.Start, "a", r.spec("a"))
		b := shared(r)
		a := r.spec("a")
		r.Script("reload a", operationtest.Script{Takes: 3 * time.Second})
		r.submit(process.Reload, "a", a)
		item := r.submit(process.Stop, "b", b)
		r.pass(time.Second)
		r.stop()
		r.Crash()
		r.begin()
		r.pass(time.Hour)
		r.expect(item, process.None, "success: it was also hosted as ns/a, and no longer is")
		r.state("a", "stopped", false)
	})
}

// TestHoldIsBounded: a stop does not wait for ever for the other key of its process, least of all for one that waits
// for it.
func TestHoldIsBounded(t *testing.T) {
	const busy = "the process is also hosted as %s, which is busy with another operation: nothing was done"
	bubble(t, func(t *testing.T, r *rig) {
		r.do(process.Start, "a", r.spec("a"))
		b := shared(r)
		a := r.spec("a")
		r.Script("reload a", operationtest.Script{Takes: 30 * time.Second})
		r.submit(process.Reload, "a", a)
		r.pass(0)
		item := r.submit(process.Stop, "b", b)
		r.pass(10 * time.Second)
		r.expect(item, process.Failed, fmt.Sprintf(busy, "ns/a"))
		r.pass(time.Minute)
		r.state("a", "running", true)
		r.Kill(file("a"))
		r.pass(2 * time.Second)
		r.state("a", "running", true)
	})
	bubble(t, func(t *testing.T, r *rig) {
		a := r.spec("a")
		r.do(process.Start, "a", a)
		b := shared(r)
		rec, _ := r.disk.record(id("a"))
		rec.ID, rec.Spec = id("b"), *b
		r.kill()
		if err := (&handle{disk: r.disk}).PutRecord(rec); err != nil {
			t.Fatal(err)
		}
		r.begin()
		first, second := r.submit(process.Stop, "a", a), r.submit(process.Stop, "b", b)
		r.pass(time.Minute)
		for _, item := range []string{first, second} {
			if _, ok := r.sink.outcome(item); !ok {
				t.Errorf("%s never ends", item)
			}
		}
	})
}

// TestOwnersOfOneInstance: of two keys of one process each sees the other, and what is left when one is forgotten.
func TestOwnersOfOneInstance(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.do(process.Start, "a", r.spec("a"))
		b := shared(r)
		r.do(process.Register, "b", b)
		who := r.instance("a")
		for self, want := range map[string]string{"a": "b", "b": "a"} {
			if owner, by, ok := r.Owner(id(self), who); owner != id(want) || by != file("a") || !ok {
				t.Errorf("beside %s: owner %v by %q, %v", self, owner, by, ok)
			}
		}
		r.do(process.Unregister, "b", nil)
		if owner, _, ok := r.Owner(id("a"), who); ok {
			t.Errorf("beside a: owner %v, which was forgotten", owner)
		}
		if owner, _, ok := r.Owner(id("c"), who); owner != id("a") || !ok {
			t.Errorf("beside c: owner %v, %v", owner, ok)
		}
	})
}

// TestOwner: which key has an instance, and which one hosts what a pid file names.
func TestOwner(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		r.do(process.Start, "a", s)
		who := r.instance("a")
		owner, by, ok := r.Owner(id("b"), who)
		if owner != id("a") || by != file("a") || !ok {
			t.Errorf("owner %v by %q, %v", owner, by, ok)
		}
		if _, _, ok := r.Owner(id("a"), who); ok {
			t.Error("a process is not its own peer")
		}
		if _, _, ok := r.Owner(id("b"), instance.Identity{PID: 4711}); ok {
			t.Error("a stranger has an owner")
		}
		another := *s
		another.PIDFile = "/run/other"
		for _, c := range []struct {
			name string
			self process.ID
			spec *process.Spec
			file string
			want bool
		}{
			{"the same spec", id("b"), s, "", true},
			{"the same file, another path", id("b"), &another, file("a"), true},
			{"another file", id("b"), &another, "/run/other", false},
			{"itself", id("a"), s, file("a"), false},
		} {
			if host, ok := r.Hosting(c.self, c.spec, c.file); ok != c.want || ok && host != id("a") {
				t.Errorf("%s: hosted by %v, %v", c.name, host, ok)
			}
		}
		if prefix := operation.RunPrefix(id("a")); !r.Knows(prefix) || r.Knows(operation.RunPrefix(id("b"))) {
			t.Error("the supervisor knows the runs of others than its processes")
		}
		r.do(process.Restart, "a", s)
		if owner, _, ok := r.Owner(id("b"), who); ok {
			t.Errorf("%v still owns what it was before its restart", owner)
		}
		who = r.instance("a")
		if owner, _, ok := r.Owner(id("b"), who); owner != id("a") || !ok {
			t.Errorf("owner %v, %v after a restart", owner, ok)
		}
		if _, ok := r.Hosting(id("b"), &process.Spec{}, ""); ok {
			t.Error("what has no pid file is hosted by one that has")
		}
		r.do(process.Unhost, "a", nil)
		if host, ok := r.Hosting(id("b"), s, file("a")); ok {
			t.Errorf("hosted by %v although it is not hosted", host)
		}
		r.do(process.Unregister, "a", nil)
		if owner, _, ok := r.Owner(id("b"), who); ok {
			t.Errorf("owned by %v although that was forgotten", owner)
		}
		if r.pass(time.Second); r.Knows(operation.RunPrefix(id("a"))) {
			t.Error("the supervisor knows the runs of a process that was forgotten")
		}
	})
}
