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

// tokensOfDisabled: nothing that a disabled user had works again once the user is enabled.
func tokensOfDisabled(t *testing.T, s store.Store) {
	for _, name := range []string{"ann", "bob"} {
		must(t, s.CreateUser(t.Context(), store.User{Name: name}))
		must(t, s.CreateToken(t.Context(), store.Token{ID: name, Kind: store.APIToken, User: name, Hash: "t" + name}))
		must(t, s.CreateToken(t.Context(), store.Token{
			ID: "s" + name, Kind: store.Session, User: name, Hash: "s" + name, Expires: at(time.Hour),
		}))
	}
	change := func(change func(*store.User)) {
		_, err := s.ChangeUser(t.Context(), "ann", func(u *store.User) error { change(u); return nil })
		must(t, err)
	}
	left := func(what string, want int) {
		t.Helper()
		for name, n := range map[string]int{"ann": want, "bob": 2} {
			list, err := s.ListTokens(t.Context(), name)
			must(t, err)
			same(t, "tokens of "+name+" "+what, n, len(list))
		}
	}
	change(func(u *store.User) { u.Note = "n" })
	left("after a note", 2)
	change(func(u *store.User) { u.Disabled = true })
	left("disabled", 0)
	must(t, s.CreateToken(t.Context(), store.Token{ID: "new", Kind: store.APIToken, User: "ann", Hash: "new"}))
	must(t, s.CreateToken(t.Context(), store.Token{ // by a call that had begun before
		ID: "late", Kind: store.Session, User: "ann", Hash: "late", Expires: at(time.Hour),
	}))
	change(func(u *store.User) { u.Disabled = false })
	left("enabled", 1)
}

func tokens(t *testing.T, s store.Store) {
	ann := store.User{Name: "ann", Note: "n", Disabled: true, Created: epoch}
	ann.Groups = []string{"ops", "a group"}
	ann.Admin, ann.Grants = true, []access.Grant{{Operations: []string{access.Operator}, Namespaces: []string{"shop"}}}
	first := store.Token{
		ID: "1", Kind: store.Session, User: "ann", Hash: "h1", Note: "laptop", Created: epoch, LastUse: at(time.Minute),
		Proved: at(time.Second), Expires: at(time.Hour),
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

	first.LastUse = at(2 * time.Minute)
	must(t, s.SeeToken(t.Context(), "h1", first.LastUse))
	token, _, err = s.FindToken(t.Context(), "h1")
	must(t, err)
	same(t, "token that was seen", first, token)
	link := store.Token{ID: "4", Kind: store.Link, User: "ann", Hash: "h4", Created: epoch, Expires: at(time.Minute)}
	must(t, s.CreateToken(t.Context(), link))
	taken := make([]error, 4)
	var takers sync.WaitGroup
	for i := range taken {
		takers.Go(func() { _, taken[i] = s.TakeToken(t.Context(), "h4", nil) })
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

// tokensOfTokens: a token that is removed ends all that was made with it, of any user, and nothing else.
func tokensOfTokens(t *testing.T, s store.Store) {
	for _, name := range []string{"ann", "bob"} {
		must(t, s.CreateUser(t.Context(), store.User{Name: name}))
	}
	create := func(id, user string, kind store.TokenKind, via ...string) {
		t.Helper()
		must(t, s.CreateToken(t.Context(), store.Token{
			ID: id, Kind: kind, User: user, Hash: "h-" + id, Created: epoch, Expires: at(time.Hour), Via: via,
		}))
	}
	left := func(want ...string) {
		t.Helper()
		var have []string
		for _, name := range []string{"ann", "bob"} {
			list, err := s.ListTokens(t.Context(), name)
			must(t, err)
			for _, token := range list {
				have = append(have, token.ID)
			}
		}
		same(t, "tokens", want, have)
	}
	create("root", "ann", store.APIToken)
	create("roo", "ann", store.APIToken)
	create("link", "bob", store.Link, "root")
	create("other", "bob", store.Session, "roo")
	session := store.Token{
		ID: "session", Kind: store.Session, Hash: "h-session", Created: at(time.Second), Proved: at(time.Second),
		Expires: at(time.Hour),
	}
	taken, err := s.TakeToken(t.Context(), "h-link", &session)
	must(t, err)
	same(t, "the link", "link", taken.ID)
	if _, err := s.TakeToken(t.Context(), "h-link", &session); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a second session of a link: %v", err)
	}
	found, _, err := s.FindToken(t.Context(), "h-session")
	must(t, err)
	session.User, session.Via = "bob", []string{"root"}
	same(t, "the session in its place", session, found)
	must(t, s.CreateDevice(t.Context(), store.Device{Hash: "h-cli", Code: "c", Created: epoch, Expires: at(time.Minute)}))
	must(t, s.SignInDevice(t.Context(), store.Token{
		ID: "cli", Kind: store.CLIToken, User: "bob", Hash: "h-cli", Created: at(2 * time.Second), Expires: at(time.Hour),
		Via: []string{"root", "session"},
	}))
	left("roo", "root", "other", "session", "cli")
	_, err = s.TakeToken(t.Context(), "h-session", nil) // a sign-out ends the browser's session only
	must(t, err)
	left("roo", "root", "other", "cli")
	err = s.CreateToken(t.Context(), store.Token{ID: "late", User: "bob", Hash: "late", Via: []string{"root", "session"}})
	if !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a token of a session that has ended: %v", err)
	}
	must(t, s.DeleteToken(t.Context(), "ann", "root"))
	left("roo", "other")
}

func devices(t *testing.T, s store.Store) {
	must(t, s.CreateUser(t.Context(), store.User{Name: "ann"}))
	first := store.Device{Hash: "h1", Code: "c1", Name: "ann@pc", Remote: "10.0.0.1", Created: epoch, Expires: at(time.Minute)}
	must(t, s.CreateDevice(t.Context(), first))
	for _, taken := range []store.Device{{Hash: "h1", Code: "c2"}, {Hash: "h2", Code: "c1"}} {
		if err := s.CreateDevice(t.Context(), taken); !errors.Is(err, store.ErrExists) {
			t.Errorf("a taken device: %v", err)
		}
	}
	for _, hash := range []string{"h1", "c1"} {
		d, err := s.FindDevice(t.Context(), hash)
		must(t, err)
		same(t, "device by "+hash, first, d)
	}
	token := store.Token{
		ID: "1", Kind: store.CLIToken, User: "ann", Hash: "h1", Created: epoch, Expires: at(time.Hour),
	}
	stranger := token
	stranger.User = "bob"
	if err := s.SignInDevice(t.Context(), stranger); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a sign-in of nobody: %v", err)
	}
	signed := make([]error, 4)
	var people sync.WaitGroup
	for i := range signed {
		people.Go(func() { signed[i] = s.SignInDevice(t.Context(), token) })
	}
	people.Wait()
	got := 0
	for _, err := range signed {
		if err == nil {
			got++
		} else if !errors.Is(err, store.ErrNotFound) {
			t.Errorf("a second sign-in: %v", err)
		}
	}
	same(t, "sign-ins of a device", 1, got)
	found, _, err := s.FindToken(t.Context(), "h1")
	must(t, err)
	same(t, "token of the device", token, found)
	if _, err := s.FindDevice(t.Context(), "h1"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a device that is signed in: %v", err)
	}
	must(t, s.CreateDevice(t.Context(), store.Device{Hash: "h2", Code: "c2", Created: epoch, Expires: at(time.Minute)}))
	must(t, s.RemoveDevice(t.Context(), "h2"))
	if err := s.RemoveDevice(t.Context(), "h2"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a removed device: %v", err)
	}
	manyDevices(t, s)
}

