// Package storetest holds the suite that every implementation of store.Store passes. It owns the promises of the
// interfaces. Other behaviour of a database, for example on a full disk, has its tests in the package of the database.
//
//nolint:thelper // these are the tests themselves, and fail at their own lines
package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/spec"
)

// Run tests the stores that open returns. Each call of open gives an empty one, which is closed by the suite.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	t.Helper()
	for _, part := range []struct {
		name string
		run  func(*testing.T, store.Store)
	}{
		{"task with many targets", manyTargets},
		{"task that is open", openTask},
		{"task read by app", taskByApp},
		{"task with a taken id", takenID},
		{"task without agent or outcome", nobodyToAsk},
		{"task with known outcomes", knownOutcomes},
		{"task with repeated keys", repeatedKeys},
		{"task with a process under several keys", twins},
		{"calls that are repeated", repeats},
		{"task with odd texts", oddTexts},
		{"view of an agent", viewOfAgent},
		{"stored spec is shown", storedSpecShown},
		{"reader may stop", readerStops},
		{"lease once", leaseOnce},
		{"lease with the task", createLeased},
		{"lease in order of a process", leaseInOrder},
		{"lease across keys and tasks", leaseAcrossTasks},
		{"lease survives another agent's flood", leaseBesideFlood},
		{"some pass what the agent has", pass},
		{"resend", resend},
		{"begin and finish", beginAndFinish},
		{"finish names the tasks", finishTasks},
		{"results of another agent", foreignResults},
		{"conclude", conclude},
		{"overdue", overdue},
		{"unfinished", unfinished},
		{"unknown ids", unknownIDs},
		{"machine", agreesWithMachine},
		{"wanted", wanted},
		{"rollouts", rollouts},
		{"steps of rollouts", rolloutSteps},
		{"rollouts changed", rolloutsChanged},
		{"rollouts undone", rolloutsUndone},
		{"ends of what waits", endWaiting},
		{"rollouts over one process", rolloutsApart},
		{"schedules", schedules},
		{"runs of schedules", scheduleRuns},
		{"runs of schedules kept", scheduleRunsKept},
		{"alarms of schedules", scheduleAlarms},
		{"schedules corrected", schedulesCorrected},
		{"cancel a task", cancelTask},
		{"cancelled items are not sent", cancelledStay},
		{"writers side by side", concurrent},
		{"reports at once", reportsAtOnce},
		{"prune tasks", pruneTasks},
		{"prune audit", pruneAudit},
		{"agents", agents},
		{"labels of agents", agentLabels},
		{"agents removed", agentsRemoved},
		{"agents replaced", agentsReplaced},
		{"join tokens", joinTokens},
		{"join tokens used", joinTokensUsed},
		{"join tokens raced", joinTokensRaced},
		{"proxies", proxies},
		{"packages", packages},
		{"keys of others", keysOfOthers},
		{"groups", groups},
		{"groups of an agent", agentGroups},
		{"usage of groups", groupUsage},
		{"groups of a host installed anew", inheritedGroups},
		{"apps", apps},
		{"apps changed", appsChanged},
		{"apps paged", appsPaged},
		{"users", users},
		{"tokens", tokens},
		{"devices", devices},
		{"saved views", savedViews},
		{"tokens of disabled users", tokensOfDisabled},
		{"tokens of tokens", tokensOfTokens},
		{"audit", audit},
		{"audit filtered", auditFiltered},
		{"audit paged", auditPaged},
		{"observations", observations},
		{"observations replaced", observationsReplaced},
		{"observations are bounded", observationsAreBounded},
		{"observations take so much", observationsTakeSoMuch},
		{"observations paged", observationsPaged},
		{"observations paged while others come", observationsPagedMeanwhile},
		{"observations listed", listObserved},
		{"copies listed", listCopies},
		{"confirmed", confirmed},
		{"confirmed removals", confirmedRemovals},
		{"revisions", revisions},
		{"revision of a process that is gone", revisionOfWhatIsGone},
		{"revisions have numbers", revisionsNumbered},
		{"revisions at once", revisionsAtOnce},
		{"revisions paged", revisionsPaged},
		{"revisions pruned", pruneRevisions},
		{"revisions of incarnations", revisionsOfIncarnations},
		{"telling anew", tellingAnew},
		{"open revision", openRevision},
		{"selections", selections},
		{"selections with a task", selectionsWithTask},
		{"selections of a rollout", selectionsOfRollout},
		{"upkeep", upkeepOnce},
		{"placed on hosts", placedOn},
		{"what no file has", unfiled},
		{"tasks listed", listTasks},
		{"tasks of many namespaces", tasksOfManyNamespaces},
		{"polls of large tasks", largePolls},
		{"polls that are not read", slowPolls},
		{"list waiting", listWaiting},
		{"watching", watching},
		{"held selections", heldSelections},
		{"events", events},
		{"recorded states", recordedStates},
		{"states are what was", foldIsLife},
		{"events once", eventsOnce},
		{"events filtered", eventsFiltered},
		{"events among many", eventsAreFound},
		{"prune events", pruneEvents},
		{"trim events", trimEvents},
		{"receivers", receivers},
		{"receivers changed", receiversChanged},
		{"withheld alarms", withheldAlarms},
		{"silences", silences},
		{"breakers", breakers},
		{"deliveries", deliveries},
		{"figures", figures},
		{"leases", leases},
		{"servers", servers},
		{"hubs", hubs},
		{"identity", identity},
		{"clock", clock},
		{"agents changed", agentsChanged},
		{"reports in turn", reportsInTurn},
		{"ping", ping},
		{"cancelled", cancelled},
		{"closed", closed},
	} {
		t.Run(part.name, func(t *testing.T) {
			s := open(t)
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
			part.run(t, s)
		})
	}
}

