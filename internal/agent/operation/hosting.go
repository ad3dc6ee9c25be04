package operation

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"drover/internal/agent/specstore"
	"drover/internal/process"
)

// host stores the spec and hosts the process, running or not.
func (n *session) host() (Result, error) {
	seen := n.look()
	if err := n.mayHost(seen.PIDFile); err != nil {
		return Result{}, err
	}
	return n.hosted(n.missing(seen), n.waiting())
}

// unhost takes the process out of hosting and leaves it as it is. It is done at once for one that nobody knows.
func (n *session) unhost() (Result, error) {
	r := Result{Outcome: process.Outcome{Text: process.Success}, Runtime: n.runtime}
	if n.subject.Record == nil {
		return r, nil
	}
	n.spec = &n.subject.Record.Spec
	n.look()
	rec := n.record()
	rec.Hosted, rec.GivenUp, rec.Want = false, false, process.WantNothing
	r.Change, r.Runtime = specstore.Change{Put: rec}, n.runtime
	return r, nil
}

// register stores the spec of a process that is not known yet. It is not hosted by that.
func (n *session) register() (Result, error) {
	if n.subject.Record != nil {
		return Result{},
			process.Errorf(process.AlreadyRegistered, "Fail to register, for the process info already exists.")
	}
	return n.update()
}

// update stores the spec. Hosting stays as it is: only an operation on the process changes it. What runs is not
// touched.
func (n *session) update() (Result, error) {
	n.look()
	rec := n.record()
	rec.Spec = *n.spec
	if n.subject.Record == nil {
		rec.Want = process.WantStopped
	}
	return Result{
		Outcome: process.Outcome{Text: successText(n.waiting()), Hosted: rec.Hosted},
		Change:  specstore.Change{Put: rec},
		Runtime: n.runtime,
	}, nil
}

// waiting says which fields of a new spec a running process does not heed before it is started again.
func (n *session) waiting() string {
	if n.subject.Record == nil || n.runtime.Process == nil {
		return ""
	}
	was, is := &n.subject.Record.Spec, n.spec
	user := cmp.Or(n.runtime.User, was.Identity.User)
	var fields []string
	for _, f := range []struct {
		name    string
		changed bool
	}{
		{"user", user != is.Identity.User},
		{"setup_path", was.Identity.SetupPath != is.Identity.SetupPath},
		{"start_cmd", was.Commands.Start != is.Commands.Start},
		{"hard_limits", was.Hard != is.Hard},
	} {
		if f.changed {
			fields = append(fields, f.name)
		}
	}
	if len(fields) == 0 {
		return ""
	}
	return fmt.Sprintf("pid %d runs on unchanged; these fields wait for its next start: %s", n.runtime.Process.PID,
		strings.Join(fields, ", "))
}

// unregister forgets the process and leaves it as it is.
func (n *session) unregister() (Result, error) {
	if n.subject.Record == nil {
		return Result{}, process.Errorf(process.NotRunning, "the process is not registered")
	}
	n.Prober.Drop(n.id)
	return Result{
		Outcome: process.Outcome{Text: process.Success},
		Change:  specstore.Change{Delete: true},
	}, nil
}

// mayHost refuses to host a process that is hosted under another name already.
func (n *session) mayHost(pidFile string) error {
	if other, ok := n.peers.Hosting(n.id, n.spec, pidFile); ok {
		return process.Errorf(process.Failed, "cannot host the process: it is hosted as %s",
			other).Because(process.CauseOwnedByOther)
	}
	return nil
}

// record returns a copy of what is stored of the process, or a new record.
func (n *session) record() *specstore.Record {
	rec := specstore.Record{ID: n.id}
	if n.subject.Record != nil {
		rec = *n.subject.Record
	}
	return &rec
}

// failed is the result of an operation that did not do what it was asked for: nothing is stored, the flag stays.
func (n *session) failed(err error) Result {
	r := Result{
		Outcome: process.Outcome{Fault: process.Failed, Text: err.Error(), Hosted: n.subject.Hosted()},
		Runtime: n.runtime,
	}
	if known, ok := errors.AsType[*process.Error](err); ok {
		r.Outcome.Fault, r.Outcome.Cause, r.Wrote = known.Fault, known.Cause, known.Output
	}
	if n.op == process.Query {
		r.Outcome.Status = &process.Status{
			Hosted: n.subject.Hosted(), ProcName: n.name(),
			Instance: process.Instance{PID: -1},
		}
	}
	return r
}

// setGroups makes the groups that were sent all that the namespace has. The process it is asked of has no name.
func (n *session) setGroups() (Result, error) {
	return Result{
		Outcome: process.Outcome{Text: process.Success},
		Change:  specstore.Change{Groups: &specstore.NamespaceGroups{Namespace: n.id.Namespace, Groups: n.groups}},
		Runtime: n.runtime,
	}, nil
}
