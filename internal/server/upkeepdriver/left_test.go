package upkeepdriver_test

import (
	"fmt"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/rollout"
	"drover/internal/server/store"
)

// prune is a step of an apply that removes web from hosts.
func (r *rig) prune(task string, op process.Op, hosts ...string) {
	r.t.Helper()
	request := store.Request{Op: op, Process: web, Removes: true}
	for _, host := range hosts {
		request.Targets = append(request.Targets, store.Target{ItemKey: host, Spelling: host, Agent: "key-" + host})
	}
	_, err := r.CreateTask(r.t.Context(), &store.Task{
		ID: task, App: "shop", User: "anna", Through: "apply", Created: r.now, Ordered: true,
		Requests: []store.Request{request},
	}, store.AuditRow{}, r.now, 0)
	r.must(err)
	r.agents()
}

// give is a registration of web by a file, on hosts without labels.
func (r *rig) give(hosts ...string) {
	r.t.Helper()
	request := store.Request{Op: process.Start, Process: web, Spec: spec("one", "")}
	for _, host := range hosts {
		r.label(host, "")
		request.Targets = append(request.Targets, store.Target{ItemKey: host, Spelling: host, Agent: "key-" + host})
	}
	r.applies++
	_, err := r.CreateTask(r.t.Context(), &store.Task{
		ID: fmt.Sprint("give-", r.applies), App: "shop", User: "anna", Through: "apply", Created: r.now,
		Requests: []store.Request{request},
	}, store.AuditRow{}, r.now, 0)
	r.must(err)
	r.agents()
	r.carried = nil
}

// TestMissedRemoval: a host that was away while a file removed its process gives the process up when it returns. A host
// on which somebody has registered the process since keeps it.
func TestMissedRemoval(t *testing.T) {
	r := newRig(t)
	r.give("a", "b", "c")
	r.away["key-b"], r.away["key-c"] = true, true
	r.prune("prune", process.Stop, "a", "b", "c")
	r.prune("prune-2", process.Unregister, "a")
	r.carried = nil
	r.rounds("while they are away")
	_, err := r.CreateTask(t.Context(), &store.Task{
		ID: "hand", App: "shop", User: "ben", Through: "operation", Created: r.now, Requests: []store.Request{{
			Op: process.Register, Process: web, Spec: spec("hand", ""),
			Targets: []store.Target{{ItemKey: "c", Spelling: "c", Agent: "key-c"}},
		}},
	}, store.AuditRow{}, r.now, 0)
	r.must(err)
	r.agents()
	r.away["key-b"], r.away["key-c"] = false, false
	r.rounds("they return", "stop b 0", "unregister b 0")
	r.rounds("then")
}

// TestRejectedRemoval: the servers do not repeat a removal that a host has rejected, also after its task is gone.
func TestRejectedRemoval(t *testing.T) {
	r := newRig(t)
	r.give("a")
	r.prune("prune", process.Stop, "a") // the stop has reached the host, and nobody has ordered the removal
	r.carried = nil
	r.rounds("answered")
	if _, err := r.PruneTasks(t.Context(), r.now.Add(time.Hour), 10); err != nil {
		t.Fatal(err)
	}
	r.rounds("after the task is gone")
}

// TestRemovalInTwoTasks: a host of a rollout that stopped its process, and was away when the rollout removed it.
func TestRemovalInTwoTasks(t *testing.T) {
	for _, state := range []rollout.State{rollout.Done, rollout.Aborted} {
		r := newRig(t)
		r.give("a")
		ro := r.rollOut(store.RolloutStep{Op: process.Stop, Process: web, Removes: true})
		r.prune(ro.BatchTask(0), process.Stop, "a")
		r.away["key-a"] = true
		r.prune(store.RemovalTask(ro.BatchTask(0)), process.Unregister, "a")
		r.carried = nil
		r.rounds("during the rollout")
		r.returns(ro, state, "unregister a 0")
	}
}

// TestRightsOfARemoval: the servers remove a process only while the person who removed it may do so.
func TestRightsOfARemoval(t *testing.T) {
	r := newRig(t)
	r.give("a")
	r.away["key-a"] = true
	r.prune("prune", process.Stop, "a")
	r.away["key-a"], r.carried = false, nil
	rights := r.rights["shop"]
	r.rights["shop"] = access.Principal{App: "shop"}
	r.rounds("without the right")
	r.rights["shop"] = rights
	r.now = r.now.Add(10 * time.Minute)
	r.rounds("with the right again", "stop a 0", "unregister a 0")
}
