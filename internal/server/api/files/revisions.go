package files

import (
	"context"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	v1 "drover/api/v1"
	"drover/internal/server/api/call"
	"drover/internal/server/gate"
	"drover/internal/server/plan"
	"drover/internal/server/store"
)

// maxMessage is the longest message of a revision, in bytes.
const maxMessage = 500

// messageOf returns the parameter message: the text of the caller for the list of revisions.
func messageOf(p *call.Params) string {
	text := p.Text("message")
	switch {
	case len(text) > maxMessage:
		p.Fail(call.Invalid("message", "is %d bytes long: expected at most %d", len(text), maxMessage))
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		p.Fail(call.Invalid("message", "holds a control character or is not valid UTF-8: expected one line of text"))
	}
	return text
}

// revisionOf returns the number of a revision; 0 if it is missing.
func revisionOf(p *call.Params, name string) int64 {
	v := p.Text(name)
	if v == "" {
		return 0
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 1 {
		p.Fail(call.Invalid(name, "is %.40q: expected the number of a revision, from 1", v))
	}
	return n
}

// ListRevisions lists the revisions of a namespace, newest first, with the changes on hosts that the caller may query.
func (h *Handler) ListRevisions(ctx context.Context, c *call.Call) (call.Reply, error) {
	namespace := c.Subject("namespace")
	f := store.RevisionFilter{Namespace: namespace}
	limit, err := c.Params.Page(&f.Before)
	if err != nil {
		return call.Reply{}, err
	}
	reach, err := call.MayRead(c, namespace)
	if err != nil {
		return call.Reply{}, err
	}
	if !reach.Everywhere() {
		f.Sees = func(key string) bool {
			agent, found := h.Directory.ByKey(key)
			return found && reach.Covers(gate.Host(agent))
		}
	}
	rows, next, err := h.Revisions.ListRevisions(ctx, f, limit)
	if err != nil {
		return call.Reply{}, call.Failure("list the revisions", err)
	}
	c.Audit.Targets = len(rows)
	var last any
	if next != 0 {
		last = next
	}
	return call.OK(call.PageOf(c, call.Viewed(rows, ViewRevision), last))
}

// ViewRevision shows a revision.
func ViewRevision(r store.Revision) v1.Revision {
	v := v1.Revision{
		Number: r.Number, At: r.At, App: r.App, User: r.User, Through: r.Through, Message: r.Message, Operation: r.Task,
		Changes: []v1.RevisionChange{},
	}
	for _, c := range r.Changes {
		change := v1.RevisionChange{Process: c.Name, Action: v1.ActionChange, Hosts: c.Hosts}
		switch {
		case c.From == nil:
			change.Action = v1.ActionCreate
		case c.To == nil:
			change.Action = v1.ActionRemove
		default:
			for _, f := range plan.Fields(c.From, c.To) {
				change.Fields = append(change.Fields, v1.RevisedField{Path: f.Path, Class: f.Class})
			}
		}
		v.Changes = append(v.Changes, change)
	}
	return v
}

// CompareRevisions returns the difference between two revisions of a namespace, or between a revision and the present
// state, in the form of a plan.
func (h *Handler) CompareRevisions(ctx context.Context, c *call.Call) (call.Reply, error) {
	namespace := c.Subject("namespace")
	from, to := revisionOf(&c.Params, "from"), revisionOf(&c.Params, "to")
	if err := c.Params.Done(); err != nil {
		return call.Reply{}, err
	}
	if from == 0 {
		return call.Reply{}, call.Invalid("from", "is missing: expected the number of a revision")
	}
	before, err := h.placedAt(ctx, c, namespace, from)
	if err != nil {
		return call.Reply{}, err
	}
	after := func() ([]plan.Known, error) { return h.processes.Reported(ctx, c, namespace) }
	if to != 0 {
		after = func() ([]plan.Known, error) { return h.placedAt(ctx, c, namespace, to) }
	}
	present, err := after()
	if err != nil {
		return call.Reply{}, err
	}
	changes := plan.Compare(before, present)
	if !c.Principal.Sets(namespace).Everywhere() {
		hideChanges(changes)
	}
	c.Audit.Targets = len(changes)
	return call.OK(v1.Plan{Namespace: namespace, Changes: changes})
}
