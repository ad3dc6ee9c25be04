// Package store defines the server's state in SQL, as interfaces small enough for each consumer. The packages below
// it implement databases; storetest holds the one suite that all of them pass.
package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"drover/internal/process"
	"drover/internal/server/task"
)

// ErrNotFound is returned where the one thing asked for is not there.
var ErrNotFound = errors.New("not found")

// Failure is an error of the database itself, and not of what was asked of it. It says what the error says that it
// holds.
type Failure struct{ Err error }

// Error returns the text.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap returns the error.
func (f *Failure) Unwrap() error { return f.Err }

// FullError is returned by writes where the disk of the database has no room, or none but what is kept for what is
// urgent: to create a task that only stops, kills or unhosts, and what the tasks that there are come to.
type FullError struct {
	// Since is when that was found first.
	Since time.Time
	Err   error
}

// Error returns the text for an operator.
func (e *FullError) Error() string {
	return fmt.Sprintf("the disk of the server's database is full, since %s", e.Since.UTC().Format(time.RFC3339))
}

// Unwrap returns the cause.
func (e *FullError) Unwrap() error { return e.Err }

// Fullness is what is known of the room for the database.
type Fullness interface {
	// FullSince returns since when writes find no room; the zero time says that they do.
	FullSince() time.Time
}

// Store is everything a database offers.
type Store interface { //nolint:interfacebloat // the sum of the small ones, for whoever opens and hands them out
	Tasks
	Repeats
	Items
	Agents
	Joining
	Proxies
	Groups
	Observations
	Confirmations
	Listing
	Events
	Apps
	Users
	Tokens
	Webhooks
	Counting
	Audit
	Cluster
	Facts
	Fullness
	// Ping fails when the database cannot take a write now.
	Ping(ctx context.Context) error
	Close() error
}

// Task is one accepted call.
type Task struct {
	ID        string
	App       string
	User      string
	RequestID string
	Created   time.Time
	Requests  []Request
	// HostTimeout is how long each agent has to take its items; 0 is task.WaitLimit. It is not stored: the deadlines of
	// the items are.
	HostTimeout time.Duration
}

// Request is one operation on one process of many agents.
type Request struct {
	Op      process.Op
	Process process.ID
	// Spec is nil for the one that the agent has stored.
	Spec    *process.Spec
	Targets []Target
	// Stored is the spec that a poll shows where Spec is nil: the one that the agents were last heard to have; it may
	// be nil.
	Stored *process.Spec
}

// Target is one agent as the caller named it.
type Target struct {
	// Key is the result key, ready to be shown. Several targets of a task may share it: the last one counts. One that
	// asks for the same as the one before it of that agent and process (the same operation and spec; for a Query
	// whatever its spec) is the same operation, which is carried out once and has its outcome under each of its keys.
	Key string
	// Asked is the agent in the caller's spelling, such as "0:10.0.0.1".
	Asked string
	// Agent is the agent's nkey; empty when nobody is known by that name.
	Agent string
	// Outcome is set where the answer is known without asking the agent.
	Outcome *process.Outcome
}

// Tasks is what the HTTP side needs.
type Tasks interface {
	// CreateTask stores the task, all its items and the audit row in one transaction. When it returns nil they are on
	// disk. It refuses a task whose id is taken, and a target that has neither an agent nor an outcome. Of the items
	// that Queue.LeaseItems would return now, it leases up to limit in the same transaction, and returns them in their
	// order.
	CreateTask(ctx context.Context, t *Task, row AuditRow, until time.Time, limit int) ([]Item, error)
	// TaskItems calls fn for the last item of every key of the task, in the order in which the keys were first given.
	// It returns ErrNotFound for an unknown task or one that belongs to another app (an empty app matches any).
	TaskItems(ctx context.Context, id, app string, fn func(ItemView) error) error
	// TaskOpen reports whether a task has keys whose last item is not done; ErrNotFound for an unknown one. It costs
	// little, however large the task is.
	TaskOpen(ctx context.Context, id string) (bool, error)
	// OpenItems counts the items of all tasks that are not done.
	OpenItems(ctx context.Context) (int, error)
}

// Repeat is a call that was answered before its task had ended, so that its caller will ask again.
type Repeat struct {
	// Of says whose call it is and about what; What is what it asks for. Either may be any text.
	Of, What string
	Task     string
	At       time.Time
}

