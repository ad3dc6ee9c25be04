package operation

import (
	"context"
	"time"

	"drover/internal/agent/instance"
	"drover/internal/agent/probe"
	"drover/internal/process"
)

// query reports on the process and changes nothing. It asks a running process for its version and health. If the spec
// of the query does not say where the process is, the stored spec applies.
func (n *session) query() (Result, error) {
	if n.spec.Dir() == "" && n.spec.PIDFile == "" && n.subject.Record != nil {
		n.spec = &n.subject.Record.Spec
	}
	var seen instance.Sighting
	var instance *process.Instance
	named := n.spec.ProcessName != "" || n.spec.Foreground() || n.spec.Compat == nil
	if named && (n.subject.Record != nil || n.spec.Dir() != "" || n.spec.PIDFile != "") {
		seen, instance = n.lookClosely()
	}
	status := process.Status{
		Known:       n.subject.Record != nil,
		Hosted:      n.subject.Hosted(),
		ProcName:    n.spec.ProcessName,
		Instance:    process.Instance{PID: -1},
		LastStartAt: n.runtime.LastStartAt,
		ReportedAt:  time.Now().Unix(),
		Message:     seen.Note,
	}
	if rec := n.subject.Record; rec != nil {
		status.RegisteredAt, status.Want = rec.RegisteredAt, rec.Want
	}
	if instance != nil {
		status.Instance = *instance
		status.Instance.Revision = n.runtime.Revision
		n.ask(*seen.ID, &status)
		status.LastStartAt = max(status.LastStartAt, instance.StartedAt)
	}
	return Result{
		Outcome: process.Outcome{Text: process.Success, Hosted: n.subject.Hosted(), Status: &status},
		Runtime: n.runtime,
	}, nil
}

// lookClosely is look that also describes the instance; nil when none runs. If the instance on record is alive, its
// description proves that, and a second look is unnecessary.
func (n *session) lookClosely() (instance.Sighting, *process.Instance) {
	if known := n.runtime.Process; known != nil && n.spec.Instances() <= 1 {
		i := n.subject.Instance
		if i == nil {
			if now, _, err := n.Processes.Instance(*known); err == nil {
				i = &now
			}
		}
		if i != nil {
			return instance.Sighting{ID: known, PIDFile: n.runtime.PIDFile, Matches: 1}, i
		}
	}
	seen := n.findAndRecord()
	if !seen.Alive() {
		return seen, nil
	}
	i, _, err := n.Processes.Instance(*seen.ID)
	if err != nil {
		return seen, nil
	}
	return seen, &i
}

// tooFewText says that fewer instances run than the policy demands; empty if enough instances run.
func (n *session) tooFewText(seen instance.Sighting) string {
	if expected := n.spec.Instances(); expected > 1 && seen.Matches < expected {
		return instance.TooFew(seen.Matches, expected)
	}
	return ""
}

// Prober runs the commands that only ask.
type Prober interface {
	// Ask asks a running process for its health and version, and returns within seconds; nil if the process gives no
	// answer.
	Ask(ctx context.Context, id process.ID, s probe.Subject) (health, version *process.Answer)
	// LastAnswers returns the last answers of an instance. It does not block.
	LastAnswers(id process.ID, instance instance.Identity) (health, version *process.Answer)
	// Try runs a command line and returns nil when it ends with status 0 within the limit.
	Try(ctx context.Context, id process.ID, spec *process.Spec, line string, limit time.Duration) error
	// Drop forgets a process.
	Drop(id process.ID)
}

// ask runs the health and version commands of the stored spec. It never runs commands that the query brings, because a
// caller that may query may lack the right to run commands.
func (n *session) ask(instance instance.Identity, status *process.Status) {
	rec := n.subject.Record
	if rec == nil || !rec.Spec.Asks() || !n.MayAsk(n.id, &rec.Spec) {
		return
	}
	status.Health, status.Version = n.Prober.Ask(n.ctx, n.id, probe.Subject{
		Instance: instance, Revision: rec.Revision,
		Spec: &rec.Spec,
	})
	describe(&status.Instance, status.Health, status.Version)
}

// Describe adds the last answers of an instance to its description, if there are any. It does not block.
func (o *Operator) Describe(id process.ID, instance instance.Identity, i *process.Instance) {
	health, version := o.Prober.LastAnswers(id, instance)
	describe(i, health, version)
}

// describe copies answers into the fields that callers know. It leaves the version empty if the command failed.
func describe(i *process.Instance, health, version *process.Answer) {
	if health != nil {
		i.Health = health.Text
	}
	if version != nil && version.OK {
		i.Version = version.Text
	}
}
