package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/rollout"
	"drover/internal/server/store"
)

// useRevisions calls the methods of store.Revisions, on so many revisions that old ones can go.
func useRevisions(t *testing.T, db store.Store, now time.Time) {
	t.Helper()
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	for n := range store.KeptRevisions + 2 {
		do(Create(ctx, db, &store.Task{
			ID: fmt.Sprint("revision ", n), Created: now, ExpectedRevision: &store.ExpectedRevision{Namespace: "revised", Number: int64(n)},
			Requests: []store.Request{{
				Op: process.Register, Process: process.ID{Namespace: "revised", Name: fmt.Sprint(n)},
				Spec: &process.Spec{User: fmt.Sprint(n)}, Targets: []store.Target{{ItemKey: "k", Agent: "a"}},
			}},
		}, store.AuditRow{At: now}))
	}
	_, err := db.LatestRevision(ctx, "revised")
	do(err)
	for _, sees := range []func(string) bool{nil, func(string) bool { return true }} {
		_, _, err = db.ListRevisions(ctx, store.RevisionFilter{Namespace: "revised", Sees: sees}, 2)
		do(err)
	}
	_, err = db.PlacedAt(ctx, "revised", store.KeptRevisions)
	do(err)
	_, _, err = db.RevisedSpecs(ctx, process.ID{Namespace: "revised", Name: "1"}, "a", 1, 2)
	do(err)
	_, err = db.OpenRevision(ctx, "revised")
	do(err)
	row := store.Upkeep{Process: process.ID{Namespace: "revised", Name: "1"}, Agent: "gone", Serial: 1}
	do(db.PutUpkeep(ctx, []store.Upkeep{row}))
	row.Agent = "a"
	do(db.PutUpkeep(ctx, []store.Upkeep{row}))
	other := row
	other.Process.Namespace = "other" // it stays
	do(db.PutUpkeep(ctx, []store.Upkeep{other}))
	row.Serial = 2
	do(db.PutUpkeep(ctx, []store.Upkeep{row}))
	do(db.PutSelections(ctx, store.SelectionChange{
		Namespace: "revised", Now: []store.Selection{{Process: row.Process, Selector: "role=web", Spec: &process.Spec{}}},
		Members: []store.ObservedKey{{Agent: "a", Process: row.Process}},
	}, store.Revision{At: now}, nil, store.AuditRow{At: now}))
	for _, namespace := range []string{"", "revised"} {
		_, err = db.ListSelections(ctx, namespace)
		do(err)
	}
	_, err = db.UpkeepOn(ctx, []string{"a"})
	do(err)
	_, err = db.PlacedOn(ctx, []string{"a"})
	do(err)
	_, err = db.RemovedOn(ctx, []string{"a"})
	do(err)
	_, err = db.FiledAs(ctx, row.Process, []string{"a"})
	do(err)
	_, err = db.BusyOn(ctx, []string{"a"})
	do(err)
	do(db.TaskFaults(ctx, []string{"1"}, []string{"a"}, func(string, store.ObservedKey, process.Fault) {}))
	removed, err := db.PruneRevisions(ctx, now.Add(time.Hour), 3)
	do(err)
	if removed != 3 {
		t.Fatalf("%d revisions were removed", removed)
	}
}

