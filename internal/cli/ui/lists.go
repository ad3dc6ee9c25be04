package ui

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/internal/cli/remote"
	"drover/internal/cli/term"
	causes "drover/internal/why"
	"drover/internal/words"
)

// column is one column of a list. Where the screen is narrow, columns with the greatest drop are left out first; 0 is
// never left out. A column of states has the function state, which gives the id.
type column struct {
	head  words.Text
	drop  int
	state func(item any) string
	cell  func(s *State, item any) string
}

func col[T any](head words.Text, drop int, cell func(s *State, v T) string) column {
	return column{head: head, drop: drop, cell: func(s *State, item any) string {
		v, _ := item.(T)
		return cell(s, v)
	}}
}

func stateCol[T any](head words.Text, id func(v T) string) column {
	c := col(head, 0, func(s *State, v T) string { return s.state(id(v)) })
	c.state = func(item any) string {
		v, _ := item.(T)
		return id(v)
	}
	return c
}

func columnsOf(k kind) []column {
	switch k {
	case processes:
		return processColumns()
	case hosts:
		return hostColumns()
	case tasks:
		return taskColumns()
	case rollouts:
		return rolloutColumns()
	case events:
		return eventColumns()
	case people:
		return peopleColumns()
	case audit:
		return auditColumns()
	case results:
		return []column{
			col(words.Head.Process, 0, func(_ *State, r v1.Result) string { return r.Namespace + "/" + r.Name }),
			col(words.Head.Host, 0, func(_ *State, r v1.Result) string { return r.Host }),
			stateCol(words.Head.Outcome, func(r v1.Result) string { return r.Outcome }),
			col(words.Head.Message, 1, func(s *State, r v1.Result) string { return s.said(r.Message) }),
		}
	default:
		return nil
	}
}

// stale is the state of a process whose host is away.
const stale = "stale"

// uses is a cell about what a running process uses with its whole tree.
func uses(cell func(v1.Usage) string) func(*State, v1.Process) string {
	return func(_ *State, p v1.Process) string {
		if p.Instance == nil || p.Stale {
			return "–"
		}
		return cell(remote.Used(&p))
	}
}

func processColumns() []column {
	instance := func(cell func(s *State, i *v1.Instance) string) func(*State, v1.Process) string {
		return func(s *State, p v1.Process) string {
			if p.Instance == nil || p.Stale {
				return "–"
			}
			return cell(s, p.Instance)
		}
	}
	state := stateCol(words.Head.State, func(p v1.Process) string {
		if p.Stale {
			return stale
		}
		return p.State
	})
	state.cell = func(s *State, item any) string {
		p, _ := item.(v1.Process)
		return s.stateOf(&p)
	}
	return []column{
		col(words.Head.Process, 0, func(s *State, p v1.Process) string {
			if s.isMarked(p) {
				return "*" + p.Namespace + "/" + p.Name
			}
			return " " + p.Namespace + "/" + p.Name
		}),
		col(words.Head.Host, 0, func(_ *State, p v1.Process) string { return p.Host.ID }),
		state,
		col(words.Head.Since, 3, func(s *State, p v1.Process) string { return s.age(since(p)) }),
		col(words.Head.PID, 6, instance(func(_ *State, i *v1.Instance) string { return strconv.Itoa(i.PID) })),
		col(words.Head.CPUOfHost, 5, uses(func(u v1.Usage) string { return term.Percent(u.CPU) })),
		col(words.Head.Memory, 4, uses(func(u v1.Usage) string { return term.Size(u.RSS) })),
		col(words.Head.Restarts, 2, func(_ *State, p v1.Process) string {
			if p.Restarts == 0 {
				return ""
			}
			return strconv.Itoa(p.Restarts)
		}),
		col(words.Head.Why, 1, func(s *State, p v1.Process) string {
			if r, ok := s.sent[s.on[keyOf(p)]]; ok {
				done := r.task.Counts.OK + r.task.Counts.Failed
				return fmt.Sprintf("▶ %s %s %d/%d", s.op(r.op), r.task.ID, done, r.task.Counts.Targets)
			}
			if p.Cause == nil {
				return s.said(p.Message)
			}
			return s.cause(p.Cause)
		}),
	}
}

