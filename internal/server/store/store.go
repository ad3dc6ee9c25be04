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

// ErrNotFound is returned if the requested record does not exist.
var ErrNotFound = errors.New("not found")

// Failure is an error of the database itself, not of the request. Its text is the text of the error that it holds.
type Failure struct{ Err error }

// Error returns the text.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap returns the error.
func (f *Failure) Unwrap() error { return f.Err }

// FullError is returned by writes if the disk of the database is full, or has only the reserve left. Two kinds of
// writes may use the reserve: the creation of a task that only stops, kills or unhosts, and the results of existing
// tasks.
type FullError struct {
	// Since is the time at which the store first found the disk full.
	Since time.Time
	Err   error
}

// Error returns the text for an operator.
func (e *FullError) Error() string {
	return fmt.Sprintf("the disk of the server's database is full, since %s", e.Since.UTC().Format(time.RFC3339))
}

// Unwrap returns the cause.
func (e *FullError) Unwrap() error { return e.Err }

// ErrAway is the error of a store whose database does not answer, or accepts no writes at the moment: a later attempt
// may succeed. A write that ends with it may be stored.
var ErrAway = errors.New("the database is away")

// Fullness tells whether the disk of the database is full.
type Fullness interface {
	// FullSince returns the time since which writes find no room; the zero time means that there is room.
	FullSince() time.Time
}

// Store is everything that a database offers.
type Store interface { //nolint:interfacebloat // the sum of the small interfaces, for the code that opens a store
	Tasks
	Repeats
	Items
	Rollouts
	RolloutSteps
	Schedules
	Agents
	Joining
	Proxies
	Packages
	Groups
	Observations
	Confirmations
	Revisions
	FileSelections
	CallerSelections
	Upkeeping
	Filings
	Listing
	Events
	Timeline
	Runs
	Apps
	Users
	Tokens
	Devices
	SavedViews
	Receivers
	Silences
	Breakers
	Counting
	Watching
	Audit
	Cluster
	Hubs
	Facts
	Fullness
	// Ping fails if the database cannot accept a write now.
	Ping(ctx context.Context) error
	Close() error
}

// TasksKept is how long the servers keep a task or a rollout after its end.
const TasksKept = 7 * 24 * time.Hour

// Task is one accepted call.
type Task struct {
	ID        string
	App       string
	User      string
	RequestID string
	Created   time.Time
	Requests  []Request
	// HostTimeout is the time in which each agent must accept its items; 0 means task.WaitLimit. The store keeps it
	// only as the deadlines of the items.
	HostTimeout time.Duration
	// Ordered tells that the task comes from drover's own API: the operations of one host wait for each other, as the
	// specs say (process.Spec.After), and a start does not begin a second copy (process.Beside).
	Ordered bool
	// Through and Message go to the revisions that the task makes.
	Through, Message string
	// ExpectedRevision is the revision of a namespace that the caller knows, if the task depends on it.
	ExpectedRevision *ExpectedRevision
	// Exclusive tells that CreateTask returns *RolloutBusyError if an active rollout has one of the processes.
	Exclusive bool
	// Selector is the expression that selected the hosts; empty if there was none. The targets are its result.
	Selector string
	// Selections are the selections that the task changes; nil if it changes none.
	Selections *SelectionChange
	// Upkeep are rows that CreateTask stores as PutUpkeep does, because a server makes the task by itself.
	Upkeep []Upkeep
	// Reason says why a server makes the task by itself (v1.Operation.Reason); empty if it does not.
	Reason string
	// Run is the run of a schedule that begins with the task; nil if there is none.
	Run *ScheduleRun
	// Asks tells that each agent asks a server before it begins an operation. So an operation that the server has given
	// up before the agent asked never begins.
	Asks bool
}

// ExpectedRevision is the latest revision of a namespace that a caller knows.
type ExpectedRevision struct {
	Namespace string
	Number    int64
}

// Request is one operation on one process of many agents.
type Request struct {
	Op      process.Op
	Process process.ID
	// Spec is nil if the agent should use its stored spec.
	Spec    *process.Spec
	Targets []Target
	// Removes tells that the operation is the first part of a removal of the process.
	Removes bool
	// ReportedSpec is the spec that a poll shows if Spec is nil: the last spec that the agents reported; it may be nil.
	ReportedSpec *process.Spec
}

// Target is one agent as the caller named it.
type Target struct {
	// ItemKey is the result key in the form that callers see. Several targets of a task may share a key: the last
	// target counts. If a target equals the previous target of its agent and process (the same operation and spec; a
	// Query with any spec), both are one operation. drover executes it once, and each key gets the outcome.
	ItemKey string
	// Spelling is the agent in the caller's spelling, such as "0:10.0.0.1".
	Spelling string
	// Agent is the agent's nkey; empty if no agent has that name.
	Agent string
	// Outcome is set if the answer is known without a question to the agent.
	Outcome *process.Outcome
}