// Repeats remembers calls that will be asked again, one about each matter.
type Repeats interface {
	// PutRepeat remembers a call in the place of another one about the same matter, and forgets what was put before a
	// time.
	PutRepeat(ctx context.Context, r Repeat, before time.Time) error
	// FindRepeat returns the call about a matter; ErrNotFound where there is none.
	FindRepeat(ctx context.Context, of string) (Repeat, error)
	// DropRepeat forgets the call about a matter.
	DropRepeat(ctx context.Context, of string) error
}

// ItemView is an item as a poll shows it.
type ItemView struct {
	Key     string
	Asked   string
	Cloud   int
	IP      string
	AgentID string // assigned id, its own, or cloud:ip, of a known agent
	Op      process.Op
	Process process.ID
	// ProcName, SetupPath, FuncID and InstanceID come from the item's spec.
	ProcName   string
	SetupPath  string
	FuncID     string
	InstanceID string
	Done       bool
	// Outcome is set when Done.
	Outcome *process.Outcome
}

// Item is one operation on one process of one agent.
type Item struct {
	ID   string // unique, the id the agent knows it by
	Task string
	// App and User are those of the task.
	App     string
	User    string
	Agent   string
	Process process.ID
	Op      process.Op
	// Spec is shared by all items of a request: it must not be changed.
	Spec *process.Spec
	// SpecSize is how many bytes the spec takes as JSON.
	SpecSize int
	State    task.State
	// Attempts counts how often it was sent.
	Attempts int
	Created  time.Time
	// Deadline is when the item ends without the agent's word.
	Deadline time.Time
}

// Items is what the engine needs.
type Items interface {
	Queue
	Precedence
	Results
	Retention
}

// Queue is what is still to be sent. Its methods do to an item what task.Next says of the event that they stand for.
type Queue interface {
	// LeaseItems returns up to limit items that are due (pending, or sent and past their resend time) and whose process
	// has no older item that is not done, or that may pass these, oldest first; it marks them as leased until the given
	// time so that no other caller gets them.
	LeaseItems(ctx context.Context, now, until time.Time, limit int) ([]Item, error)
	// MarkSent moves items to at least Sent, counts the attempt and sets when they are due again, unless they are
	// accepted.
	MarkSent(ctx context.Context, ids []string, resend time.Time) error
	// Postpone sets when items are due again, unless they are accepted.
	Postpone(ctx context.Context, ids []string, due time.Time) error
	// MarkAccepted moves items to at least Accepted; they are no longer sent. Their deadlines move to the given time,
	// if it is later; zero leaves them.
	MarkAccepted(ctx context.Context, ids []string, until time.Time) error
	// NextDue returns the earliest time at which LeaseItems would return an item; ok is false when there is none. An
	// item that waits for an older one has no such time.
	NextDue(ctx context.Context) (at time.Time, ok bool, err error)
	// Unfinished returns the items of one agent that are Sent or more and not Done, oldest first.
	Unfinished(ctx context.Context, agent string) ([]Item, error)
}

// Precedence is what goes before older items of its process.
type Precedence interface {
	// Pass makes due what need not wait any longer for older items of its process although these are not done: stops,
	// unhosts and queries once the agent has all of them, kills at once. It reports whether more of these wait.
	Pass(ctx context.Context) (waits bool, err error)
}

// Results is what becomes of items. An unknown id is skipped. Where an agent is named, items of other agents are
// skipped too; an empty agent matches any.
type Results interface {
	// Wanted is MarkAccepted for what an agent has and has not begun. It returns those that it must not begin: they are
	// done, another's, or not there.
	Wanted(ctx context.Context, agent string, ids []string, until time.Time) (ended []string, err error)
	// Begin moves items to Begun and sets their deadlines, unless they have begun or are done.
	Begin(ctx context.Context, agent string, deadlines map[string]time.Time) error
	// Finish gives items the outcomes that agents have told, all of them or none. An item that is done keeps the one it
	// has. It returns the ids of the tasks of the items that were finished now, each once, in no order.
	Finish(ctx context.Context, given []ReportedOutcome) (tasks []string, err error)
	// Conclude gives items an outcome that the server has decided on by what it had read of them. An item whose state
	// has changed since then is left alone. It returns what Finish does.
	Conclude(ctx context.Context, ended []DecidedOutcome) (tasks []string, err error)
	// Overdue returns up to limit items whose deadline has passed, oldest deadline first.
	Overdue(ctx context.Context, now time.Time, limit int) ([]Item, error)
	// NextDeadline returns the earliest deadline of an item that is not done; ok is false when there is none.
	NextDeadline(ctx context.Context) (at time.Time, ok bool, err error)
}

