//nolint:thelper // these are the tests themselves, and fail at their own lines
package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"drover/internal/server/store"
)

func proxies(t *testing.T, s store.Store) {
	must(t, s.CreateJoinToken(t.Context(), store.JoinToken{
		ID: "a", Role: store.RoleProxy, Uses: 9, Created: epoch,
		Expires: at(time.Hour),
	}))
	var seen []string
	use := func(p store.Proxy, refusal error) error {
		return s.UseProxyToken(t.Context(), p, func(token store.JoinToken, again bool) error {
			seen = append(seen, fmt.Sprintf("%s %s %d %v", p.Key, token.Role, token.Used, again))
			return refusal
		})
	}
	first := store.Proxy{
		Key: "1", Area: 3, Name: "b", Advertise: "192.0.2.1:7351", Build: "x", Token: "a",
		Created: epoch, Sealing: "X1",
	}
	second := store.Proxy{Key: "2", Area: 3, Name: "a", Token: "a", Created: epoch}
	no := errors.New("no")
	if err := use(first, no); !errors.Is(err, no) {
		t.Errorf("the refusal became %v", err)
	}
	must(t, use(first, nil))
	first.Advertise, first.Build, first.Sealing = "192.0.2.2:7351", "y", "X2"
	must(t, use(first, nil))
	must(t, use(second, nil))
	same(t, "what was checked", []string{"1 proxy 0 false", "1 proxy 0 false", "1 proxy 1 true", "2 proxy 1 false"},
		seen)
	third := store.Proxy{Key: "3", Area: 4, Name: "a", Token: "a", Created: epoch}
	if err := use(third, nil); !errors.Is(err, store.ErrExists) {
		t.Errorf("a name that is taken: %v", err)
	}
	token, err := s.GetJoinToken(t.Context(), "a")
	must(t, err)
	if token.Used != 2 {
		t.Errorf("used %d times, want 2", token.Used)
	}
	if err := use(store.Proxy{Key: "4", Name: "d", Token: "none"}, nil); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an unknown token: %v", err)
	}
	list, err := s.ListProxies(t.Context())
	must(t, err)
	same(t, "proxies", []store.Proxy{second, first}, list)

	must(t, s.ResealProxy(t.Context(), "1", "X2", "X3 X2 XF"))
	for key, before := range map[string]string{"1": "X2", "9": "X3 X2 XF"} {
		if err := s.ResealProxy(t.Context(), key, before, "X4"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("another proxy than %s with %q: %v", key, before, err)
		}
	}
	first.Sealing = "X3 X2 XF"
	list, err = s.ListProxies(t.Context())
	must(t, err)
	same(t, "proxies with another key", []store.Proxy{second, first}, list)

	must(t, s.RemoveProxy(t.Context(), "2", epoch))
	if err := s.RemoveProxy(t.Context(), "2", epoch); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("removed twice: %v", err)
	}
	removed, err := s.ListRemoved(t.Context())
	must(t, err)
	same(t, "removed", []string{"2"}, removed)
	must(t, use(third, nil)) // the name is free now
	must(t, s.RemoveProxy(t.Context(), "3", epoch))
	must(t, use(second, nil))
	removed, err = s.ListRemoved(t.Context())
	must(t, err)
	same(t, "removed, after one has joined again", []string{"3"}, removed)
}

