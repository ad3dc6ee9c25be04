package operation

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"drover/internal/agent/record"
	"drover/internal/agent/specstore"
	"drover/internal/process"
	"drover/internal/spec"
)

// host stores the spec and hosts the process, running or not. A resident process of a process file that does not run
// starts at once. A run of `once` does not: only a start begins one.
func (n *session) host() (Result, error) {
	if _, err := n.beside(); err != nil {
		return Result{}, err
	}
	seen := n.findAndRecord()
	if err := n.mayHost(seen.PIDFile); err != nil {
		return Result{}, err
	}
	if err := n.mayLimit(); err != nil {
		return Result{}, err
	}
	down := !seen.Alive() && n.spec.Compat == nil
	if down && n.spec.Kind() == process.SingleRun {
		r, err := n.update()
		r.Outcome.Text = successText("drover does not start it: it runs once, and only a start begins another run")
		return r, err
	}
	starts := ""
	if down = down && n.spec.Kind() == process.Resident; down {
		starts = "it is being started"
	}
	r, err := n.hosted(append(n.relimit(), n.tooFewText(seen), n.fieldsAtNextStart(), starts)...)
	r.Now = down && err == nil
	return r, err
}

// unhost takes the process out of hosting and does not touch the instance. It succeeds at once for an unknown process.
func (n *session) unhost() (Result, error) {
	r := Result{Outcome: process.Outcome{Text: process.Success}, Runtime: n.runtime}
	if n.subject.Record == nil {
		return r, nil
	}
	n.spec = &n.subject.Record.Spec
	n.findAndRecord()
	rec := n.record()
	rec.Decide(false, process.WantNothing)
	r.Change, r.Runtime = specstore.Change{Put: rec}, n.runtime
	return r, nil
}

// register stores the spec of an unknown process. It does not host the process.
func (n *session) register() (Result, error) {
	if n.subject.Record != nil {
		return Result{},
			process.Errorf(process.AlreadyRegistered, "Fail to register, for the process info already exists.")
	}
	return n.update()
}

// update stores the spec. It changes the limits of the running instance, and neither ends the instance nor changes the
// hosting flag: only operations on the process do.
func (n *session) update() (Result, error) {
	n.findAndRecord()
	if err := n.mayLimit(); err != nil {
		return Result{}, err
	}
	rec := n.record()
	rec.Spec = *n.spec
	if n.subject.Record == nil {
		rec.Want = process.WantStopped
	}
	return Result{
		Outcome: process.Outcome{Text: successText(append(n.relimit(), n.fieldsAtNextStart())...), Hosted: rec.Hosted},
		Change:  specstore.Change{Put: rec},
		Runtime: n.runtime,
	}, nil
}

// mayLimit fails if the host cannot give a running process the limits of a strict spec: its next start would fail.
func (n *session) mayLimit() error {
	if n.force || !n.spec.StrictLimits() || n.subject.Record == nil || n.runtime.Process == nil {
		return nil
	}
	notes := n.limitNotes(n.spec)
	if len(notes) == 0 || len(spec.ChangedLimits(&n.subject.Record.Spec, n.spec)) == 0 {
		return nil
	}
	return n.runsOn(process.Errorf(process.Failed, "limits.strict: %s", strings.Join(notes, "; ")).
		Because(process.CauseNotInForce))
}

// relimit changes the limits of the running process to those of a new spec. It says which it cannot change.
func (n *session) relimit() []string {
	if n.Relimit == nil || n.subject.Record == nil || n.runtime.Process == nil {
		return nil
	}
	was := &n.subject.Record.Spec
	changed := spec.ChangedLimits(was, n.spec)
	if len(changed) == 0 {
		return nil
	}
	failed := n.Relimit(n.scopeOf(*n.runtime.Process, n.runtime.Run), was, n.spec)
	late := map[string]string{}
	maps.Copy(late, failed)
	for limit, why := range n.runtime.Limits {
		if !slices.Contains(changed, limit) {
			late[limit] = why
		}
	}
	switch {
	case len(late) == 0:
		late, n.runtime.LimitsSince = nil, 0
	case n.runtime.LimitsSince == 0:
		n.runtime.LimitsSince = time.Now().UnixMilli()
	}
	n.runtime.Limits = late
	return lateLimits(failed)
}

// fieldsAtNextStart names the fields of a new spec that take effect only at the next start of a running process: those
// that differ from what it was started with. What nobody recorded at the start is taken from the stored spec.
func (n *session) fieldsAtNextStart() string {
	if n.subject.Record == nil || n.runtime.Process == nil {
		return ""
	}
	was, is := &n.subject.Record.Spec, n.spec
	_, line := was.Starter()
	user, path := cmp.Or(n.runtime.User, was.User), was.Dir()
	if n.runtime.Command != "" {
		path, line = n.runtime.SetupPath, n.runtime.Command
	}
	command, next := is.Starter()
	if !is.Foreground() {
		command = is.Field("start", command)
	}
	var fields []string
	for _, f := range []struct {
		name    string
		changed bool
	}{
		{"user", user != is.User},
		{is.Field("directory", "setup_path"), path != is.Dir()},
		{command, line != next},
	} {
		if f.changed {
			fields = append(fields, f.name)
		}
	}
	if n.runtime.StartDigest != is.StartDigest() { // else it was started with these fields
		fields = append(fields, was.StartFields(is)...)
	}
	if len(fields) == 0 {
		return ""
	}
	return fmt.Sprintf("pid %d runs on unchanged; these fields wait for its next start: %s", n.runtime.Process.PID,
		strings.Join(fields, ", "))
}

// unregister drops the record of the process and does not touch the instance. It says which instance it leaves.
func (n *session) unregister() (Result, error) {
	if n.subject.Record == nil {
		return Result{}, process.Errorf(process.NotRunning, "the process is not registered")
	}
	n.spec = &n.subject.Record.Spec
	left := ""
	if seen := n.find(); seen.Alive() {
		left = fmt.Sprintf("pid %d runs on, and drover no longer watches it", seen.ID.PID)
	}
	n.Prober.Drop(n.id)
	n.reserved.release(n.id)
	return Result{
		Outcome: process.Outcome{Text: successText(left)},
		Change:  specstore.Change{Delete: true},
	}, nil
}

// mayHost rejects hosting of a process that is already hosted under another name.
func (n *session) mayHost(pidFile string) error {
	if other, ok := n.peers.Hosting(n.id, n.spec, pidFile); ok {
		return process.Errorf(process.Failed, "cannot host the process: it is hosted as %s",
			other).Because(process.CauseOwnedByOther)
	}
	return nil
}

// record returns a copy of the stored record of the process, or a new record.
func (n *session) record() *record.Record {
	rec := record.Record{ID: n.id}
	if n.subject.Record != nil {
		rec = *n.subject.Record
	}
	return &rec
}

// failed is the result of an operation that did not reach its goal: it stores nothing and keeps the hosting flag.
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

// setGroups replaces all process groups of the namespace. Its process id has a namespace and no name.
func (n *session) setGroups() (Result, error) {
	return Result{
		Outcome: process.Outcome{Text: process.Success},
		Change:  specstore.Change{Groups: &specstore.NamespaceGroups{Namespace: n.id.Namespace, Groups: n.groups}},
		Runtime: n.runtime,
	}, nil
}
