//nolint:thelper // these are the tests themselves, and fail at their own lines
package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"drover/internal/server/access"
	"drover/internal/server/store"
)

// fullApp is an app with every field set.
func fullApp() store.App {
	return store.App{
		Code: "a", Note: "for tests",
		Secrets: []store.Secret{
			{ID: "1", Hash: "h1", Created: epoch, Expires: at(time.Hour)},
			{ID: "2", Hash: "h2", Created: at(time.Minute)},
		},
		MayNameUsers: true, Admin: true, Disabled: true,
		Grants: []access.Grant{{
			Operations: []string{"start", "read"}, Namespaces: []string{"ns*"}, Businesses: []int64{7},
			Areas: []int{0, 3}, Hosts: []string{"0:10.*"},
		}},
		Limits:  access.Limits{Rate: 0.5, Burst: 2, Concurrent: 3},
		Created: epoch, Changed: at(time.Second),
	}
}

func apps(t *testing.T, s store.Store) {
	count := func(want int) {
		t.Helper()
		n, err := s.CountApps(t.Context())
		must(t, err)
		if n != want {
			t.Errorf("%d apps, want %d", n, want)
		}
	}
	count(0)
	if _, err := s.GetApp(t.Context(), "a"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("unknown app: %v", err)
	}
	must(t, s.CreateApp(t.Context(), fullApp()))
	must(t, s.CreateApp(t.Context(), store.App{Code: "b"}))
	if err := s.CreateApp(t.Context(), store.App{Code: "a"}); !errors.Is(err, store.ErrExists) {
		t.Errorf("a taken code: %v", err)
	}
	count(2)
	got, err := s.GetApp(t.Context(), "a")
	must(t, err)
	same(t, "app", fullApp(), got)
	got, err = s.GetApp(t.Context(), "b")
	must(t, err)
	same(t, "app without anything", store.App{Code: "b"}, got)
}

func appsChanged(t *testing.T, s store.Store) {
	nothing := func(*store.App) error { return nil }
	if _, err := s.ChangeApp(t.Context(), "a", nothing); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("unknown app: %v", err)
	}
	must(t, s.CreateApp(t.Context(), fullApp()))
	no := errors.New("no")
	if _, err := s.ChangeApp(t.Context(), "a", func(a *store.App) error { a.Note = "lost"; return no }); !errors.Is(err,
		no) {
		t.Errorf("the change's own error became %v", err)
	}
	want := store.App{Code: "a", Created: epoch, Note: "changed", Changed: at(time.Hour)}
	got, err := s.ChangeApp(t.Context(), "a", func(a *store.App) error {
		same(t, "app before the change", fullApp(), *a)
		*a = store.App{Code: "b", Created: at(time.Hour), Note: "changed", Changed: at(time.Hour)}
		return nil
	})
	must(t, err)
	same(t, "app as returned", want, got)
	got, err = s.GetApp(t.Context(), "a")
	must(t, err)
	same(t, "app as stored", want, got)

	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			_, err := s.ChangeApp(t.Context(), "a", func(a *store.App) error { a.Limits.Burst++; return nil })
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	got, err = s.GetApp(t.Context(), "a")
	must(t, err)
	same(t, "changes side by side", 20, got.Limits.Burst)
}

func appsPaged(t *testing.T, s store.Store) {
	for _, code := range []string{"c", "a", "d", "b"} {
		must(t, s.CreateApp(t.Context(), store.App{Code: code}))
	}
	for _, tt := range []struct {
		after string
		limit int
		want  string
	}{{"", 3, "abc"}, {"c", 3, "d"}, {"d", 3, ""}, {"bb", 1, "c"}, {"", 0, ""}} {
		got, err := s.ListApps(t.Context(), tt.after, tt.limit)
		must(t, err)
		var codes strings.Builder
		for _, a := range got {
			codes.WriteString(a.Code)
		}
		same(t, fmt.Sprintf("%d after %q", tt.limit, tt.after), tt.want, codes.String())
	}
}