// ReportedOutcome is the outcome that an agent has given to an item.
type ReportedOutcome struct {
	Agent   string
	Item    string
	Outcome process.Outcome
}

// DecidedOutcome is an item as it was read, and the outcome it should have.
type DecidedOutcome struct {
	Item    Item
	Outcome process.Outcome
}

// Retention removes what is old.
type Retention interface {
	// PruneTasks removes up to limit tasks that were created before the given time and whose items are all done, oldest
	// first; it returns how many.
	PruneTasks(ctx context.Context, before time.Time, limit int) (int, error)
	// PruneAudit removes up to limit of the oldest audit rows if they are from before the given time; it returns how
	// many.
	PruneAudit(ctx context.Context, before time.Time, limit int) (int, error)
}

// Agent is a host that has joined.
type Agent struct {
	Key   string // public nkey
	Cloud int
	IP    string
	ID    string // its own stable id; empty for one known as cloud:ip only
	// Assigned is an id that a caller has given it beside its own; empty for none.
	Assigned string
	Build    string
	Created  time.Time
	// Token is the id of the JoinToken that it has joined with; Labels and Business are what that gave it. All may be
	// empty.
	Token    string
	Labels   map[string]string
	Business int64
	// Name is what its host calls itself; Place tells host and data directory from every other, and changes with a
	// reboot. Both may be empty.
	Name, Place string
	// Replaces is the key of the agent whose place this one takes as it joins; it is not stored.
	Replaces string
}

// Agents is the register of hosts.
type Agents interface {
	// PutAgent inserts the agent or replaces what is known of it. One without process groups takes over those of the
	// agent that had its address before: that is the same host, installed anew.
	PutAgent(ctx context.Context, a Agent) error
	// ChangeAgent is PutAgent for an agent that is there; ErrNotFound for one that is not.
	ChangeAgent(ctx context.Context, a Agent) error
	// GetAgents returns those of the given keys that are there, in no order.
	GetAgents(ctx context.Context, keys []string) ([]Agent, error)
	// ListAgents returns all agents, ordered by cloud, ip and key.
	ListAgents(ctx context.Context) ([]Agent, error)
}

// Observed is the last word of an agent about one process. Several of those that a method returns may share a Spec: it
// must not be changed.
type Observed struct {
	Agent   string
	Process process.ID
	Status  process.Status
	Spec    *process.Spec
}

// MostProcesses is how many processes an agent may have. So many that it has had are remembered at least.
const MostProcesses = 10_000

// ErrTooManyProcesses refuses states of an agent that would have more than MostProcesses.
var ErrTooManyProcesses = fmt.Errorf("this host has more than %d processes", MostProcesses)

// MostBytes is how many bytes the states and the specs of an agent's processes may take, and as many again those that
// it has confirmed.
const MostBytes = 64 << 20

// ErrTooMuch refuses states of an agent that would take more than MostBytes.
var ErrTooMuch = fmt.Errorf("the states and specs of this host take more than %d bytes", MostBytes)

// Observations is the observed state of processes.
type Observations interface {
	// PutObserved upserts rows, and removes those of gone, in one transaction. A row with a nil Spec keeps the stored
	// one. It does nothing and returns ErrOvertaken, ErrOtherSession or ErrEarlierSession where the report that told
	// them is not in its turn, and ErrTooManyProcesses where there would be too many, or ErrTooMuch.
	PutObserved(ctx context.Context, from ReportMark, rows []Observed, gone []Removal) error
	// ReplaceObserved makes rows all that is known of the agent of the report, beside what is known already of the
	// processes to keep. It is else as PutObserved.
	ReplaceObserved(ctx context.Context, from ReportMark, rows []Observed, keep []process.ID) error
	// LastSession returns the session of the agent's last introduction that was taken; empty where there was none.
	LastSession(ctx context.Context, agent string) (string, error)
	// GetObserved calls fn for the rows of one process on the given agents, in the order of the agents; a missing row
	// is skipped.
	GetObserved(ctx context.Context, id process.ID, agents []string, fn func(Observed) error) error
	// PageObserved returns the rows of a namespace from start, and how many there are in all. They are in the order in
	// which they came, so that whoever reads page by page sees none twice when others are added meanwhile. Fewer come
	// than there are where they are large, but one at least.
	PageObserved(ctx context.Context, namespace string, start, limit int) (rows []Observed, total int, err error)
}

// ObservedKey names one row of Observations.
type ObservedKey struct {
	Agent   string
	Process process.ID
}
