package httpapi

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"drover/internal/gse"
	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/edge"
	"drover/internal/server/store"
	"drover/internal/server/task"
)

// status answers get_proc_status: the last reports about one process, a row for each requested agent. It asks no agent:
// report_time shows the age of a row.
func (s *server) status(ctx context.Context, c *call) (payload, error) {
	q, err := gse.ReadStatus(c.params)
	if err != nil {
		return nil, badParameters(err)
	}
	c.Audit.Target, c.Audit.Targets = edge.Clip(q.ID.String()), len(q.Targets)
	op := access.OperationOf(process.Query)
	if err := s.mayOnTargets(c, c.Principal.On(op, q.ID.Namespace), q.ID.String(), q.Targets); err != nil {
		return nil, err
	}
	rows := statusRows{targetIndex: s.indexTargets(q.Targets), s: s, q: q}
	return func(w *jsonWriter) error {
		seq := sequence{w: w}
		w.raw(`{"proc_infos":[`)
		err := rows.write(ctx, &seq)
		w.raw("]}")
		return err
	}, nil
}

// targetIndex maps rows of the store, which have agent keys, to the spellings of the caller, several of which may mean
// the same agent.
type targetIndex struct {
	// agents are the keys of the known agents, each once, in the order of the request.
	agents  []string
	byAgent map[string][]targetAgent
	// unknown are the targets without a known agent.
	unknown []gse.Target
}

// targetAgent is an agent in the spelling of one target.
type targetAgent struct {
	target gse.Target
	agent  store.Agent
}

func (s *server) indexTargets(targets []gse.Target) targetIndex {
	r := targetIndex{byAgent: make(map[string][]targetAgent, len(targets))}
	for _, t := range targets {
		agent, found := s.lookup(t)
		if !found {
			r.unknown = append(r.unknown, t)
			continue
		}
		if len(r.byAgent[agent.Key]) == 0 {
			r.agents = append(r.agents, agent.Key)
		}
		r.byAgent[agent.Key] = append(r.byAgent[agent.Key], targetAgent{t, agent})
	}
	return r
}

// statusRows writes the rows of one process.
type statusRows struct {
	targetIndex
	s *server
	q gse.StatusQuery
	// openItems describes the unfinished operations, by agent key; nil until it is needed.
	openItems map[string]string
}

// whyUnknown explains a process that an agent has not reported: its first operation may be running.
func (r *statusRows) whyUnknown(ctx context.Context, agent string) string {
	if r.openItems == nil {
		r.openItems = map[string]string{}
		list, err := r.s.Observations.ListOpenItems(ctx, store.OpenItemFilter{Process: r.q.ID}, mostWaiting)
		if err != nil {
			r.s.Log.ErrorContext(ctx, "cannot read open operations", "error", err)
		}
		for i := range list {
			w := &list[i]
			if _, known := r.openItems[w.Agent]; !known && w.State >= task.Accepted {
				r.openItems[w.Agent] = fmt.Sprintf("%s under way since %s", w.Op, w.Created.UTC().Format(time.RFC3339))
			}
		}
	}
	return cmp.Or(r.openItems[agent], "process is not known to the agent")
}

// atATime is the number of agents whose rows are read before they are written. So a caller that does not read does not
// hold a connection of the database.
const atATime = 256

// mostWaiting bounds the operations that are read for one call.
const mostWaiting = 10_000

// write writes the rows in the order of the request. An agent that has not reported the process has a row that says so.
// Unknown agents come last.
func (r *statusRows) write(ctx context.Context, seq *sequence) error {
	next := 0
	unknownUpTo := func(agent string) error {
		for ; next < len(r.agents) && r.agents[next] != agent; next++ {
			for _, a := range r.byAgent[r.agents[next]] {
				if err := seq.element(gse.UnknownRow(r.q.ID, a.host(), a.id(),
					r.whyUnknown(ctx, a.agent.Key))); err != nil {
					return err
				}
			}
		}
		return nil
	}
	for at := 0; at == 0 || at < len(r.agents); at += atATime {
		agents := r.agents[at:min(at+atATime, len(r.agents))]
		var rows []store.Observed
		err := r.s.Observations.GetObserved(ctx, r.q.ID, agents, func(o store.Observed) error {
			rows = append(rows, o)
			return nil
		})
		if err != nil {
			return failure("read the status", err)
		}
		for i := range rows {
			o := &rows[i]
			if err := unknownUpTo(o.Agent); err != nil {
				return err
			}
			next++
			for _, a := range r.byAgent[o.Agent] {
				if err := seq.element(gse.RowOf(r.q.ID, a.host(), a.id(), o.Status, o.Spec)); err != nil {
					return err
				}
			}
		}
	}
	if err := unknownUpTo(""); err != nil {
		return err
	}
	for _, t := range r.unknown {
		host := t.Host
		if t.AgentID != "" {
			host = gse.HostOf(t.AgentID)
		}
		if err := seq.element(gse.UnknownRow(r.q.ID, host, t.Asked(), absentText)); err != nil {
			return err
		}
	}
	return nil
}

// host returns the host of a row: as the caller wrote it, or the agent's own address if the caller wrote an id.
func (a targetAgent) host() gse.Host {
	if a.target.AgentID == "" {
		return a.target.Host
	}
	return hostOf(a.agent)
}

// id returns the agent id of a row: as the caller wrote it, or the agent's own id if the caller wrote an address.
func (a targetAgent) id() string {
	if a.target.AgentID != "" {
		return a.target.AgentID
	}
	return agentID(a.agent)
}

func hostOf(a store.Agent) gse.Host { return gse.Host{IP: a.IP, Cloud: a.Cloud} }

// agentID returns the displayed id of an agent: its stable id, else cloud:ip.
func agentID(a store.Agent) string {
	if a.ID != "" {
		return a.ID
	}
	return hostOf(a).Agent()
}

// sync answers sync_proc_status: a page of all known processes of a namespace.
func (s *server) sync(ctx context.Context, c *call) (payload, error) {
	q, err := gse.ReadSync(c.params)
	if err != nil {
		return nil, badParameters(err)
	}
	c.Audit.Target = edge.Clip(q.Namespace)
	if err := c.mayReadNamespace(q.Namespace); err != nil {
		return nil, err
	}
	rows, total, err := s.Observations.PageObserved(ctx, q.Namespace, q.Start, q.Limit)
	if err != nil {
		return nil, failure("read the status", err)
	}
	return func(w *jsonWriter) error {
		seq := sequence{w: w}
		w.raw(fmt.Sprintf(`{"count":%d,"proc_infos":[`, total))
		for {
			for i := range rows {
				o := &rows[i]
				// a removed agent may be gone from the directory before its rows
				agent, _ := s.Directory.ByKey(o.Agent)
				if err := seq.element(gse.RowOf(o.Process, hostOf(agent), agentID(agent), o.Status,
					o.Spec)); err != nil {
					return err
				}
			}
			c.Audit.Targets += len(rows)
			if len(rows) == 0 || c.Audit.Targets >= min(q.Limit, total-q.Start) {
				break
			}
			// The rows were large, so the next ones are read after these have been written.
			if rows, _, err = s.Observations.PageObserved(ctx, q.Namespace, q.Start+c.Audit.Targets,
				q.Limit-c.Audit.Targets); err != nil {
				return failure("read the status", err)
			}
		}
		w.raw("]}")
		return nil
	}, nil
}
