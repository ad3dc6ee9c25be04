package operation_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "drover/api/v1"
	"drover/internal/agent/instance"
	"drover/internal/agent/operation"
	"drover/internal/agent/operation/operationtest"
	"drover/internal/agent/record"
	"drover/internal/agent/specstore"
	"drover/internal/process"
)

const (
	pidFile = "/run/nginx.pid"
	item    = "item-1"
)

func nginx() process.ID { return process.ID{Namespace: "ns", Name: "nginx"} }

// spec is a daemon with a command for everything; its policy is the default one.
func spec() *process.Spec {
	return &process.Spec{
		ProcessName: "nginx", Directory: "/opt/nginx", PIDFile: pidFile, User: "www",
		Start: "start", Stop: "stop", Reload: &v1.Reload{Command: "reload"},
		Compat: &v1.Compat{RestartCommand: "restart", KillCommand: "kill"},
	}
}

// stored is the spec that the agent has of the process before an operation; it differs from the one that is sent.
func stored() process.Spec {
	s := *spec()
	s.Compat.Contact = "stored"
	return s
}

// world is a made-up host whose commands do what they are called for, each in one second.
type world struct {
	*operationtest.World
	peers    *peers
	operator *operation.Operator
}

// bubble runs fn with a new world in a synctest bubble.
func bubble(t *testing.T, fn func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{World: operationtest.New(t), peers: &peers{}}
		w.operator = w.Operator(w.peers)
		start := func(run string) { w.Spawn("nginx", pidFile, run) }
		w.Script("start", operationtest.Script{Takes: time.Second, End: start})
		w.Script("stop", operationtest.Script{Takes: time.Second, End: func(string) { w.Kill(pidFile) }})
		w.Script("kill", operationtest.Script{Takes: time.Second, End: func(string) { w.Kill(pidFile) }})
		w.Script("reload", operationtest.Script{Takes: time.Second})
		w.Script("restart", operationtest.Script{Takes: time.Second, End: func(run string) {
			w.Kill(pidFile)
			start(run)
		}})
		fn(t, w)
	})
}

// knowledge is what the agent knows of the process beforehand.
type knowledge int

const (
	unknown    knowledge = iota
	registered           // a record without the hosting flag
	hosted
)

func (k knowledge) subject() operation.Subject {
	if k == unknown {
		return operation.Subject{}
	}
	want := process.WantStopped
	if k == hosted {
		want = process.WantRunning
	}
	return operation.Subject{Record: &record.Record{
		ID: nginx(), Spec: stored(), Hosted: k == hosted, Want: want, GivenUp: k == hosted, RegisteredAt: 1,
		Revision: 7,
	}}
}

// scenario is one operation under given conditions, and all that has to come of it.
type scenario struct {
	name string
	op   process.Op
	// running says that the process runs beforehand, and that the agent has seen it if it knows the process at all.
	running bool
	known   knowledge
	set     func(w *world, s *process.Spec)

	fault process.Fault
	text  string
	took  time.Duration
	// ran are the commands that have run, in order.
	ran []string
	// alive is whether the process runs afterwards, hosted whether its flag is set then; unhosts says that it is taken
	// away although the operation has failed.
	alive, hosted, unhosts bool
}

func (c scenario) run(t *testing.T) {
	t.Helper()
	t.Run(c.name, func(t *testing.T) {
		bubble(t, func(t *testing.T, w *world) {
			subject := c.known.subject()
			if c.running {
				id := w.Spawn("nginx", pidFile, "earlier")
				if c.known != unknown {
					subject.Runtime = record.Runtime{
						Process: &id, PIDFile: pidFile, Run: "earlier",
						LastStartAt: time.Now().Unix(),
					}
				}
			}
			sent := spec()
			if c.set != nil {
				c.set(w, sent)
			}
			before := *sent
			began := time.Now()
			r, err := w.operator.Operate(t.Context(), entry(c.op, sent), subject)
			if err != nil {
				t.Fatal(err)
			}
			c.check(t, w, r, time.Since(began))
			checkChange(t, c, subject, r, sent)
			if diff := cmp.Diff(&before, sent); diff != "" {
				t.Errorf("the spec that was sent has been altered: %s", diff)
			}
		})
	})
}

func entry(op process.Op, s *process.Spec) record.Entry {
	return record.Entry{Item: item, Process: nginx(), Op: op, Spec: s}
}

