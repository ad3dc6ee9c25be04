package httpapi

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"

	v1 "drover/api/v1"
	"drover/internal/gse"
	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/edge"
	"drover/internal/server/store"
)

// absentText is the text of the outcome for an unknown agent.
const absentText = "agent not found or offline"

// submitting returns the endpoint that makes a task of the operations that read finds in a body, and answers with the
// task's id.
func (s *server) submitting(read func([]byte) ([]gse.Operation, error)) endpoint {
	return func(ctx context.Context, c *call) (payload, error) {
		ops, err := read(c.params)
		if err != nil {
			return nil, badParameters(err)
		}
		task, err := s.submit(ctx, c, ops)
		if err != nil {
			return nil, err
		}
		if c.route.dialect == jobDialect {
			return value(map[string]string{"bk_gse_taskid": task}), nil
		}
		return value(map[string]string{"task_id": task}), nil
	}
}

func badParameters(err error) error { return misread(badParameter, "parameters error: ", err) }

// submit stores the task with the call's audit row and returns its id. The task is on disk when submit returns.
func (s *server) submit(ctx context.Context, c *call, ops []gse.Operation) (string, error) {
	t := s.NewTask(c.Call)
	t.Through = v1.ThroughGSE
	if c.route.dialect == jobDialect {
		t.Through = v1.ThroughJOB
	}
	t.Requests = make([]store.Request, 0, len(ops))
	count := 0
	for i := range ops {
		count += len(ops[i].Targets)
	}
	c.Principal.Targets = count
	may := permissionCheck{c: c}
	for i := range ops {
		r := s.request(&ops[i], &may)
		split := s.byStored
		if r.Spec != nil {
			split = func(ctx context.Context, r *store.Request) ([]store.Request, error) {
				return s.byRight(ctx, r, ops[i].Targets, &may)
			}
		}
		parts, err := split(ctx, &r)
		if err != nil {
			return "", failure("read the registered specs", err)
		}
		t.Requests = append(t.Requests, parts...)
	}
	if err := may.refusal(); err != nil {
		c.describe(ops, count, "")
		return "", err
	}
	t.ID = newTaskID(t, count)
	c.describe(ops, count, t.ID)
	if err := s.Submit(ctx, c.Call, t); err != nil {
		return "", accepting(err)
	}
	return t.ID, nil
}

// request resolves the targets of one operation. A target with a known answer already carries its outcome. An operation
// that will not run needs the same right, because its answer is stored too. An unknown operation needs the right to
// query.
func (s *server) request(o *gse.Operation, may *permissionCheck) store.Request {
	op := access.OperationOf(o.Op)
	if !slices.Contains(access.Operations(), op) {
		op = access.OperationOf(process.Query)
	}
	reach := may.c.Principal.On(op, o.ID.Namespace)
	r := store.Request{Op: o.Op, Process: o.ID, Spec: o.Spec, Targets: make([]store.Target, len(o.Targets))}
	var known *process.Outcome
	if o.Problem != nil {
		known = &process.Outcome{Fault: o.Problem.Fault, Text: o.Problem.Text}
	}
	nobody := unknownAgent()
	for i, t := range o.Targets {
		agent, found := s.lookup(t)
		if !reach.Everywhere() {
			may.missing.Check(reach, o.ID.String(), rightsHost(t, agent, found))
		}
		r.Targets[i] = store.Target{ItemKey: t.Key, Spelling: t.Asked(), Agent: agent.Key, Outcome: known}
		if known == nil && !found {
			r.Targets[i].Outcome = nobody
		}
	}
	return r
}

// byStored splits a request without a spec by the stored specs of its agents, so that results can show these specs.
func (s *server) byStored(ctx context.Context, r *store.Request) ([]store.Request, error) {
	if r.Spec != nil {
		return []store.Request{*r}, nil
	}
	var agents []string
	for _, t := range r.Targets {
		if t.Agent != "" {
			agents = append(agents, t.Agent)
		}
	}
	stored := make(map[string]*process.Spec, len(agents))
	err := s.Observations.GetObserved(ctx, r.Process, agents, func(o store.Observed) error {
		stored[o.Agent] = o.Spec
		return nil
	})
	if err != nil {
		return nil, err
	}
	type shown struct{ procName, setupPath, funcID, instanceID string }
	parts, place := []store.Request(nil), map[shown]int{}
	for _, t := range r.Targets {
		var key shown
		spec := stored[t.Agent]
		if spec != nil {
			key = shown{spec.ProcessName, spec.Dir(), spec.FuncID(), spec.InstanceID()}
		}
		i, ok := place[key]
		if !ok {
			i = len(parts)
			place[key] = i
			parts = append(parts, store.Request{Op: r.Op, Process: r.Process, ReportedSpec: spec})
		}
		parts[i].Targets = append(parts[i].Targets, t)
	}
	return parts, nil
}

func (s *server) lookup(t gse.Target) (store.Agent, bool) {
	if t.AgentID != "" {
		return s.Directory.LookupID(t.AgentID)
	}
	return s.Directory.Lookup(t.Host.Cloud, t.Host.IP)
}

// newTaskID returns an id in the form of GSE's ids. Its 130 random bits keep one app from guessing another's task.
func newTaskID(t *store.Task, items int) string {
	return fmt.Sprintf("GSETASK:S:%s%s:%d", t.Created.Format("20060102150405"), rand.Text(), items)
}

// describe stores the subject of the call in the audit row.
func (c *call) describe(ops []gse.Operation, targets int, task string) {
	subject := edge.Clip(ops[0].ID.String())
	if n := len(ops) - 1; n > 0 {
		subject += fmt.Sprintf(" and %d more", n)
	}
	counts := map[process.Op]int{}
	for i := range ops {
		counts[ops[i].Op] += len(ops[i].Targets)
	}
	c.Operates(subject, targets, task, counts)
}