// Tasks is the part of the store for the HTTP APIs.
type Tasks interface {
	// CreateTask stores the task, all its items and the audit row in one transaction. When it returns nil, they are on
	// disk. It rejects a task whose id is taken, and a target that has neither an agent nor an outcome. It also leases,
	// in the same transaction, up to limit of the items that Queue.LeaseItems would return now, and returns them in
	// their order. In that transaction it also makes the revisions of the task, and puts their numbers into the specs
	// of the items. It returns ErrRevised if Task.Known is not the latest revision, and ErrUpkept as PutUpkeep does;
	// about *RolloutBusyError see Task.Exclusive.
	CreateTask(ctx context.Context, t *Task, row AuditRow, until time.Time, limit int) ([]Item, error)
	// TaskItems calls fn for the last item of every key of the task, in the order in which the keys first appeared. It
	// returns ErrNotFound for an unknown task and for a task of another app (an empty app matches any).
	TaskItems(ctx context.Context, id, app string, fn func(ItemView) error) error
	// TaskOpen reports whether a task has keys whose last item is not done. It returns ErrNotFound for an unknown task.
	// Its cost does not depend on the size of the task.
	TaskOpen(ctx context.Context, id string) (bool, error)
	// OpenItems counts the unfinished items of all tasks.
	OpenItems(ctx context.Context) (int, error)
}

// Repeat is a call that was answered before its task ended, so that its caller will repeat it.
type Repeat struct {
	// Of identifies the caller and the subject of the call; What identifies the request. Either may be any text.
	Of, What string
	Task     string
	At       time.Time
}

// Repeats remembers calls that their callers will repeat, one for each subject.
type Repeats interface {
	// PutRepeat remembers a call, replaces an earlier call about the same subject, and deletes calls from before the
	// given time.
	PutRepeat(ctx context.Context, r Repeat, before time.Time) error
	// FindRepeat returns the call about a subject, or ErrNotFound if there is none.
	FindRepeat(ctx context.Context, of string) (Repeat, error)
	// DropRepeat deletes the call about a subject.
	DropRepeat(ctx context.Context, of string) error
}

// ItemView is an item as a poll shows it.
type ItemView struct {
	ItemKey  string
	Spelling string
	Cloud    int
	IP       string
	AgentID  string // assigned id, its own, or cloud:ip, of a known agent
	Op       process.Op
	Process  process.ID
	// ProcName, SetupPath, FuncID and InstanceID come from the item's spec.
	ProcName   string
	SetupPath  string
	FuncID     string
	InstanceID string
	Done       bool
	// Outcome is set if the item is done.
	Outcome *process.Outcome
	// Cancelling tells that the agent decides whether a cancelled item begins.
	Cancelling bool
}

// Item is one operation on one process of one agent.
type Item struct {
	ID   string // unique, the id the agent knows it by
	Task string
	// App, User and Reason are those of the task.
	App     string
	User    string
	Reason  string
	Agent   string
	Process process.ID
	Op      process.Op
	// Spec is shared by all items of a request: callers must not change it.
	Spec *process.Spec
	// SpecSize is the size of the spec as JSON, in bytes.
	SpecSize int
	State    task.State
	// Attempts counts how often the server sent the item.
	Attempts int
	Created  time.Time
	// Deadline is the time at which the item ends without a report of the agent.
	Deadline time.Time
	// Ordered and Asks are those of the task, Removes is that of the request.
	Ordered, Asks, Removes bool
}

// Items is the part of the store for the engine.
type Items interface {
	Queue
	Precedence
	Results
	Cancelling
	Retention
}

// Queue holds the items to send. Each of its methods changes an item as task.Next defines for the corresponding event.
type Queue interface {
	// LeaseItems returns up to limit due items, oldest first. An item is due if it is pending, or sent and past its
	// resend time; its process must have no older unfinished item, unless the item may pass the older ones. LeaseItems
	// marks the items as leased until the given time, so that no other caller gets them.
	LeaseItems(ctx context.Context, now, until time.Time, limit int) ([]Item, error)
	// MarkSent moves items to at least Sent, counts the attempt and sets the time of the next attempt, unless the items
	// are accepted.
	MarkSent(ctx context.Context, ids []string, resend time.Time) error
	// Postpone sets the time at which items are due again, unless they are accepted.
	Postpone(ctx context.Context, ids []string, due time.Time) error
	// MarkAccepted moves items to at least Accepted; the server no longer sends them. It moves their deadlines to the
	// given time if that is later; zero leaves the deadlines.
	MarkAccepted(ctx context.Context, ids []string, until time.Time) error
	// NextDue returns the earliest time at which LeaseItems would return an item; ok is false if there is none. An item
	// that waits for an older item has no such time.
	NextDue(ctx context.Context) (at time.Time, ok bool, err error)
	// Unfinished returns the items of one agent that are Sent or more, not Done and not cancelled, oldest first.
	Unfinished(ctx context.Context, agent string) ([]Item, error)
}

