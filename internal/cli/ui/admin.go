package ui

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/cli/term"
	"drover/internal/joining"
	"drover/internal/server/access"
	"drover/internal/words"
)

// tenHosts is the proposal for a token that hosts join with, as flags of drover token create.
const tenHosts = "--uses 10 --ttl 24h --area 0"

// askNew asks for what a place can have more of: hosts, or people and their rights.
func (s State) askNew() State {
	switch {
	case s.readOnly:
		s.note = words.Screen.ReadOnly.In(s.lang)
	case s.here.kind == hosts:
		s.prompt = &prompt{kind: '+', text: tenHosts}
	case s.here.kind == people:
		s.prompt = &prompt{kind: '+'}
	case s.here.kind == person:
		s.prompt = &prompt{kind: '+', text: s.here.of.id + " "}
	}
	return s
}

// asksFor has the server make what a person has typed.
func (s State) asksFor(text string) (State, []Do) {
	var err error
	add := Add{kind: s.here.kind}
	if s.here.kind == hosts {
		add.token, err = tokenOf(text, s.lang)
	} else {
		add.name, add.right, err = rightOf(text, s.lang)
	}
	if err != nil {
		s.prompt = &prompt{'+', text, err.Error()}
		return s, nil
	}
	s.note = words.Screen.Asking.In(s.lang)
	return s, []Do{add}
}

// tokenOf reads a token as flags of drover token create.
func tokenOf(text string, lang words.Lang) (t client.NewJoinToken, err error) {
	given, rest, err := flagsIn(text, lang, "uses", "ttl", "area", "labels", "note")
	if err == nil && len(rest) > 0 {
		err = errors.New(words.Screen.UnknownFlag.In(lang, "word", rest[0]))
	}
	if err != nil {
		return t, err
	}
	t = client.NewJoinToken{Uses: 1, TTL: time.Hour, Note: given["note"], Labels: map[string]string{}}
	for flag, value := range given {
		switch flag {
		case "uses":
			t.Uses, err = strconv.Atoi(value)
		case "area":
			t.Cloud, err = strconv.Atoi(value)
		case "ttl":
			t.TTL, err = term.ParseLength(value)
		case "labels":
			for one := range strings.SplitSeq(value, ",") {
				key, label, ok := strings.Cut(one, "=")
				if t.Labels[key] = label; !ok {
					err = strconv.ErrSyntax
				}
			}
		}
		if err != nil {
			return t, errors.New(words.Screen.BadValue.In(lang, "flag", "--"+flag, "value", value))
		}
	}
	return t, nil
}

// rightOf reads the name of a person and a right.
func rightOf(text string, lang words.Lang) (name string, right v1.Grant, err error) {
	name, grant, _ := strings.Cut(strings.TrimSpace(text), " ")
	g, err := access.ParseGrant(grant)
	if err != nil {
		err = errors.New(words.Screen.NoRight.In(lang))
	}
	return name, v1.Grant(g), err
}

// added shows what the server has made.
func (s State) added(m Added) (State, []Do) {
	if s.note = m.Err; m.Err != "" {
		return s, nil
	}
	if m.place.same(s.here) && m.place.of == s.here.of {
		return s.ask()
	}
	return s.open(m.place)
}

// add makes a token, or gives a person a right.
func (c *caller) add(d Add) Added {
	if d.kind == hosts {
		made, err := c.client.CreateJoinToken(c.life, d.token)
		return Added{place: place{kind: secret, text: c.joinLines(made)}, Err: c.problem(err)}
	}
	return Added{place: place{kind: person, of: subject{id: d.name}}, Err: c.problem(c.give(d.name, d.right))}
}

// joinLines are what a person runs on each host. The screen knows the address of a server that it reaches by URL.
func (c *caller) joinLines(t v1.JoinToken) []string {
	lines := []string{words.Admin.TokenMade.In(c.lang, "n", t.Uses), words.Admin.Once.In(c.lang), ""}
	lines = append(lines, words.Admin.Paste.In(c.lang), "")
	origin := c.client.Address()
	if !strings.Contains(origin, "://") {
		origin = "https://SERVER:7350"
	}
	return append(lines, joining.Lines(term.ShellWord(origin), term.ShellWord(t.Token))...)
}

