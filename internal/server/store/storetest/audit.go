//nolint:thelper // these are the tests themselves, and fail at their own lines
package storetest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"drover/internal/server/store"
)

// auditRows returns the rows that match a filter, without their numbers.
func auditRows(t *testing.T, s store.Store, f store.AuditFilter) []store.AuditRow {
	t.Helper()
	rows, err := s.ListAudit(t.Context(), f)
	must(t, err)
	for i := range rows {
		if rows[i].Num == 0 {
			t.Errorf("row %+v has no number", rows[i])
		}
		rows[i].Num = 0
	}
	return rows
}

func audit(t *testing.T, s store.Store) {
	want := []store.AuditRow{
		{
			At: at(time.Second), App: "app", User: "u", Remote: "127.0.0.1:1", RequestID: "r", Action: "operate",
			Target:  "ns/a",
			Targets: 3, Allowed: true, Code: 0, Message: "success", Detail: json.RawMessage(`{"task":"t"}`),
		},
		{At: epoch, Action: "denied", Code: 1306201, Message: "no"},
	}
	must(t, s.PutAudit(t.Context(), want[0], want[1]))
	must(t, s.PutAudit(t.Context()))
	same(t, "rows", want, auditRows(t, s, store.AuditFilter{Limit: 10}))
	same(t, "the newest", want[:1], auditRows(t, s, store.AuditFilter{Limit: 1}))
	same(t, "none", []store.AuditRow(nil), auditRows(t, s, store.AuditFilter{}))

	createAt(t, s, "t", at(time.Minute), request("start", "a", "x"))
	same(t, "the row of a task", []store.AuditRow{{At: at(time.Minute), Action: "operate", Target: "t"}},
		auditRows(t, s, store.AuditFilter{Limit: 1}))
}

func auditFiltered(t *testing.T, s store.Store) {
	row := func(n int, app, user, action, request string, allowed bool) store.AuditRow {
		return store.AuditRow{
			At: at(time.Duration(n) * time.Second), App: app, User: user, Action: action,
			RequestID: request, Allowed: allowed,
		}
	}
	rows := []store.AuditRow{
		row(0, "a", "ann", "start", "r0", true),
		row(1, "b", "ann", "stop", "r1", false),
		row(2, "a", "bob", "stop", "r2", true),
		row(3, "a", "ann", "stop", "r3", false),
	}
	must(t, s.PutAudit(t.Context(), rows...))
	yes, no := true, false
	for name, tt := range map[string]struct {
		filter store.AuditFilter
		want   []int
	}{
		"nothing": {store.AuditFilter{}, []int{3, 2, 1, 0}},
		"app":     {store.AuditFilter{App: "a"}, []int{3, 2, 0}},
		"user":    {store.AuditFilter{User: "ann"}, []int{3, 1, 0}},
		"action":  {store.AuditFilter{Action: "stop"}, []int{3, 2, 1}},
		"request": {store.AuditFilter{RequestID: "r1"}, []int{1}},
		"allowed": {store.AuditFilter{Allowed: &yes}, []int{2, 0}},
		"denied":  {store.AuditFilter{Allowed: &no}, []int{3, 1}},
		"since":   {store.AuditFilter{Since: at(2 * time.Second)}, []int{3, 2}},
		"until":   {store.AuditFilter{Until: at(2 * time.Second)}, []int{1, 0}},
		"both":    {store.AuditFilter{Since: at(time.Second), Until: at(2 * time.Second)}, []int{1}},
		"everything": {store.AuditFilter{
			App: "a", User: "ann", Action: "stop", RequestID: "r3", Allowed: &no,
			Since: at(3 * time.Second), Until: at(time.Hour),
		}, []int{3}},
		"a stranger": {store.AuditFilter{App: "c"}, nil},
	} {
		tt.filter.Limit = 10
		var want []store.AuditRow
		for _, i := range tt.want {
			want = append(want, rows[i])
		}
		same(t, name, want, auditRows(t, s, tt.filter))
	}
}

func auditPaged(t *testing.T, s store.Store) {
	// The rows are not stored in the order of their times, and several have the same time.
	for i, second := range []int{3, 1, 1, 1, 2, 0} {
		must(t,
			s.PutAudit(t.Context(), store.AuditRow{
				At: at(time.Duration(second) * time.Second), Action: fmt.Sprint(i),
				App: fmt.Sprint(i % 2),
			}))
	}
	walk := func(f store.AuditFilter) (seen string) {
		t.Helper()
		for {
			rows, err := s.ListAudit(t.Context(), f)
			must(t, err)
			if len(rows) == 0 {
				return seen
			}
			for _, r := range rows {
				seen += r.Action
			}
			f.Before = rows[len(rows)-1].Mark()
		}
	}
	for limit := 1; limit < 8; limit++ {
		same(t, fmt.Sprintf("pages of %d", limit), "043215", walk(store.AuditFilter{Limit: limit}))
		same(t, fmt.Sprintf("filtered pages of %d", limit), "042", walk(store.AuditFilter{Limit: limit, App: "0"}))
	}
}

func pruneAudit(t *testing.T, s store.Store) {
	for i := range 5 {
		must(t, s.PutAudit(t.Context(), store.AuditRow{At: at(time.Duration(i) * time.Second), Action: fmt.Sprint(i)}))
	}
	for _, want := range []int{2, 1, 0} {
		n, err := s.PruneAudit(t.Context(), at(3*time.Second), 2)
		must(t, err)
		if n != want {
			t.Errorf("%d rows were removed, want %d", n, want)
		}
	}
	rows := auditRows(t, s, store.AuditFilter{Limit: 10})
	if len(rows) != 2 || rows[0].Action != "4" || rows[1].Action != "3" {
		t.Errorf("left are %+v", rows)
	}
}
