package operation

import (
	"context"
	"time"

	"drover/internal/agent/probe"
	"drover/internal/agent/procfs"
	"drover/internal/process"
)

// Prober runs the commands that only ask.
type Prober interface {
	// Ask asks a running process for its health and version, and returns within seconds; nil if the process gives no
	// answer.
	Ask(ctx context.Context, id process.ID, s probe.Subject) (health, version *process.Answer)
	// Told returns the last answers of an instance. It does not block.
	Told(id process.ID, instance procfs.Identity) (health, version *process.Answer)
	// Try runs a command line and returns nil when it ends with status 0 within the limit.
	Try(ctx context.Context, id process.ID, spec *process.Spec, line string, limit time.Duration) error
	// Drop forgets a process.
	Drop(id process.ID)
}

// ask runs the health and version commands of the stored spec. It never runs commands that the query brings, because a
// caller that may query may lack the right to run commands.
func (n *session) ask(instance procfs.Identity, status *process.Status) {
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
func (o *Operator) Describe(id process.ID, instance procfs.Identity, i *process.Instance) {
	health, version := o.Prober.Told(id, instance)
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
