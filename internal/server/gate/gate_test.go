package gate_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"drover/internal/server/access"
	"drover/internal/server/gate"
	"drover/internal/server/store"
)

// register is a store with one app, "app", and the user ann; err fails every look into it.
type register struct {
	app    store.App
	users  map[string]store.User
	tokens map[string]store.Token
	err    error
}

func (r *register) GetApp(_ context.Context, code string) (store.App, error) {
	if r.err == nil && code != r.app.Code {
		return store.App{}, store.ErrNotFound
	}
	return r.app, r.err
}

func (r *register) GetUser(_ context.Context, name string) (store.User, error) {
	u, ok := r.users[name]
	if !ok {
		return store.User{}, store.ErrNotFound
	}
	return u, nil
}

func (r *register) FindToken(_ context.Context, hash string) (store.Token, store.User, error) {
	t, ok := r.tokens[hash]
	if !ok {
		return store.Token{}, store.User{}, store.ErrNotFound
	}
	return t, r.users[t.User], nil
}

// sessions is a login service; a nil one is down.
type sessions map[string]string

func (s sessions) User(_ context.Context, token string) (string, error) {
	user, ok := s[token]
	switch {
	case s == nil:
		return "", errors.New("no route to host")
	case !ok:
		return "", gate.ErrNoSession
	default:
		return user, nil
	}
}

func TestUsers(t *testing.T) {
	now := time.Now()
	mine, mineHash := access.NewToken()
	old, oldHash := access.NewToken()
	gone, goneHash := access.NewToken()
	strange, _ := access.NewToken()
	reg := &register{
		app: store.App{
			Code: "app", Admin: true,
			Grants: []access.Grant{{Operations: []string{access.All}, Namespaces: []string{access.All}}},
			Limits: access.Limits{Burst: 1},
		},
		users: map[string]store.User{
			"ann": {Name: "ann"}, "gone": {Name: "gone", Disabled: true},
		},
		tokens: map[string]store.Token{
			mineHash: {Kind: store.APIToken, User: "ann", Expires: now.Add(time.Second)},
			oldHash:  {Kind: store.APIToken, User: "ann", Expires: now},
			goneHash: {Kind: store.APIToken, User: "gone"},
		},
	}
	login := sessions{"s-bob": "bob", "s-gone": "gone", "s-": "", "s-long": strings.Repeat("x", 129)}
	const in = gate.ReasonsEnd
	for name, tt := range map[string]struct {
		user, token string
		mayName     bool
		vouched     bool
		login       gate.Login
		want        gate.Reason
		as          string
	}{
		"named":                          {user: "bob", mayName: true, want: in, as: "bob"},
		"named beside a token":           {user: "bob", token: "any", mayName: true, want: in, as: "bob"},
		"named, and disabled":            {user: "gone", mayName: true, want: gate.UserDisabled},
		"named with a long name":         {user: strings.Repeat("x", 129), mayName: true, want: gate.UserTooLong},
		"named with an escape":           {user: "a\x1b[2Jb", mayName: true, want: gate.UserUnfit},
		"named in no UTF-8":              {user: "a\xff", vouched: true, want: gate.UserUnfit},
		"named by an app that may not":   {user: "bob", want: gate.MayNotName},
		"named by a gateway":             {user: "bob", vouched: true, want: in, as: "bob"},
		"named by a gateway, disabled":   {user: "gone", vouched: true, want: gate.UserDisabled},
		"nobody":                         {mayName: true, want: gate.NoUser},
		"nobody by a gateway":            {vouched: true, want: gate.NoUser},
		"our token":                      {token: mine, want: in, as: "ann"},
		"our token beside another name":  {user: "bob", token: mine, want: in, as: "ann"},
		"our token, expired":             {token: old, want: gate.BadToken},
		"our token of a disabled user":   {token: gone, want: gate.UserDisabled},
		"our token, unknown":             {token: strange, login: login, want: gate.BadToken},
		"a token and no login service":   {token: "s-bob", want: gate.BadToken},
		"a session":                      {token: "s-bob", login: login, want: in, as: "bob"},
		"no session":                     {token: "s-eve", login: login, want: gate.BadToken},
		"a session of a disabled user":   {token: "s-gone", login: login, want: gate.UserDisabled},
		"a session of nobody":            {token: "s-", login: login, want: gate.BadToken},
		"a session with a long name":     {token: "s-long", login: login, want: gate.BadToken},
		"the login service is down":      {token: "s-bob", login: sessions(nil), want: gate.LoginDown},
		"an endless token is not asked":  {token: strings.Repeat("x", 4097), login: sessions(nil), want: gate.BadToken},
		"our token needs no login there": {token: mine, login: sessions(nil), want: in, as: "ann"},
	} {
		t.Run(name, func(t *testing.T) {
			reg.app.MayNameUsers = tt.mayName
			reg.app.Secrets = []store.Secret{{ID: "1", Hash: access.Secrets{}.Hash("secret")}}
			g := gate.New(gate.Config{Store: reg, Login: tt.login, Now: func() time.Time { return now }})
			c := gate.Credentials{
				AppCode: "app", AppSecret: "secret", User: tt.user, Token: tt.token,
				Vouched: tt.vouched,
			}
			if tt.vouched {
				c.AppSecret = ""
			}
			p, err := g.Admit(t.Context(), c)
			if tt.want == in {
				if err != nil || p.App != "app" || p.User != tt.as || !p.Admin || len(p.Grants) != 1 ||
					p.Limits != reg.app.Limits {
					t.Fatalf("principal is %+v, error %v", p, err)
				}
				return
			}
			refused := (*gate.Refusal)(nil)
			if !errors.As(err, &refused) || refused.Reason != tt.want {
				t.Fatalf("error is %v, want reason %d", err, tt.want)
			}
			if (refused.Cause != nil) != (tt.want == gate.LoginDown) {
				t.Errorf("cause is %v", refused.Cause)
			}
			if tt.token != "" && strings.Contains(err.Error(), tt.token) {
				t.Errorf("the error holds the token: %v", err)
			}
			if p.App != "" || p.Admin {
				t.Errorf("a refused caller is %+v", p)
			}
		})
	}
}