func (c scenario) check(t *testing.T, w *world, r operation.Result, took time.Duration) {
	t.Helper()
	if r.Outcome.Fault != c.fault || r.Outcome.Text != c.text {
		t.Errorf("outcome %q %q,\nwant    %q %q", r.Outcome.Fault, r.Outcome.Text, c.fault, c.text)
	}
	if r.Outcome.Hosted != c.hosted {
		t.Errorf("hosted is %v, want %v", r.Outcome.Hosted, c.hosted)
	}
	if took != c.took {
		t.Errorf("it took %v, want %v", took, c.took)
	}
	if diff := cmp.Diff(c.ran, w.Lines()); diff != "" {
		t.Errorf("commands (-want +got): %s", diff)
	}
	id, alive := w.Alive(pidFile)
	if alive != c.alive {
		t.Errorf("alive is %v, want %v", alive, c.alive)
	}
	if seen := r.Runtime.Process; seen != nil && *seen != id {
		t.Errorf("the runtime names %v, but %v runs", *seen, id)
	}
	for _, id := range []instance.Identity{id} {
		if n := w.Watched(id); n != 0 {
			t.Errorf("%d watches on %v are left", n, id)
		}
	}
}

// checkChange holds for every operation: a failure stores nothing and restores nothing, a success stores the flag that
// it answers with.
func checkChange(t *testing.T, c scenario, subject operation.Subject, r operation.Result, sent *process.Spec) {
	t.Helper()
	if c.fault != process.None && c.unhosts {
		if rec := r.Change.Put; rec == nil || rec.Hosted || rec.Want != process.WantStopped || r.Outcome.Hosted ||
			r.Restore {
			t.Errorf("the process is not out of hosting: %+v, %+v", rec, r)
		}
		return
	}
	if c.fault != process.None {
		if r.Change != (specstore.Change{}) || r.Restore {
			t.Errorf("a failed operation changes %+v, restores %v", r.Change, r.Restore)
		}
		if r.Outcome.Hosted != subject.Hosted() {
			t.Errorf("a failed operation has changed the flag to %v", r.Outcome.Hosted)
		}
		return
	}
	brings := c.op == process.Start || c.op == process.Restart || c.op == process.Host
	if r.Restore != brings {
		t.Errorf("restore is %v, want %v", r.Restore, brings)
	}
	rec := r.Change.Put
	if rec == nil {
		return
	}
	if seen := r.Runtime.Process != nil; seen != c.alive {
		t.Errorf("the process is seen %v, and alive %v", seen, c.alive)
	}
	want := record.Record{ID: nginx(), Spec: *sent, Hosted: c.hosted}
	if old := subject.Record; old != nil {
		want.Revision, want.RegisteredAt, want.Want, want.GivenUp = old.Revision, old.RegisteredAt, old.Want,
			old.GivenUp
		if c.op == process.Stop || c.op == process.Kill || c.op == process.Unhost {
			want.Spec = old.Spec
		}
	}
	switch c.op {
	case process.Start, process.Restart, process.Host:
		want.Want, want.GivenUp = process.WantRunning, false
	case process.Stop, process.Kill:
		want.Want, want.GivenUp = process.WantStopped, false
	case process.Unhost:
		want.Want, want.GivenUp = process.WantNothing, false
	case process.Register, process.Update:
		if subject.Record == nil {
			want.Want = process.WantStopped
		}
	case process.Query, process.Reload, process.Signal, process.Unregister, process.Retry, process.SetGroups,
		process.Upgrade, process.Preflight:
	}
	if diff := cmp.Diff(&want, rec); diff != "" {
		t.Errorf("record (-want +got): %s", diff)
	}
}

// after lets virtual time pass before it does something.
func after(d time.Duration, do func()) { time.AfterFunc(d, do) }

// peers are the other processes of the agent.
type peers struct {
	owner     process.ID
	ownerFile string
	// known is the prefix of the runs of another process.
	known     string
	claimed   []instance.Identity
	hosting   process.ID
	held      []process.ID
	unhosted  []bool
	holdError error
}

func other() process.ID { return process.ID{Namespace: "other", Name: "nginx"} }

func (p *peers) Owner(process.ID, instance.Identity) (process.ID, string, bool) {
	return p.owner, p.ownerFile, p.owner != process.ID{}
}

func (p *peers) Knows(prefix string) bool { return prefix == p.known }

func (p *peers) Claimed(_ process.ID, among []instance.Identity) []instance.Identity {
	if p.owner != (process.ID{}) {
		return among
	}
	return slices.DeleteFunc(slices.Clone(among), func(id instance.Identity) bool {
		return !slices.Contains(p.claimed, id)
	})
}

func (p *peers) Hosting(process.ID, *process.Spec, string) (process.ID, bool) {
	return p.hosting, p.hosting != process.ID{}
}

func (p *peers) Hold(_ context.Context, id process.ID) (func(operation.PeerEffect), error) {
	if p.holdError != nil {
		return nil, p.holdError
	}
	p.held = append(p.held, id)
	return func(f operation.PeerEffect) { p.unhosted = append(p.unhosted, f == operation.Down) }, nil
}
