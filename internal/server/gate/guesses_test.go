package gate_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"drover/internal/server/access"
	"drover/internal/server/gate"
	"drover/internal/server/store"
)

// TestGuesses: wrong secrets are few from an address and fewer for one app; right ones, other addresses and this
// machine are not in it.
func TestGuesses(t *testing.T) {
	now := time.Unix(1e9, 0)
	reg := &register{app: store.App{
		Code: "app", MayNameUsers: true,
		Secrets: []store.Secret{{ID: "1", Hash: access.Secrets{}.Hash("right")}},
	}}
	g := gate.New(gate.Config{Store: reg, Now: func() time.Time { return now }})
	admit := func(address, app, secret string) gate.Reason {
		t.Helper()
		_, err := g.Admit(t.Context(), gate.Credentials{Address: address, AppCode: app, AppSecret: secret, User: "u"})
		refused := (*gate.Refusal)(nil)
		switch {
		case err == nil:
			return gate.ReasonsEnd
		case !errors.As(err, &refused):
			t.Fatal(err)
		}
		return refused.Reason
	}
	want := func(when string, got, want gate.Reason) {
		t.Helper()
		if got != want {
			t.Errorf("%s: reason %d, want %d", when, got, want)
		}
	}
	const in = gate.ReasonsEnd
	for range 20 {
		want("a wrong secret", admit("a", "app", "wrong"), gate.WrongSecret)
	}
	want("the 21st", admit("a", "app", "wrong"), gate.Guessing)
	want("the right one from there", admit("a", "app", "right"), in)
	want("a wrong one from elsewhere", admit("b", "app", "wrong"), gate.WrongSecret)
	now = now.Add(5 * time.Second)
	want("one more", admit("a", "app", "wrong"), gate.WrongSecret)
	want("and no other", admit("a", "app", "wrong"), gate.Guessing)
	for i := range 84 {
		want("an unknown app", admit("a", fmt.Sprint("app", i), "wrong"), gate.UnknownApp)
	}
	want("an unknown app after 100 in all", admit("a", "other", "wrong"), gate.Guessing)
	for range 30 {
		want("on this machine", admit("", "app", "wrong"), gate.WrongSecret)
	}
}