// manyDevices: strangers can fill the table only up to a bound, and what has expired makes room.
func manyDevices(t *testing.T, s store.Store) {
	var err error
	made := 0
	for ; err == nil && made <= store.MostDevices; made++ {
		hash := fmt.Sprintf("many%d", made)
		err = s.CreateDevice(t.Context(), store.Device{Hash: hash, Code: "c" + hash, Created: epoch, Expires: at(time.Minute)})
	}
	if !errors.Is(err, store.ErrTooManyDevices) || made != store.MostDevices+1 {
		t.Errorf("after %d devices: %v", made, err)
	}
	must(t, s.CreateDevice(t.Context(), store.Device{Hash: "h3", Code: "c3", Created: at(time.Hour), Expires: at(2 * time.Hour)}))
	if _, err := s.FindDevice(t.Context(), "many0"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a device that has expired is kept: %v", err)
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
			RequestID: request, Allowed: allowed, Remote: fmt.Sprint("10.0.0.", n),
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
		"without": {store.AuditFilter{Without: []string{"stop", "x"}}, []int{0}},
		"request": {store.AuditFilter{RequestID: "r1"}, []int{1}},
		"address": {store.AuditFilter{Remote: "10.0.0.2"}, []int{2}},
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

func savedViews(t *testing.T, s store.Store) {
	own := store.SavedView{ID: "1", User: "ann", Name: "mine", Query: "state=given-up", Created: epoch}
	shared := store.SavedView{ID: "2", User: "bob", Namespace: "shop", Name: "ours", Query: "namespace=shop", Created: epoch}
	of := store.SavedView{ID: "3", User: "bob", Name: "mine", Query: "name=a", Created: epoch}
	for _, v := range []store.SavedView{own, shared, of} {
		must(t, s.SaveView(t.Context(), v))
	}
	for _, taken := range []store.SavedView{
		{ID: "1", User: "eve", Name: "x"},
		{ID: "4", User: "ann", Name: "mine"},
		{ID: "4", User: "bob", Namespace: "shop", Name: "ours"},
	} {
		if err := s.SaveView(t.Context(), taken); !errors.Is(err, store.ErrExists) {
			t.Errorf("a taken view: %v", err)
		}
	}
	for user, want := range map[string][]store.SavedView{"ann": {own, shared}, "bob": {of, shared}, "eve": {shared}} {
		list, err := s.ListViews(t.Context(), user)
		must(t, err)
		same(t, "views of "+user, want, list)
	}
	must(t, s.RemoveView(t.Context(), "2"))
	if err := s.RemoveView(t.Context(), "2"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a removed view: %v", err)
	}
	list, err := s.ListViews(t.Context(), "eve")
	must(t, err)
	same(t, "number of views of eve", 0, len(list))
	for i := range store.MostViews {
		must(t, s.SaveView(t.Context(), store.SavedView{ID: fmt.Sprint("eve-", i), User: "eve", Name: fmt.Sprint(i)}))
	}
	if err := s.SaveView(t.Context(), store.SavedView{ID: "z", User: "eve", Name: "z"}); !errors.Is(err, store.ErrTooManyViews) {
		t.Errorf("too many views: %v", err)
	}
}