func TestAppsThatAGatewayNames(t *testing.T) {
	reg := &register{app: store.App{Code: "app"}}
	g := gate.New(gate.Config{Store: reg})
	reason := func(code string) gate.Reason {
		t.Helper()
		_, err := g.Admit(t.Context(), gate.Credentials{AppCode: code, User: "bob", Vouched: true})
		refused := (*gate.Refusal)(nil)
		if !errors.As(err, &refused) {
			t.Fatalf("error is %v", err)
		}
		return refused.Reason
	}
	if r := reason("other"); r != gate.UnknownApp {
		t.Errorf("an unknown app is refused for reason %d", r)
	}
	if r := reason(""); r != gate.NoAppCode {
		t.Errorf("no app is refused for reason %d", r)
	}
	reg.app.Disabled = true
	if r := reason("app"); r != gate.AppDisabled {
		t.Errorf("a disabled app is refused for reason %d", r)
	}
	reg.err = errors.New("disk is full")
	if _, err := g.Admit(t.Context(), gate.Credentials{AppCode: "app", User: "bob", Vouched: true}); !errors.Is(err,
		reg.err) {
		t.Errorf("a broken store gives %v", err)
	}
}

// TestActing: what a server does later has the present rights of the app and the user.
func TestActing(t *testing.T) {
	grants := []access.Grant{{Operations: []string{access.Operate}, Namespaces: []string{"shop"}}}
	reg := &register{
		app:   store.App{Code: "app", Grants: grants},
		users: map[string]store.User{"ann": {Name: "ann"}, "ben": {Name: "ben", Disabled: true}},
	}
	g := gate.New(gate.Config{Store: reg})
	for _, tt := range []struct {
		app, user string
		disabled  bool
		reason    gate.Reason
	}{
		{"app", "ann", false, gate.ReasonsEnd},
		{"app", "stranger", false, gate.ReasonsEnd},
		{"app", "ben", false, gate.UserDisabled},
		{"other", "ann", false, gate.UnknownApp},
		{"app", "ann", true, gate.AppDisabled},
	} {
		reg.app.Disabled = tt.disabled
		p, err := g.Acting(t.Context(), tt.app, tt.user)
		refusal, refused := errors.AsType[*gate.Refusal](err)
		switch {
		case tt.reason == gate.ReasonsEnd &&
			(err != nil || p.App != "app" || p.User != tt.user || p.Admin || len(p.Grants) != 1):
			t.Errorf("%s/%s: %+v, %v", tt.app, tt.user, p, err)
		case tt.reason != gate.ReasonsEnd && (!refused || refusal.Reason != tt.reason || p.Grants != nil):
			t.Errorf("%s/%s: %+v, %v", tt.app, tt.user, p, err)
		}
	}
	if p, err := g.Acting(t.Context(), "", "uid:0"); err != nil || !p.Admin || p.User != "uid:0" {
		t.Errorf("the operator of a server: %+v, %v", p, err)
	}
	reg.err = errors.New("the database is away")
	if _, err := g.Acting(t.Context(), "app", "ann"); !errors.Is(err, reg.err) {
		t.Errorf("without a database: %v", err)
	}
}