// Use calls every method of a store at least once, so that all its statements run.
func Use(t *testing.T, db store.Store) {
	t.Helper()
	ctx, now := t.Context(), time.Now()
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"1", "2"} {
		do(Create(ctx, db, &store.Task{ID: id, Created: now, Requests: []store.Request{
			{Op: process.Start, Spec: &process.Spec{}, Targets: []store.Target{{ItemKey: "k", Agent: "a"}}},
		}}, store.AuditRow{At: now}))
	}
	do(Create(ctx, db, &store.Task{ID: "3", Created: now, Requests: []store.Request{
		{Op: process.Query, Targets: []store.Target{{ItemKey: "k", Agent: "a"}}},
	}}, store.AuditRow{At: now}))
	_, err := db.WaitingAgents(ctx)
	do(err)
	_, err = db.EndWaiting(ctx, "none", now, process.Outcome{Fault: process.AgentUnavailable})
	do(err)
	waits, err := db.Pass(ctx)
	do(err)
	if !waits {
		t.Fatal("the query waits for nothing")
	}
	items, err := db.LeaseItems(ctx, now, now, 10)
	do(err)
	if len(items) != 1 {
		t.Fatalf("%d items are due", len(items))
	}
	ids := []string{items[0].ID}
	do(db.MarkSent(ctx, ids, now))
	do(db.Postpone(ctx, ids, now))
	do(db.MarkAccepted(ctx, ids, time.Time{}))
	do(db.Begin(ctx, "a", map[string]time.Time{ids[0]: now}))
	_, err = db.Unfinished(ctx, "a")
	do(err)
	_, err = db.Overdue(ctx, now, 1)
	do(err)
	_, err = db.Conclude(ctx, []store.DecidedOutcome{{Item: items[0]}})
	do(err)
	_, err = db.Finish(ctx, Reported("a", map[string]process.Outcome{ids[0]: {}}))
	do(err)
	_, _, err = db.NextDue(ctx)
	do(err)
	_, _, err = db.NextDeadline(ctx)
	do(err)
	do(db.TaskItems(ctx, "1", "", func(store.ItemView) error { return nil }))
	_, err = db.CancelTask(ctx, "1", "", now)
	do(err)
	_, _, err = db.LeaseCancels(ctx, now, now, 1)
	do(err)
	do(db.CancelHeard(ctx, ids))
	do(createRollout(ctx, db, newRollout("ro-use", "use"), store.AuditRow{}))
	_, err = db.GetRollout(ctx, "ro-use", "")
	do(err)
	_, err = db.ListRollouts(ctx, store.RolloutFilter{
		Sight: store.Sight{App: "app", Within: []string{"a"}}, State: rollout.Running, Active: true, Namespace: "a", Agents: ids,
	}, 9, 1)
	do(err)
	_, err = db.RolloutSteps(ctx, "ro-use")
	do(err)
	_, err = db.AbortedRollouts(ctx, []string{"ro-1"})
	do(err)
	_, _, err = db.OpenRollouts(ctx, now)
	do(err)
	useSchedules(t, db)
	_, err = db.ChangeRollout(ctx, "ro-use", "", store.RolloutChange{}, func(r *rollout.Rollout) error {
		r.Hosts[0].Batch++
		return nil
	})
	do(err)
	_, err = db.PruneRollouts(ctx, now, 1)
	do(err)
	do(db.PutRepeat(ctx, store.Repeat{Of: "a"}, now))
	_, err = db.FindRepeat(ctx, "a")
	do(err)
	do(db.DropRepeat(ctx, "a"))
	_, err = db.PruneTasks(ctx, now.Add(time.Hour), 1)
	do(err)
	_, err = db.PruneAudit(ctx, now, 1)
	do(err)
	do(db.PutAudit(ctx, store.AuditRow{}))
	allowed := false
	for _, f := range []store.AuditFilter{
		{},
		{Since: now, Until: now},
		{App: "a"},
		{User: "u"},
		{RequestID: "r"},
		{Action: "x"},
		{Allowed: &allowed},
		{Before: store.AuditMark{At: now, Num: 1}},
	} {
		_, err = db.ListAudit(ctx, f)
		do(err)
	}
	do(db.CreateJoinToken(ctx, store.JoinToken{ID: "t", Created: now, Expires: now}))
	_, err = db.GetJoinToken(ctx, "t")
	do(err)
	_, err = db.ListJoinTokens(ctx, "", 1)
	do(err)
	do(db.UseJoinToken(ctx, store.Agent{Key: "joined", Token: "t"}, func(store.JoinToken, bool) error { return nil }))
	_, err = db.RevokeJoinToken(ctx, "t", now)
	do(err)
	do(db.RemoveAgent(ctx, "joined", now, nil))
	do(db.UseJoinToken(ctx, store.Agent{Key: "joined", Token: "t"}, func(store.JoinToken, bool) error { return nil }))
	_, err = db.ListServers(ctx)
	do(err)
	_, err = db.StaysBetween(ctx, now, now, 1)
	do(err)
	_, err = db.FormerNames(ctx, 1)
	do(err)
	do(db.RemoveAgent(ctx, "joined", now, nil))
	_, err = db.ListFormer(ctx, 10)
	do(err)
	_, err = db.ListRemoved(ctx)
	do(err)
	row := store.Observed{Agent: "a", Status: process.Status{Revision: 1}, Spec: &process.Spec{}}
	do(db.PutObserved(ctx, store.ReportMark{}, []store.Observed{row}, []store.Removal{{Agent: "b", Revision: 1}}))
	do(replaced(db.ReplaceObserved(ctx, store.ReportMark{Agent: "a"}, []store.Observed{row}, nil)))
	_, err = db.LastSession(ctx, "a")
	do(err)
	_, err = db.AgentConfirmed(ctx, "a")
	do(err)
	_, err = db.GetConfirmed(ctx, "a", []process.ID{{}})
	do(err)
	_, err = db.PruneConfirmed(ctx, now, 1)
	do(err)
	do(db.GetObserved(ctx, process.ID{}, []string{"a"}, func(store.Observed) error { return nil }))
	_, _, err = db.PageObserved(ctx, "", 0, 1)
	do(err)
	do(db.PutPackage(ctx, store.Package{Version: "1", Arch: "amd64"}))
	do(db.PutPackage(ctx, store.Package{Version: "2", Arch: "amd64"}))
	do(db.PutPiece(ctx, store.Package{Version: "1", Arch: "amd64"}, 0, []byte("piece")))
	_, err = db.GetPackage(ctx, "1", "amd64")
	do(err)
	_, err = db.GetPiece(ctx, "1", "amd64", 0)
	do(err)
	_, err = db.ListPackages(ctx)
	do(err)
	do(db.RemovePackage(ctx, "2", "amd64"))
	do(db.PutGroups(ctx, []store.GroupHost{{Agent: "a"}}, []process.Group{{}}))
	do(db.PutAgent(ctx, store.Agent{Key: "a"}))
	do(db.PutAgent(ctx, store.Agent{Key: "c"})) // this agent takes over the groups
	do(db.GetGroups(ctx, "", []string{"a"}, func(string, process.Group) error { return nil }))
	_, err = db.AgentGroups(ctx, "a")
	do(err)
	_, err = db.GroupUsage(ctx, "", []string{"a"})
	do(err)
	for _, f := range []store.ObservedFilter{
		{},
		{Namespace: "n", Name: "a"},
		{Namespace: "n*", Name: "a*"},
		{Process: process.ID{Namespace: "n", Name: "a"}},
		{Agents: []string{"a"}, States: []string{"up"}, Spec: true},
		{Within: []string{"n*", "o"}},
	} {
		_, _, err = db.ListObserved(ctx, f, store.ObservedKey{}, 1)
		do(err)
	}
	for _, f := range []store.TaskFilter{
		{},
		{App: "a"},
		{Done: &allowed},
		{Failed: &allowed, User: "u", Since: now, Agents: []string{"a"}},
		{Sight: store.Sight{App: "a", Within: []string{"n*"}}, Op: process.Start, Namespace: "n*"},
	} {
		_, err = db.ListTasks(ctx, f, 0, 1)
		do(err)
	}
	_, err = db.GetTask(ctx, "2", "")
	do(err)
	for _, f := range []store.OpenItemFilter{{}, {Process: process.ID{Name: "p"}, Before: now}} {
		_, err = db.ListOpenItems(ctx, f, 1)
		do(err)
	}
	useRevisions(t, db, now)
	_, err = db.PutEvents(ctx, "a", now, NewEvents(process.Event{Stream: "s", Seq: 1}))
	do(err)
	for _, f := range []store.EventFilter{
		{},
		{Namespaces: []string{"n"}, Name: "a"},
		{Namespaces: []string{"n", "m*"}, Name: "a*", Kinds: []process.EventKind{process.EventExited}},
		{Agents: []string{"a"}, From: now, Until: now},
		{Agents: []string{"a", "b"}, Name: "a"},
		{Kinds: []process.EventKind{process.EventExited}, Name: "a"},
	} {
		_, _, err = db.EventsAfter(ctx, 0, f, 1)
		do(err)
		_, _, err = db.EventsBefore(ctx, store.EventMark{}, f, 1)
		do(err)
	}
	_, err = db.LastCursor(ctx)
	do(err)
	_, err = db.PruneEvents(ctx, now, 1)
	do(err)
	_, err = db.LastEvents(ctx, "a", 2)
	do(err)
	_, _, err = db.Origin(ctx)
	do(err)
	do(db.SkipCursors(ctx, 1))
	_, err = db.CountEvents(ctx)
	do(err)
	_, err = db.TrimEvents(ctx, "a", 1, 1)
	do(err)
	do(db.PutAgent(ctx, store.Agent{Key: "a"}))
	_, err = db.ListAgents(ctx)
	do(err)
	do(db.CreateApp(ctx, store.App{Code: "a"}))
	_, err = db.GetApp(ctx, "a")
	do(err)
	_, err = db.ChangeApp(ctx, "a", func(*store.App) error { return nil })
	do(err)
	_, err = db.ListApps(ctx, "", 1)
	do(err)
	_, err = db.CountApps(ctx)
	do(err)
	do(db.CreateUser(ctx, store.User{Name: "u"}))
	_, err = db.ChangeUser(ctx, "u", func(*store.User) error { return nil })
	do(err)
	_, err = db.GetUser(ctx, "u")
	do(err)
	_, err = db.ListUsers(ctx, "", 1)
	do(err)
	do(db.CreateToken(ctx, store.Token{ID: "t", Kind: store.APIToken, User: "u", Hash: "h"}))
	do(db.SeeToken(ctx, "h", now))
	held := store.CallerSelection{ID: "h", App: "a", User: "u", Until: now.Add(time.Hour), Filter: "{}", Targets: []byte("[]")}
	do(db.HoldSelection(ctx, held, 10, false))
	held.ID = "h2"
	do(db.HoldSelection(ctx, held, 10, true))
	_, err = db.FindSelection(ctx, "h", "a", "u", now)
	do(err)
	do(db.SaveView(ctx, store.SavedView{ID: "v1", User: "u", Name: "n", Query: "state=failed", Created: now}))
	_, err = db.ListViews(ctx, "u")
	do(err)
	do(db.SaveView(ctx, store.SavedView{ID: "v2", User: "u", Name: "m", Created: now}))
	do(db.RemoveView(ctx, "v2"))
	do(db.CreateDevice(ctx, store.Device{Hash: "d", Code: "c", Name: "n", Created: now, Expires: now.Add(time.Hour)}))
	do(db.CreateToken(ctx, store.Token{ID: "t9", Kind: store.Link, User: "u", Hash: "h9"}))
	do(db.CreateToken(ctx, store.Token{ID: "t8", Kind: store.Link, User: "u", Hash: "h8", Via: []string{"t9"}}))
	_, err = db.TakeToken(ctx, "h8", &store.Token{ID: "t7", Kind: store.Session, Hash: "h7"})
	do(err)
	_, err = db.TakeToken(ctx, "h9", nil)
	do(err)
	_, _, err = db.FindToken(ctx, "h")
	do(err)
	_, err = db.ListTokens(ctx, "u")
	do(err)
	do(db.DeleteToken(ctx, "u", "t"))
	do(db.Ping(context.WithoutCancel(ctx)))
}
