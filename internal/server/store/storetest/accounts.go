//nolint:thelper // these are the tests themselves, and fail at their own lines
package storetest

import (
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
	first := store.Token{ID: "1", User: "ann", Hash: "h1", Note: "laptop", Created: epoch, Expires: at(time.Hour)}
	second := store.Token{ID: "2", User: "ann", Hash: "h2", Created: at(time.Second)}
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