// epoch is when the tasks of the suite are created.
//
//nolint:gochecknoglobals // a constant in all but form
var epoch = time.Date(2026, 11, 20, 10, 30, 0, 123456789, time.UTC)

func at(d time.Duration) time.Time { return epoch.Add(d) }

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// replaced drops what the store knows, for callers of ReplaceObserved that do not ask.
func replaced(_ bool, err error) error { return err }

func same(t *testing.T, what string, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// nginx returns a process with the given name, and a distinct spec.
func nginx(name string) (process.ID, *process.Spec) {
	return process.ID{Namespace: "ns", Name: name}, &process.Spec{
		ProcessName: "nginx", Directory: "/srv/" + name, User: "root", Start: "./start " + name,
		Compat: &spec.Compat{FuncID: "f-" + name, InstanceID: "i-" + name},
	}
}

// request asks for op on the named process of the agents; its keys are "agent:name".
func request(op process.Op, name string, agents ...string) store.Request {
	id, spec := nginx(name)
	r := store.Request{Op: op, Process: id, Spec: spec}
	for _, a := range agents {
		r.Targets = append(r.Targets, store.Target{ItemKey: a + ":" + name, Spelling: a, Agent: a})
	}
	return r
}

// create stores a task that was created at epoch.
func create(tb testing.TB, s store.Store, id string, requests ...store.Request) {
	tb.Helper()
	createAt(tb, s, id, epoch, requests...)
}

func createAt(tb testing.TB, s store.Store, id string, created time.Time, requests ...store.Request) {
	tb.Helper()
	must(tb, Create(tb.Context(), s, &store.Task{
		ID: id, App: "app", Created: created,
		Requests: requests,
	},
		store.AuditRow{At: created, Action: "operate", Target: id}))
}

// views returns the items that a poll of the task shows.
func views(t *testing.T, s store.Store, id string) []store.ItemView {
	t.Helper()
	var out []store.ItemView
	must(t, s.TaskItems(t.Context(), id, "", func(v store.ItemView) error {
		out = append(out, v)
		return nil
	}))
	return out
}

// lease leases items for a minute.
func lease(tb testing.TB, s store.Store, now time.Time, limit int) []store.Item {
	tb.Helper()
	items, err := s.LeaseItems(tb.Context(), now, now.Add(time.Minute), limit)
	must(tb, err)
	return items
}

// leaseOne leases the only due item.
func leaseOne(t *testing.T, s store.Store, now time.Time) store.Item {
	t.Helper()
	items := lease(t, s, now, 100)
	if len(items) != 1 {
		t.Fatalf("%d items are due, want 1: %s", len(items), brief(items))
	}
	return items[0]
}

// brief formats items as "op agent:name".
func brief(items []store.Item) []string {
	out := []string{}
	for _, it := range items {
		out = append(out, fmt.Sprintf("%s %s:%s", it.Op, it.Agent, it.Process.Name))
	}
	return out
}

func ids(items []store.Item) []string {
	out := []string{}
	for _, it := range items {
		out = append(out, it.ID)
	}
	return out
}

func finish(t *testing.T, s store.Store, it store.Item, o process.Outcome) []string {
	t.Helper()
	tasks, err := s.Finish(t.Context(), Reported(it.Agent, map[string]process.Outcome{it.ID: o}))
	must(t, err)
	slices.Sort(tasks)
	return tasks
}

func success() process.Outcome { return process.Outcome{Text: process.Success, Hosted: true} }

func ping(t *testing.T, s store.Store) {
	must(t, s.Ping(t.Context()))
}

func cancelled(t *testing.T, s store.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Ping(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("ping under a cancelled context: %v", err)
	}
	if err := s.TaskItems(ctx, "x", "", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("read under a cancelled context: %v", err)
	}
}

func closed(t *testing.T, s store.Store) {
	must(t, s.Close())
	if s.Ping(t.Context()) == nil {
		t.Error("a closed store takes writes")
	}
	if _, err := s.ListAgents(t.Context()); err == nil {
		t.Error("a closed store is read")
	}
}

// Create stores a task without a lease on any of its items.
func Create(ctx context.Context, s store.Tasks, t *store.Task, row store.AuditRow) error {
	_, err := s.CreateTask(ctx, t, row, time.Time{}, 0)
	return err
}

// Reported returns outcomes by item as outcomes that one agent has reported.
func Reported(agent string, outcomes map[string]process.Outcome) []store.ReportedOutcome {
	reported := make([]store.ReportedOutcome, 0, len(outcomes))
	for item, outcome := range outcomes {
		reported = append(reported, store.ReportedOutcome{Agent: agent, Item: item, Outcome: outcome})
	}
	return reported
}
