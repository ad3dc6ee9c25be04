package client

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"net/url"
	"slices"
	"strconv"

	v1 "drover/api/v1"
)

// File returns the processes of a namespace as a process file, and the tag of its present state for Apply.
func (c *Client) File(ctx context.Context, namespace string) (f v1.File, tag string, err error) {
	err = c.tagged(ctx, answerTime, at(v1.RouteGetNamespace, namespace), nil, &tag, nil, &f)
	return f, tag, err
}

// FileAt returns the processes of a namespace as they are by a revision.
func (c *Client) FileAt(ctx context.Context, namespace string, revision int64) (f v1.File, err error) {
	query := url.Values{"revision": {strconv.FormatInt(revision, 10)}}
	err = c.do(ctx, at(v1.RouteGetNamespace, namespace), query, nil, &f)
	return f, err
}

// Revisions lists the revisions of a namespace, newest first. limit is the largest number of revisions; 0 means no
// limit.
func (c *Client) Revisions(ctx context.Context, namespace string, limit int) iter.Seq2[v1.Revision, error] {
	return pages[v1.Revision](ctx, c, at(v1.RouteListRevisions, namespace), url.Values{}, limit)
}

// Compare returns what has changed in a namespace from one revision to another one, or with to 0 to the present state
// of its hosts.
func (c *Client) Compare(ctx context.Context, namespace string, from, to int64) (p v1.Plan, err error) {
	query := url.Values{"from": {strconv.FormatInt(from, 10)}}
	if to != 0 {
		query.Set("to", strconv.FormatInt(to, 10))
	}
	err = c.do(ctx, at(v1.RouteCompareRevisions, namespace), query, nil, &p)
	return p, err
}

// The values of ApplyOptions.Prune.
const (
	PruneOwn = "true"
	PruneAll = "all"
)

// The values of ApplyOptions.TakeOver.
const (
	TakeOverCopy = "true"
	TakeOverOnly = "only"
)

// PID names a running process. Began is when it began, in clock ticks since boot, as in proc_pid_stat(5).
type PID struct {
	Number int
	Began  uint64
}

// ApplyOptions are the options of Apply.
type ApplyOptions struct {
	// NoRestart leaves running processes as they are: changes that need a restart take effect at the next start.
	NoRestart bool
	// TakeOver makes an unwatched copy of a process the process, as it runs: TakeOverCopy, or TakeOverOnly, which
	// starts nothing. Beside starts the process all the same. Without both, a start beside an unwatched copy fails, and
	// names the copy. At most one is set.
	TakeOver string
	Beside   bool
	// PIDs are those of the copies to take over, by the name of the process. Then the command line and the directory
	// of the copy do not count. If another supervisor keeps the copy as its main process, the executable does not count
	// either, nor the account in place of root. They need TakeOver, and make sense for one host only.
	PIDs map[string]PID
	// Prune removes processes that the file does not have: PruneOwn those that have been registered through this API,
	// PruneAll all of the namespace. A running process is stopped; the next Apply removes it.
	Prune string
	// Rollout overrides fields of rollout in the file, by their names: such as "batch" with "10%". At is when the
	// rollouts begin, as in Request.
	Rollout map[string]string
	At      string
	// Peers are processes of other namespaces, as NAMESPACE/NAME, that the caller brings by calls of their own. after
	// may name them although no host has them yet.
	Peers []string
	// Message is a line of text for the list of revisions; Edit tells there that a person has edited one process.
	Message string
	Edit    bool
	// Force says that restarts go past the preflight.
	Force bool
	// Tag is the state for which the file or the plan was made. If somebody else has changed the namespace since, Plan
	// and Apply fail with status 412. Empty means any state.
	Tag string
}

// Plan returns what Apply would do, and the tag of the present state.
func (c *Client) Plan(ctx context.Context, f v1.File, o ApplyOptions) (p v1.Plan, tag string, err error) {
	query := o.query()
	query.Set("dry_run", "true")
	tag = o.Tag
	err = c.tagged(ctx, answerTime, at(v1.RoutePutNamespace, f.Namespace), query, &tag, f, &p)
	return p, tag, err
}

// Apply begins to make the processes of a namespace as the file says. When it returns, the server has the operation or
// the rollouts of the plan on disk and will carry them out.
func (c *Client) Apply(ctx context.Context, f v1.File, o ApplyOptions) (p v1.Plan, err error) {
	tag := o.Tag
	err = c.tagged(ctx, submitTime, at(v1.RoutePutNamespace, f.Namespace), o.query(), &tag, f, &p)
	return p, err
}

func (o *ApplyOptions) query() url.Values {
	query := url.Values{}
	if o.NoRestart {
		query.Set("no_restart", "true")
	}
	if o.Force {
		query.Set("force", "true")
	}
	set(query, "take_over", o.TakeOver)
	for _, name := range slices.Sorted(maps.Keys(o.PIDs)) {
		query.Add("pid", fmt.Sprintf("%s:%d:%d", name, o.PIDs[name].Number, o.PIDs[name].Began))
	}
	if o.Beside {
		query.Set("beside", "true")
	}
	set(query, "prune", o.Prune)
	for name, value := range o.Rollout {
		query.Set(name, value)
	}
	for _, name := range o.Peers {
		query.Add("peer", name)
	}
	set(query, "at", o.At)
	set(query, "message", o.Message)
	if o.Edit {
		query.Set("through", v1.ThroughEdit)
	}
	return query
}