// keysOfOthers: a former credential does not become valid again because its key joins in another role.
func keysOfOthers(t *testing.T, s store.Store) {
	for id, role := range map[string]store.Role{"a": store.RoleAgent, "p": store.RoleProxy} {
		must(t, s.CreateJoinToken(t.Context(), store.JoinToken{
			ID: id, Role: role, Uses: 9, Created: epoch,
			Expires: at(time.Hour),
		}))
	}
	free := func(store.JoinToken, bool) error { return nil }
	agent := func(key string, area int) error {
		return s.UseJoinToken(t.Context(), store.Agent{
			Key: key, Cloud: area, IP: "10.0.0." + key, Token: "a",
			Created: epoch,
		}, free)
	}
	proxy := func(key string, area int) error {
		return s.UseProxyToken(t.Context(), store.Proxy{Key: key, Area: area, Name: key, Token: "p", Created: epoch},
			free)
	}
	refused := func(when string) {
		t.Helper()
		for what, err := range map[string]error{
			"a proxy's as an agent": agent("1", 3), "a proxy's in another area": proxy("1", 4),
			"an agent's as a proxy": proxy("2", 3),
		} {
			if !errors.Is(err, store.ErrKeyUsed) {
				t.Errorf("%s: a key of %s: %v", when, what, err)
			}
		}
	}
	must(t, proxy("1", 3))
	must(t, agent("2", 3))
	refused("there")
	must(t, s.RemoveProxy(t.Context(), "1", epoch))
	must(t, s.RemoveAgent(t.Context(), "2", epoch, nil))
	refused("removed")
	removed, err := s.ListRemoved(t.Context())
	must(t, err)
	same(t, "removed", []string{"1", "2"}, removed)
	for id, want := range map[string]int{"a": 1, "p": 1} {
		if token, err := s.GetJoinToken(t.Context(), id); err != nil || token.Used != want {
			t.Errorf("refusals were counted: %+v, %v", token, err)
		}
	}
	must(t, proxy("1", 3))
	must(t, agent("2", 3))
	removed, err = s.ListRemoved(t.Context())
	must(t, err)
	same(t, "removed, after they have joined again", []string(nil), removed)
}

func packages(t *testing.T, s store.Store) {
	ctx := t.Context()
	a := store.Package{Version: "1.4.0", Arch: "amd64", Signed: "text\n", Size: 300, Adder: "anna", Created: epoch}
	b := store.Package{Version: "1.4.0", Arch: "arm64", Signed: "other", Size: 5, Adder: "ben", Created: epoch}
	for _, p := range []store.Package{b, a, a} { // a repeated call has no effect
		must(t, s.PutPackage(ctx, p))
	}
	other := a
	other.Signed = "another"
	if err := s.PutPackage(ctx, other); !errors.Is(err, store.ErrExists) {
		t.Errorf("another text: %v", err)
	}
	if err := s.PutPackage(ctx, store.Package{Version: "2", Arch: "amd64", Size: store.MostPackageBytes}); !errors.Is(err,
		store.ErrPackagesFull) {
		t.Errorf("too large: %v", err)
	}
	binary := []byte{0, 1, 0xff, '\'', 0}
	for _, n := range []int{2, 0, 2} {
		must(t, s.PutPiece(ctx, a, n, append([]byte{byte(n)}, binary...)))
	}
	got, err := s.GetPiece(ctx, "1.4.0", "amd64", 2)
	must(t, err)
	same(t, "piece", append([]byte{2}, binary...), got)
	found, err := s.GetPackage(ctx, "1.4.0", "amd64")
	must(t, err)
	same(t, "package", a, found)
	withPieces := a
	withPieces.Pieces = []int{0, 2}
	list, err := s.ListPackages(ctx)
	must(t, err)
	same(t, "packages", []store.Package{withPieces, b}, list)
	_, gone := s.GetPackage(ctx, "1.4.1", "amd64")
	_, noPiece := s.GetPiece(ctx, "1.4.0", "amd64", 1)
	for what, err := range map[string]error{
		"unknown package": gone, "unknown piece": noPiece, "piece of another text": s.PutPiece(ctx, other, 0, binary),
		"piece of nothing": s.PutPiece(ctx, store.Package{Version: "1", Arch: "amd64"}, 0, binary),
		"removed twice":    errors.Join(s.RemovePackage(ctx, "1.4.0", "amd64"), s.RemovePackage(ctx, "1.4.0", "amd64")),
	} {
		if !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := s.GetPiece(ctx, "1.4.0", "amd64", 2); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a piece of a removed package: %v", err)
	}
	for n := range store.MostPackages - 1 {
		must(t, s.PutPackage(ctx, store.Package{Version: fmt.Sprint(n), Arch: "amd64", Created: epoch}))
	}
	if err := s.PutPackage(ctx, a); !errors.Is(err, store.ErrPackagesFull) {
		t.Errorf("too many: %v", err)
	}
}