func users(t *testing.T, s store.Store) {
	ann := store.User{Name: "ann", Note: "first", Disabled: true, Created: epoch}
	must(t, s.CreateUser(t.Context(), ann))
	must(t, s.CreateUser(t.Context(), store.User{Name: "bob"}))
	if err := s.CreateUser(t.Context(), ann); !errors.Is(err, store.ErrExists) {
		t.Errorf("a taken name: %v", err)
	}
	got, err := s.GetUser(t.Context(), "ann")
	must(t, err)
	same(t, "user", ann, got)
	if _, err := s.GetUser(t.Context(), "eve"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("unknown user: %v", err)
	}
	want := store.User{Name: "ann", Note: "second", Created: epoch}
	got, err = s.ChangeUser(t.Context(), "ann", func(u *store.User) error {
		same(t, "user before the change", ann, *u)
		*u = store.User{Note: "second"}
		return nil
	})
	must(t, err)
	same(t, "user as returned", want, got)
	no := errors.New("no")
	if _, err := s.ChangeUser(t.Context(), "ann", func(u *store.User) error {
		u.Note = "lost"
		return no
	}); !errors.Is(err, no) {
		t.Errorf("the change's own error became %v", err)
	}
	if _, err := s.ChangeUser(t.Context(), "eve", func(*store.User) error { return nil }); !errors.Is(err,
		store.ErrNotFound) {
		t.Errorf("unknown user: %v", err)
	}
	all, err := s.ListUsers(t.Context(), "", 10)
	must(t, err)
	same(t, "all", []store.User{want, {Name: "bob"}}, all)
	all, err = s.ListUsers(t.Context(), "ann", 1)
	must(t, err)
	same(t, "those after ann", []store.User{{Name: "bob"}}, all)
}

func tokens(t *testing.T, s store.Store) {
	ann := store.User{Name: "ann", Note: "n", Disabled: true, Created: epoch}
	ann.Admin, ann.Grants = true, []access.Grant{{Operations: []string{access.Operator}, Namespaces: []string{"shop"}}}
	first := store.Token{
		ID: "1", Kind: store.Session, User: "ann", Hash: "h1", Note: "laptop", Created: epoch, Seen: at(time.Minute),
		Expires: at(time.Hour),
	}
	second := store.Token{ID: "2", Kind: store.APIToken, User: "ann", Hash: "h2", Created: at(time.Second)}
	if err := s.CreateToken(t.Context(), first); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a token of nobody: %v", err)
	}
	must(t, s.CreateUser(t.Context(), ann))
	must(t, s.CreateUser(t.Context(), store.User{Name: "bob"}))
	must(t, s.CreateToken(t.Context(), second))
	must(t, s.CreateToken(t.Context(), first))
	for _, taken := range []store.Token{{ID: "1", User: "bob", Hash: "h3"}, {ID: "3", User: "bob", Hash: "h1"}} {
		if err := s.CreateToken(t.Context(), taken); !errors.Is(err, store.ErrExists) {
			t.Errorf("a taken token: %v", err)
		}
	}
	token, user, err := s.FindToken(t.Context(), "h1")
	must(t, err)
	same(t, "token", first, token)
	same(t, "its user", ann, user)
	if _, _, err := s.FindToken(t.Context(), "h"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("unknown token: %v", err)
	}
	list, err := s.ListTokens(t.Context(), "ann")
	must(t, err)
	same(t, "tokens", []store.Token{first, second}, list)

	first.Seen = at(2 * time.Minute)
	must(t, s.SeeToken(t.Context(), "h1", first.Seen))
	token, _, err = s.FindToken(t.Context(), "h1")
	must(t, err)
	same(t, "token that was seen", first, token)
	link := store.Token{ID: "4", Kind: store.Link, User: "ann", Hash: "h4", Created: epoch, Expires: at(time.Minute)}
	must(t, s.CreateToken(t.Context(), link))
	taken := make([]error, 4)
	var takers sync.WaitGroup
	for i := range taken {
		takers.Go(func() { _, taken[i] = s.TakeToken(t.Context(), "h4") })
	}
	takers.Wait()
	got := 0
	for _, err := range taken {
		if err == nil {
			got++
		} else if !errors.Is(err, store.ErrNotFound) {
			t.Errorf("take of a link: %v", err)
		}
	}
	same(t, "takers of a link", 1, got)
	link.Hash, link.ID = "h5", "5"
	must(t, s.CreateToken(t.Context(), link))
	late := store.Token{ID: "6", Kind: store.APIToken, User: "ann", Hash: "h6", Created: at(10 * time.Minute)}
	must(t, s.CreateToken(t.Context(), late))
	if _, _, err := s.FindToken(t.Context(), "h5"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a link that has expired is kept: %v", err)
	}
	must(t, s.DeleteToken(t.Context(), "ann", "6"))

	if err := s.DeleteToken(t.Context(), "bob", "1"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("another user's token: %v", err)
	}
	must(t, s.DeleteToken(t.Context(), "ann", "1"))
	if _, _, err := s.FindToken(t.Context(), "h1"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("removed token: %v", err)
	}
	if err := s.DeleteToken(t.Context(), "ann", "1"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("removed token: %v", err)
	}
}

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