// Precedence lets items pass older items of the same process.
type Precedence interface {
	// Pass makes items due that need not wait for older unfinished items of their process. These are stops, unhosts and
	// queries once the agent has all older items, and kills at once. Pass reports whether more such items wait.
	Pass(ctx context.Context) (waits bool, err error)
	// WaitingAgents returns the agents with items that wait for older ones of their process and were never sent, each
	// once.
	WaitingAgents(ctx context.Context) (agents []string, err error)
	// EndWaiting gives such items of an agent an outcome if their tasks were created by the given time. It returns the
	// same as Finish.
	EndWaiting(ctx context.Context, agent string, created time.Time, o process.Outcome) (tasks []string, err error)
}

// Results records the progress and the outcomes of items. Its methods skip an unknown id. If a method names an agent,
// it also skips items of other agents; an empty agent matches any.
type Results interface {
	// AcceptItems is MarkAccepted for items that an agent has and has not begun. It returns the items that the agent
	// must not begin: they are done or cancelled, belong to another agent, or do not exist.
	AcceptItems(ctx context.Context, agent string, ids []string, until time.Time) (ended []string, err error)
	// Begin moves items to Begun and sets their deadlines, unless they have begun or are done.
	Begin(ctx context.Context, agent string, deadlines map[string]time.Time) error
	// Finish gives items the outcomes that agents reported, all of them or none. A finished item keeps its outcome.
	// Finish returns the ids of the tasks whose items it finished, each once, unordered.
	Finish(ctx context.Context, given []ReportedOutcome) (tasks []string, err error)
	// Conclude gives items an outcome that the server decided from their state. It skips an item whose state has
	// changed since the server read it. It returns the same as Finish.
	Conclude(ctx context.Context, ended []DecidedOutcome) (tasks []string, err error)
	// Overdue returns up to limit items whose deadline has passed, earliest deadline first.
	Overdue(ctx context.Context, now time.Time, limit int) ([]Item, error)
	// NextDeadline returns the earliest deadline of an unfinished item; ok is false if there is none.
	NextDeadline(ctx context.Context) (at time.Time, ok bool, err error)
}

// ReportedOutcome is the outcome that an agent reported for an item.
type ReportedOutcome struct {
	Agent   string
	Item    string
	Outcome process.Outcome
}

// DecidedOutcome is an item as the server read it, and the outcome that the item should get.
type DecidedOutcome struct {
	Item    Item
	Outcome process.Outcome
}

// Retention removes old records.
type Retention interface {
	// PruneTasks removes up to limit tasks that were created before the given time and whose items are all done, oldest
	// first. It returns their number.
	PruneTasks(ctx context.Context, before time.Time, limit int) (int, error)
	// PruneAudit removes up to limit audit rows from before the given time, oldest first. It returns their number.
	PruneAudit(ctx context.Context, before time.Time, limit int) (int, error)
}

// Observed is the last report of an agent about one process. Several rows that a method returns may share a Spec:
// callers must not change it.
type Observed struct {
	Agent   string
	Process process.ID
	Status  process.Status
	Spec    *process.Spec
}

// MostProcesses is the largest number of processes of an agent. The store also remembers at least this many removed
// processes.
const MostProcesses = 10_000

// ErrTooManyProcesses rejects states of an agent that would have more than MostProcesses.
var ErrTooManyProcesses = fmt.Errorf("this host has more than %d processes", MostProcesses)

// MostBytes is the largest size of the states and specs of an agent's processes, in bytes. The confirmed records of the
// agent may have the same size again.
const MostBytes = 64 << 20

// ErrTooMuch rejects states of an agent that would need more than MostBytes.
var ErrTooMuch = fmt.Errorf("the states and specs of this host take more than %d bytes", MostBytes)

// Observations holds the observed state of processes.
type Observations interface {
	// PutObserved upserts rows and removes the rows of gone, in one transaction. A row with a nil Spec keeps the stored
	// spec. If the report is not in its turn, PutObserved does nothing and returns ErrOvertaken, ErrOtherSession or
	// ErrEarlierSession. It returns ErrTooManyProcesses or ErrTooMuch if the agent would exceed a limit.
	PutObserved(ctx context.Context, from ReportMark, rows []Observed, gone []Removal) error
	// ReplaceObserved replaces all rows of the agent by the given rows, but keeps the stored rows of the processes in
	// keep. known tells that from.LastStates is the last report with states that is stored, so the rows before are
	// those that the agent has told. Otherwise ReplaceObserved works as PutObserved.
	ReplaceObserved(ctx context.Context, from ReportMark, rows []Observed, keep []process.ID) (known bool, err error)
	// LastSession returns the session of the agent's last accepted introduction; empty if there is none.
	LastSession(ctx context.Context, agent string) (string, error)
	// GetObserved calls fn for the rows of one process on the given agents, in the order of the agents. It skips an
	// agent without a row.
	GetObserved(ctx context.Context, id process.ID, agents []string, fn func(Observed) error) error
	// PageObserved returns the rows of a namespace from start, and their total number. The rows are in the order of
	// their arrival, so a reader of all pages sees no row twice if rows are added meanwhile. If rows are large,
	// PageObserved returns fewer rows, but at least one.
	PageObserved(ctx context.Context, namespace string, start, limit int) (rows []Observed, total int, err error)
}

// ObservedKey names one row of Observations.
type ObservedKey struct {
	Agent   string
	Process process.ID
}