// since is when the present state of a process began, as far as its report tells.
func since(p v1.Process) *time.Time {
	switch {
	case p.Stale:
		return p.Host.LastSeen
	case p.Cause != nil && p.Cause.Since != nil:
		return p.Cause.Since
	case p.Instance != nil:
		return p.Instance.StartedAt
	}
	return nil
}

func hostColumns() []column {
	return []column{
		col(words.Head.Host, 0, func(_ *State, a v1.JoinedHost) string { return a.ID }),
		stateCol(words.Head.State, func(a v1.JoinedHost) string {
			if a.Online {
				return "online"
			}
			return "away"
		}),
		col(words.Head.Name, 2, func(_ *State, a v1.JoinedHost) string { return a.Name }),
		col(words.Head.Address, 5, func(_ *State, a v1.JoinedHost) string { return remote.Address(a.Host) }),
		col(words.Head.Build, 4, func(_ *State, a v1.JoinedHost) string { return a.Build }),
		col(words.Head.LastSeen, 3, func(s *State, a v1.JoinedHost) string { return s.age(a.LastSeen) }),
		col(words.Head.Labels, 6, func(_ *State, a v1.JoinedHost) string { return labelsOf(a.Labels) }),
		col(words.Head.Notes, 1, func(s *State, a v1.JoinedHost) string {
			return s.said(strings.Join(a.Notes, "; "))
		}),
	}
}

func taskColumns() []column {
	return []column{
		col(words.Head.Task, 0, func(_ *State, t v1.Task) string { return t.ID }),
		stateCol(words.Head.State, func(t v1.Task) string { return words.Result(t.State, t.Counts.Failed) }),
		col(words.Head.Operation, 0, func(s *State, t v1.Task) string { return s.op(t.Op) }),
		col(words.Head.Progress, 1, func(s *State, t v1.Task) string {
			n := t.Counts
			text := fmt.Sprintf("%d/%d", n.OK+n.Failed, n.Targets)
			if n.Failed > 0 {
				text += fmt.Sprintf(" %s %d", s.state("failed"), n.Failed)
			}
			return text
		}),
		col(words.Head.Created, 2, func(s *State, t v1.Task) string { return s.age(&t.CreatedAt) }),
		col(words.Head.User, 4, func(_ *State, t v1.Task) string { return term.Caller(t.App, t.User) }),
		col(words.Head.Subject, 3, func(s *State, t v1.Task) string {
			if t.Requests > 1 {
				return t.Subject + " " + words.Screen.And.In(s.lang, "n", t.Requests-1)
			}
			return t.Subject
		}),
	}
}

func rolloutColumns() []column {
	return []column{
		col(words.Page.Rollouts, 0, func(_ *State, r v1.Rollout) string { return r.ID }),
		stateCol(words.Head.State, func(r v1.Rollout) string { return words.Result(r.State, r.Counts.Failed) }),
		col(words.Head.Operation, 0, func(s *State, r v1.Rollout) string { return s.op(r.Op) }),
		col(words.Head.Subject, 1, func(_ *State, r v1.Rollout) string { return strings.Join(r.Processes, " ") }),
		col(words.Head.Progress, 2, func(_ *State, r v1.Rollout) string {
			return fmt.Sprintf("%d/%d", r.Counts.OK+r.Counts.Failed+r.Counts.Skipped, r.Counts.Hosts)
		}),
		col(words.Head.Failures, 3, func(_ *State, r v1.Rollout) string { return strconv.Itoa(r.Counts.Failed) }),
		col(words.Head.Batch, 6, func(_ *State, r v1.Rollout) string { return strconv.Itoa(r.Batch + 1) }),
		col(words.Head.Created, 5, func(s *State, r v1.Rollout) string { return s.age(&r.CreatedAt) }),
		col(words.Head.Reason, 4, func(s *State, r v1.Rollout) string { return s.said(r.Reason) }),
	}
}

