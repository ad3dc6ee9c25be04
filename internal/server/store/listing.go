package store

import (
	"context"
	"time"

	"drover/internal/process"
	"drover/internal/server/task"
)

// Listing serves the lists of drover's own API. To read the next page, pass the last row of the previous page. Rows
// that are added or removed meanwhile may be seen or not; no other row is skipped or repeated.
type Listing interface {
	// ListObserved returns up to limit rows after the given row, in the order of namespace, name and agent, and whether
	// more rows may follow. If rows are large, it returns fewer rows, but at least one. The zero key comes before all
	// rows.
	ListObserved(ctx context.Context, f ObservedFilter, after ObservedKey,
		limit int) (rows []Observed, more bool, err error)
	// ObservedAt calls fn with the rows of processes, unordered. It skips a process without a row. spec asks for the
	// specs; otherwise they are nil. fn must not call the Store.
	ObservedAt(ctx context.Context, keys []ObservedKey, spec bool, fn func(Observed)) error
	// ListTasks returns up to limit tasks after the task with the given number, newest first. 0 comes before all tasks.
	ListTasks(ctx context.Context, f TaskFilter, after int64, limit int) ([]TaskSummary, error)
	// TaskOn reports whether a task, by its number, has an item on one of some agents.
	TaskOn(ctx context.Context, number int64, agents []string) (bool, error)
	// GetTask returns one task. It returns ErrNotFound for an unknown task and for a task of another app (an empty app
	// matches any).
	GetTask(ctx context.Context, id, app string) (TaskSummary, error)
	// ListOpenItems returns up to limit unfinished items, oldest first, without queries.
	ListOpenItems(ctx context.Context, f OpenItemFilter, limit int) ([]OpenItem, error)
}

// ObservedFilter selects rows of Observations. An empty field matches all.
type ObservedFilter struct {
	// Namespace and Name are patterns: * matches any text, ? one character, and every other character itself.
	Namespace, Name string
	// Within are further patterns of namespaces, of which one must match; nil matches all, and an empty list none.
	Within []string
	// Process is the exact name of one process.
	Process process.ID
	// Copies also selects the copies of the processes that Name or Process selects (process.CutCopy).
	Copies bool
	// Agents are keys; nil matches all, and an empty list none.
	Agents []string
	// States are states of process.Status.
	States []string
	// Spec asks for the specs; otherwise they are nil.
	Spec bool
}

// Sight is what a caller may see of a list of tasks or of rollouts: those of App, and those whose processes are all in
// namespaces that match a pattern of Within. The zero Sight is everything.
type Sight struct {
	App    string
	Within []string
}

// TaskFilter selects tasks. An empty field matches all.
type TaskFilter struct {
	Sight     Sight
	App, User string
	// Op and Namespace select tasks with a request that has both. An Op without an argument matches each argument, and
	// Namespace is a pattern.
	Op        process.Op
	Namespace string
	// Done selects tasks whose items are all done (true), or tasks with an unfinished item (false).
	Done *bool
	// Failed selects tasks with a fault (true), or tasks without one (false).
	Failed *bool
	// Since and Until bound the time of the call: Since is exclusive, Until inclusive.
	Since, Until time.Time
	// Agents are keys of hosts, one of which must have a result of the task; nil matches all.
	Agents []string
	// Beside selects tasks that have changed something beside a rollout; nil selects all.
	Beside *Beside
}

// Beside selects tasks that are not of a rollout, and that change one of its processes on one of its hosts. No index
// helps to find them: it looks at the latest MostBeside tasks of the time of the filter only.
type Beside struct {
	Rollout   string
	Processes []process.ID
	Agents    []string
}

// MostBeside is how many tasks Beside looks at.
const MostBeside = 10_000

// TaskSummary is a task without its items.
type TaskSummary struct {
	// Number is the task's place in lists: a later task has a higher number.
	Number    int64
	ID        string
	App       string
	User      string
	RequestID string
	Created   time.Time
	// Op and Process belong to the first request; Requests counts all requests.
	Op       process.Op
	Process  process.ID
	Requests int
	// Keys counts the result keys, Open the keys without an outcome, and Failed the keys with a fault.
	Keys, Open, Failed int
	// Selector and Reason are those of the task.
	Selector, Reason string
}

// OpenItemFilter selects unfinished items. An empty field matches all.
type OpenItemFilter struct {
	// Process is the exact name of one process, or with Copies also those of its copies.
	Process process.ID
	Copies  bool
	// Before bounds the time of the call; it is exclusive.
	Before time.Time
}

// OpenItem is an unfinished item and its caller.
type OpenItem struct {
	Task      string
	App, User string
	Created   time.Time
	Agent     string
	Process   process.ID
	Op        process.Op
	State     task.State
}