// TestPerson: a user without an app has the user's own rights, by a token of the right kind only, and as long as the
// user has them.
func TestPerson(t *testing.T) {
	own := []access.Grant{{Operations: []string{access.Viewer}, Namespaces: []string{"shop"}}}
	tokens, users := map[string]store.Token{}, map[string]store.User{
		"ann": {Name: "ann", Grants: own}, "eve": {Name: "eve", Admin: true}, "ben": {Name: "ben", Admin: true, Disabled: true},
	}
	token := func(kind store.TokenKind, user string) string {
		text, hash := access.NewToken()
		tokens[hash] = store.Token{Kind: kind, User: user}
		return text
	}
	g := gate.New(gate.Config{Store: &register{users: users, tokens: tokens}})
	for _, kind := range []store.TokenKind{store.APIToken, store.Session, store.Link} {
		for _, asked := range []store.TokenKind{store.APIToken, store.Session, store.Link} {
			p, _, err := g.Person(t.Context(), asked, token(kind, "ann"))
			if kind != asked {
				if _, refused := errors.AsType[*gate.Refusal](err); !refused || p.User != "" {
					t.Errorf("a %s as a %s: %+v, %v", kind, asked, p, err)
				}
				continue
			}
			if err != nil || p.App != "person:ann" || !p.Proven || p.Admin || len(p.Grants) != 1 {
				t.Errorf("a %s: %+v, %v", kind, p, err)
			}
		}
		p, err := g.Admit(t.Context(), gate.Credentials{Token: token(kind, "eve")})
		if kind == store.APIToken && (err != nil || !p.Admin) || kind != store.APIToken && err == nil {
			t.Errorf("a call with a %s and no app: %+v, %v", kind, p, err)
		}
	}
	if p, err := g.Admit(t.Context(), gate.Credentials{Token: token(store.CLIToken, "ann")}); err != nil ||
		p.App != "person:ann" || !p.Proven {
		t.Errorf("a call of a command line: %+v, %v", p, err)
	}
	if _, _, err := g.Person(t.Context(), store.Session, token(store.CLIToken, "ann")); err == nil {
		t.Error("the token of a command line is a session")
	}
	if _, _, err := g.Person(t.Context(), store.Session, token(store.Session, "ben")); err == nil {
		t.Error("a disabled user has a session")
	}
	for user, admin := range map[string]bool{"ann": false, "eve": true} {
		p, err := g.Acting(t.Context(), access.PersonApp(user), user)
		if err != nil || p.Admin != admin || p.Proven {
			t.Errorf("what %s has begun goes on as %+v, %v", user, p, err)
		}
	}
	for _, user := range []string{"ben", "nobody"} {
		if p, err := g.Acting(t.Context(), access.PersonApp(user), user); err == nil || p.Admin {
			t.Errorf("what %s has begun goes on as %+v", user, p)
		}
	}
}