func eventColumns() []column {
	return []column{
		col(words.Head.At, 0, func(_ *State, e v1.Event) string { return e.At.Local().Format("01-02 15:04:05") }),
		col(words.Head.Process, 0, func(_ *State, e v1.Event) string {
			if e.Namespace == "" {
				return ""
			}
			return e.Namespace + "/" + e.Name
		}),
		col(words.Head.Host, 3, func(_ *State, e v1.Event) string { return e.Host.ID }),
		col(words.Head.Event, 0, func(s *State, e v1.Event) string { return words.Kind(e.Kind).In(s.lang) }),
		stateCol(words.Head.State, func(e v1.Event) string { return words.EventState(e.Kind, e.To) }),
		col(words.Head.User, 0, func(s *State, e v1.Event) string { return s.actor(e.Actor) }),
		col(words.Head.Cause, 2, func(s *State, e v1.Event) string {
			if e.Cause == nil {
				return ""
			}
			return s.cause(e.Cause)
		}),
	}
}

func (s *State) actor(a v1.Actor) string {
	if a.User+a.App == "" {
		return words.Actor(a.Kind).In(s.lang)
	}
	reason := words.Line(a.Reason, s.lang)
	return term.Doer(a.App, a.User, reason)
}

// keyOf names an item among the items of its list.
func keyOf(item any) string {
	switch v := item.(type) {
	case v1.Process:
		return fmt.Sprintf("%s/%s@%s", v.Namespace, v.Name, v.Host.ID)
	case v1.Result:
		return fmt.Sprintf("%s/%s@%s", v.Namespace, v.Name, v.Host)
	case v1.JoinedHost:
		return v.ID
	case v1.Task:
		return v.ID
	case v1.Rollout:
		return v.ID
	case v1.Event:
		return strconv.FormatInt(v.Cursor, 10)
	case v1.User:
		return v.Name
	case v1.AuditRow:
		return v.RequestID
	}
	return ""
}

// subjectOf is what an item is about.
func subjectOf(item any) subject {
	switch v := item.(type) {
	case v1.Process:
		return subject{v.Namespace, v.Name, v.Host.ID, ""}
	case v1.Result:
		return subject{v.Namespace, v.Name, v.Host, ""}
	case v1.JoinedHost:
		return subject{host: v.ID}
	case v1.Task:
		return subject{id: v.ID}
	case v1.Rollout:
		return subject{id: v.ID}
	case v1.Event:
		return subject{v.Namespace, v.Name, v.Host.ID, strconv.FormatInt(v.Cursor, 10)}
	case v1.User:
		return subject{id: v.Name}
	case v1.AuditRow:
		return subject{id: v.RequestID}
	}
	return subject{}
}

// age is the age of a moment; a dash if there is none.
func (s *State) age(t *time.Time) string {
	if t == nil {
		return "–"
	}
	return causes.Age(s.now.Sub(*t))
}

// state is the mark and the word of a state.
func (s *State) state(id string) string {
	if id == "" {
		return "–"
	}
	return words.ClassOf(id).Mark() + " " + words.State(id).In(s.lang)
}

// stateOf is the state of a process, with the state of its last report if its host is away.
func (s *State) stateOf(p *v1.Process) string {
	if p.Stale {
		return words.Screen.AsOf.In(s.lang, "stale", s.state(stale), "state", words.State(p.State).In(s.lang))
	}
	return s.state(p.State)
}

// op is the word of an operation in a line.
func (s *State) op(id string) string { return strings.ToLower(wordOf(id).In(s.lang)) }

// said is a sentence of an agent or a server in the language and in the time zone of the screen.
func (s *State) said(english string) string {
	return term.Local(words.Line(english, s.lang))
}

// cause is the sentence of a cause in the language and in the time zone of the screen.
func (s *State) cause(c *v1.Cause) string {
	return term.Local(words.CauseSentence(c.ID, c.Text, s.lang))
}