// give gives a person a right. A person that is not there is made.
func (c *caller) give(name string, right v1.Grant) error {
	u, err := c.client.User(c.life, name)
	if refusal, ok := errors.AsType[*v1.Problem](err); ok && refusal.Status == http.StatusNotFound {
		u, err = c.client.CreateUser(c.life, v1.UserChange{Name: name})
	}
	text := access.Grant(right).String()
	has := func(g v1.Grant) bool { return access.Grant(g).String() == text }
	if err != nil || slices.ContainsFunc(u.Grants, has) {
		return err
	}
	grants := append(slices.Clip(u.Grants), right)
	_, err = c.client.ChangeUser(c.life, name, v1.UserChange{Grants: &grants})
	return err
}

// link makes a link that signs a person in.
func (c *caller) link(d Link) Added {
	made, err := c.client.SignIn(c.life, d.User)
	return Added{Err: c.problem(err), place: place{kind: secret, text: []string{
		words.Admin.LinkFor.In(c.lang, "user", d.User), words.Admin.Once.In(c.lang), "", made.URL,
	}}}
}

// fillAdmin asks for people, for one person, or for records.
func (c *caller) fillAdmin(ctx context.Context, answer *Listed, p place, f filter) error {
	switch p.kind {
	case people:
		return firstPage(answer, c.client.Users(ctx))
	case audit:
		return firstPage(answer, c.client.Audit(ctx, client.AuditFilter{
			User: f.user, App: f.app, Action: f.action, Since: f.since, Until: f.until, Limit: Page,
		}))
	default:
		u, err := c.client.User(ctx, p.of.id)
		answer.Items = []any{u}
		return err
	}
}

func peopleColumns() []column {
	return []column{
		col(words.Head.User, 0, func(_ *State, u v1.User) string { return u.Name }),
		stateCol(words.Head.State, stateOfUser),
		col(words.Head.Created, 2, func(s *State, u v1.User) string { return s.age(&u.CreatedAt) }),
		col(words.Admin.Rights, 1, func(s *State, u v1.User) string { return strings.Join(s.rights(u), "; ") }),
	}
}

func stateOfUser(u v1.User) string {
	if u.Disabled {
		return "disabled"
	}
	return "enabled"
}

// rights are those of a person, with the groups of the identity provider that give some.
func (s *State) rights(u v1.User) (texts []string) {
	of := func(admin bool, grants []v1.Grant, by string) {
		if admin {
			texts = append(texts, words.Admin.Everything.In(s.lang)+by)
		}
		for _, g := range grants {
			right := access.Grant(g)
			text := right.String() + by
			if right.Ended(s.now) {
				text += " " + s.state("ended")
			}
			texts = append(texts, text)
		}
	}
	of(u.Admin, u.Grants, "")
	if u.Provider != nil {
		of(u.Provider.Admin, u.Provider.Grants, " ("+strings.Join(u.Provider.Groups, ", ")+")")
	}
	if len(texts) == 0 {
		return []string{words.Admin.NoRights.In(s.lang)}
	}
	return texts
}

// personText are the lines about a person.
func (s *State) personText(u v1.User) []string {
	lines := without(u.Name, field(words.Head.State.In(s.lang), s.state(stateOfUser(u))),
		field(words.Head.Created.In(s.lang), term.Stamp(&u.CreatedAt)),
		field(words.Admin.Note.In(s.lang), words.Note(u.Note, s.lang)))
	name := words.Admin.Rights.In(s.lang)
	for _, right := range s.rights(u) {
		lines = append(lines, field(name, right))
		name = ""
	}
	return append(lines, "", words.Admin.RightHint.In(s.lang))
}

func auditColumns() []column {
	return []column{
		col(words.Head.At, 0, func(_ *State, r v1.AuditRow) string {
			return r.At.Local().Format("01-02 15:04:05")
		}),
		col(words.Head.User, 0, func(_ *State, r v1.AuditRow) string { return who(r.App, r.User) }),
		col(words.Head.Address, 4, func(_ *State, r v1.AuditRow) string { return r.Remote }),
		col(words.Audit.Action, 0, func(s *State, r v1.AuditRow) string {
			return words.Did(remote.AskedFor(r), s.lang)
		}),
		stateCol(words.Head.Outcome, remote.AuditOutcome),
		col(words.Head.Subject, 1, func(_ *State, r v1.AuditRow) string { return r.Target }),
		col(words.Head.Reason, 2, func(s *State, r v1.AuditRow) string {
			if r.Reason == "" {
				return s.said(r.Message)
			}
			return r.Reason
		}),
	}
}

// who is the caller: a person alone if the person has called without an app.
func who(app, user string) string {
	if app == access.PersonApp(user) {
		return user
	}
	return term.Caller(app, user)
}