// TestRightsEnd: a right that has ended gives nothing, however the caller proves who it is.
func TestRightsEnd(t *testing.T) {
	end := time.Date(2026, 11, 20, 18, 0, 0, 0, time.UTC)
	right := access.Grant{Operations: []string{access.Viewer}, Namespaces: []string{"shop"}, Until: end}
	text, hash := access.NewToken()
	secrets := access.Secrets{}
	reg := &register{
		app: store.App{
			Code: "app", MayNameUsers: true, Grants: []access.Grant{right},
			Secrets: []store.Secret{{Hash: secrets.Hash("secret")}},
		},
		users:  map[string]store.User{"ann": {Name: "ann", Grants: []access.Grant{right}, Groups: []string{"ops"}}},
		tokens: map[string]store.Token{hash: {Kind: store.APIToken, User: "ann"}},
	}
	for at, want := range map[time.Time][2]int{end.Add(-time.Second): {1, 2}, end: {0, 0}} {
		g := gate.New(gate.Config{
			Store: reg, Secrets: secrets, Now: func() time.Time { return at },
			Groups: access.GroupRights{"ops": {Grants: []access.Grant{right}}},
		})
		app, err := g.Admit(t.Context(), gate.Credentials{AppCode: "app", AppSecret: "secret", User: "ann"})
		if err != nil || len(app.Grants) != want[0] {
			t.Errorf("at %s the app has %v, %v", at, app.Grants, err)
		}
		person, err := g.Admit(t.Context(), gate.Credentials{Token: text})
		if err != nil || len(person.Grants) != want[1] {
			t.Errorf("at %s the person has %v, %v", at, person.Grants, err)
		}
		for code, n := range map[string]int{"app": want[0], access.PersonApp("ann"): want[1]} {
			if p, err := g.Acting(t.Context(), code, "ann"); err != nil || len(p.Grants) != n {
				t.Errorf("at %s what %s has begun goes on with %v, %v", at, code, p.Grants, err)
			}
		}
	}
}

// TestGroups: the groups of a user give rights beside the user's own, as long as the configuration names them. A principal
// knows the tokens that prove it.
func TestGroups(t *testing.T) {
	viewer := access.Grant{Operations: []string{access.Viewer}, Namespaces: []string{"shop"}}
	operator := access.Grant{Operations: []string{access.Operator}, Namespaces: []string{"pay"}}
	text, hash := access.NewToken()
	reg := &register{
		users: map[string]store.User{
			"ann": {Name: "ann", Grants: []access.Grant{viewer}, Groups: []string{"ops", "gone"}},
		},
		tokens: map[string]store.Token{hash: {ID: "2", Kind: store.APIToken, User: "ann", Via: []string{"1"}}},
	}
	for name, tt := range map[string]struct {
		groups access.GroupRights
		grants int
		admin  bool
	}{
		"no provider":   {nil, 1, false},
		"a group":       {access.GroupRights{"ops": {Grants: []access.Grant{operator}}, "boss": {Admin: true}}, 2, false},
		"all rights":    {access.GroupRights{"ops": {Admin: true}}, 1, true},
		"another group": {access.GroupRights{"boss": {Admin: true}}, 1, false},
	} {
		g := gate.New(gate.Config{Store: reg, Groups: tt.groups})
		p, err := g.Admit(t.Context(), gate.Credentials{Token: text})
		if err != nil || len(p.Grants) != tt.grants || p.Admin != tt.admin || !slices.Equal(p.Via, []string{"1", "2"}) {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
		later, err := g.Acting(t.Context(), access.PersonApp("ann"), "ann")
		if err != nil || len(later.Grants) != tt.grants || later.Admin != tt.admin || later.Via != nil {
			t.Errorf("%s, later: %+v, %v", name, later, err)
		}
	}
	if len(reg.users["ann"].Grants) != 1 {
		t.Error("the rights of groups are among the own rights")
	}
}
