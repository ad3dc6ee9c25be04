package webui

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/joining"
	"drover/internal/server/access"
	"drover/internal/words"
)

// part is a page of the administration.
type part struct {
	ID    string
	Title words.Text
	// show reads what the page shows. do carries out an action of its forms; the result is shown once, such as a
	// secret.
	show func(v *view, ctx context.Context, body map[string]any) error
	do   actions
}

// actions are the actions of the forms of a page, by their names.
type actions map[string]func(v *view, ctx context.Context, in url.Values) (once any, err error)

// parts are the pages of the administration.
func parts() []part {
	return []part{
		{"people", words.Admin.People, (*view).people, actions{
			"create": (*view).createPerson, "grant": (*view).grantPerson, "revoke": (*view).revokePerson,
			"disable": (*view).disablePerson, "enable": (*view).enablePerson, "link": (*view).linkPerson,
			"end": (*view).endToken,
		}},
		{"apps", words.Admin.Apps, (*view).apps, actions{
			"create": (*view).createApp, "grant": (*view).grantApp, "revoke": (*view).revokeApp,
			"disable": (*view).disableApp, "enable": (*view).enableApp, "rotate": (*view).rotateApp,
		}},
		{"tokens", words.Admin.Tokens, (*view).joinTokens, actions{"create": (*view).createJoinToken, "revoke": (*view).revokeJoinToken}},
		{"receivers", words.Admin.Receivers, (*view).receivers, receiverActions()},
		{"keys", words.Admin.Keys, (*view).keys, actions{"rotate": (*view).rotateKeys, "drop": (*view).dropKey}},
		{"proxies", words.Admin.Proxies, (*view).proxies, actions{"remove": (*view).removeProxy}},
		{"server", words.Admin.Server, (*view).server, nil},
	}
}

// admin shows a page of the administration, or carries out an action of it.
func (v *view) admin(ctx context.Context) error {
	all := parts()
	i := slices.IndexFunc(all, func(p part) bool { return p.ID == v.r.PathValue("part") })
	if i < 0 {
		return v.nothing(ctx)
	}
	if err := v.checkParameters([]string{"name", "code", "role"}); v.r.Method == http.MethodGet && err != nil {
		return err
	}
	if !v.who.Admin {
		return &v1.Problem{
			Status: http.StatusForbidden, Title: "Forbidden", Detail: v.who.User + " is not an administrator",
		}
	}
	p := all[i]
	body := map[string]any{"Part": p.ID, "Parts": all, "Query": v.r.URL.Query()}
	done, err := v.carryOut(ctx, p.do, body)
	if err != nil || done {
		return err
	}
	if err := p.show(v, ctx, body); err != nil {
		return err
	}
	v.render(http.StatusOK, "admin-"+p.ID, body)
	return nil
}

// carryOut carries out the action of a form, if the call is one. A result becomes what the page shows once. Without one
// the browser is sent on, and done is set.
func (v *view) carryOut(ctx context.Context, do actions, body map[string]any) (done bool, err error) {
	if v.r.Method != http.MethodPost {
		return false, nil
	}
	if err := v.r.ParseForm(); err != nil {
		return false, &v1.Problem{Status: http.StatusBadRequest}
	}
	action := do[v.r.PostForm.Get("do")]
	if action == nil {
		return false, &v1.Problem{Status: http.StatusBadRequest}
	}
	once, err := action(v, ctx, v.r.PostForm)
	if err != nil {
		return false, err
	}
	if once == nil {
		http.Redirect(v.w, v.r, backTo(v.r.PostForm.Get("back")), http.StatusSeeOther)
		return true, nil
	}
	body["Once"] = once
	return false, nil
}

// address returns the URL of this server by which the browser reaches it, with the base path.
func (v *view) address() string {
	scheme := "http://"
	if v.r.TLS != nil {
		scheme = "https://"
	}
	return scheme + v.r.Host + v.BasePath
}

// invalidInput is the error of a form that cannot be read.
func invalidInput(err error) error {
	return &v1.Problem{Status: http.StatusUnprocessableEntity, Title: "Unprocessable Entity", Detail: err.Error()}
}

// hours reads a number of hours as a length of time.
func hours(text string) (time.Duration, error) {
	n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || n < 0 || n > 100_000 {
		return 0, badParameter("hours", text, "a number of hours")
	}
	return time.Duration(n * float64(time.Hour)).Truncate(time.Second), nil
}

// people lists users, and shows one of them with the sessions.
func (v *view) people(ctx context.Context, body map[string]any) error {
	rows, err := client.Collect(v.client.Users(ctx))
	if err != nil {
		return err
	}
	body["Rows"], body["Command"] = rows, "drover user list"
	name := v.recordName("name")
	i := slices.IndexFunc(rows, func(u v1.User) bool { return u.Name == name })
	if i < 0 {
		return nil
	}
	tokens, err := v.client.Tokens(ctx, name)
	body["One"], body["Tokens"], body["Command"] = rows[i], tokens, "drover user tokens "+quote(name)
	return err
}

// recordName is the record that a page shows: of the URL, or of the form.
func (v *view) recordName(parameter string) string {
	if v.r.Method == http.MethodPost {
		return v.r.PostForm.Get(parameter)
	}
	return v.r.URL.Query().Get(parameter)
}

// shownOnce is content that only the next page shows, such as a new secret.
type shownOnce struct {
	Title, Text string
	// Lines are commands to paste.
	Lines []string
}

func (v *view) createPerson(ctx context.Context, in url.Values) (any, error) {
	note := in.Get("note")
	change := v1.UserChange{Name: in.Get("name"), Note: &note}
	if in.Get("admin") != "" {
		change.Admin = new(true)
	}
	if in.Get("right") != "" {
		g, err := v.rightIn(in)
		if err != nil {
			return nil, err
		}
		change.Grants = &[]v1.Grant{v1.Grant(g)}
	}
	if _, err := v.client.CreateUser(ctx, change); err != nil {
		return nil, err
	}
	in.Set("back", path("admin", "people")+"?name="+url.QueryEscape(change.Name)) // where the sign-in link is made
	return nil, nil
}

func (v *view) linkPerson(ctx context.Context, in url.Values) (any, error) {
	s, err := v.client.SignIn(ctx, in.Get("name"))
	if err != nil {
		return nil, err
	}
	return shownOnce{Title: words.Admin.LinkFor.In(v.lang, "user", visible(s.User)), Text: s.URL}, nil
}

func (v *view) disablePerson(ctx context.Context, in url.Values) (any, error) {
	if err := v.typed(in, in.Get("name")); err != nil {
		return nil, err
	}
	_, err := v.client.ChangeUser(ctx, in.Get("name"), v1.UserChange{Disabled: new(true)})
	return nil, err
}

func (v *view) enablePerson(ctx context.Context, in url.Values) (any, error) {
	_, err := v.client.ChangeUser(ctx, in.Get("name"), v1.UserChange{Disabled: new(false)})
	return nil, err
}

func (v *view) endToken(ctx context.Context, in url.Values) (any, error) {
	return nil, v.client.DeleteToken(ctx, in.Get("name"), in.Get("id"))
}

// rightIn reads a right, its end and its limit from a form.
func (v *view) rightIn(in url.Values) (access.Grant, error) {
	g, err := access.ParseGrant(in.Get("right"))
	var faults []error
	if err != nil {
		faults = append(faults, badField("right", err))
	}
	if text := in.Get("hours"); text != "" {
		lasts, err := hours(text)
		if err != nil || lasts <= 0 {
			faults = append(faults, badParameter("hours", text, "a number of hours"))
		}
		g.Until = v.Now().Add(lasts).UTC().Truncate(time.Second)
	}
	if text := in.Get("targets"); text != "" {
		if g.MaxTargets, err = strconv.Atoi(text); err != nil || g.MaxTargets <= 0 {
			faults = append(faults, badParameter("targets", text, "a number of 1 or more"))
		}
	}
	return g, badForm(faults)
}

// changedRights returns rights with the one of a form, or without it. Rights are compared in their text form.
func (v *view) changedRights(have []v1.Grant, in url.Values, add bool) ([]v1.Grant, error) {
	list := make([]access.Grant, len(have))
	for i, g := range have {
		list[i] = access.Grant(g)
	}
	if add {
		g, err := v.rightIn(in)
		if err != nil {
			return nil, err
		}
		list = access.With(list, g)
	} else {
		kept, removed := access.Without(list, in.Get("right"))
		if _, err := access.ParseGrant(in.Get("right")); err != nil && !removed {
			return nil, invalidInput(err)
		}
		list = kept
	}
	grants := make([]v1.Grant, len(list))
	for i, g := range list {
		grants[i] = v1.Grant(g)
	}
	return grants, nil
}

func (v *view) grantPerson(ctx context.Context, in url.Values) (any, error) {
	return nil, v.changePerson(ctx, in, true)
}

func (v *view) revokePerson(ctx context.Context, in url.Values) (any, error) {
	return nil, v.changePerson(ctx, in, false)
}

func (v *view) changePerson(ctx context.Context, in url.Values, add bool) error {
	u, err := v.client.User(ctx, in.Get("name"))
	if err != nil {
		return err
	}
	list, err := v.changedRights(u.Grants, in, add)
	if err != nil {
		return err
	}
	_, err = v.client.ChangeUser(ctx, u.Name, v1.UserChange{Grants: &list})
	return err
}

// apps lists apps, and shows one of them.
func (v *view) apps(ctx context.Context, body map[string]any) error {
	rows, err := client.Collect(v.client.Apps(ctx))
	if err != nil {
		return err
	}
	code := v.recordName("code")
	if i := slices.IndexFunc(rows, func(a v1.App) bool { return a.Code == code }); i >= 0 {
		body["One"] = rows[i]
	}
	body["Rows"], body["Command"] = rows, "drover app list"
	return nil
}

func (v *view) createApp(ctx context.Context, in url.Values) (any, error) {
	note := in.Get("note")
	change := v1.AppChange{Code: in.Get("code"), Note: &note}
	if in.Get("right") != "" {
		g, err := v.rightIn(in)
		if err != nil {
			return nil, err
		}
		change.Grants = &[]v1.Grant{v1.Grant(g)}
	}
	a, err := v.client.CreateApp(ctx, change)
	if err != nil {
		return nil, err
	}
	return shownOnce{Title: words.Admin.SecretOf.In(v.lang, "app", visible(a.Code)), Text: a.Secret}, nil
}

func (v *view) rotateApp(ctx context.Context, in url.Values) (any, error) {
	keep, err := hours(in.Get("hours"))
	if err != nil {
		return nil, err
	}
	a, err := v.client.NewSecret(ctx, in.Get("code"), keep)
	if err != nil {
		return nil, err
	}
	return shownOnce{Title: words.Admin.SecretOf.In(v.lang, "app", visible(a.Code)), Text: a.Secret}, nil
}

func (v *view) disableApp(ctx context.Context, in url.Values) (any, error) {
	if err := v.typed(in, in.Get("code")); err != nil {
		return nil, err
	}
	_, err := v.client.ChangeApp(ctx, in.Get("code"), v1.AppChange{Disabled: new(true)})
	return nil, err
}

func (v *view) enableApp(ctx context.Context, in url.Values) (any, error) {
	_, err := v.client.ChangeApp(ctx, in.Get("code"), v1.AppChange{Disabled: new(false)})
	return nil, err
}

func (v *view) grantApp(ctx context.Context, in url.Values) (any, error) {
	return nil, v.changeApp(ctx, in, true)
}

func (v *view) revokeApp(ctx context.Context, in url.Values) (any, error) {
	return nil, v.changeApp(ctx, in, false)
}

func (v *view) changeApp(ctx context.Context, in url.Values, add bool) error {
	a, err := v.client.App(ctx, in.Get("code"))
	if err != nil {
		return err
	}
	list, err := v.changedRights(a.Grants, in, add)
	if err != nil {
		return err
	}
	_, err = v.client.ChangeApp(ctx, a.Code, v1.AppChange{Grants: &list})
	return err
}

// joinTokens lists the tokens that hosts join with.
func (v *view) joinTokens(ctx context.Context, body map[string]any) error {
	rows, more, err := some(v.client.JoinTokens(ctx), perPage*4)
	body["Rows"], body["More"], body["Command"] = rows, more, "drover token list"
	return err
}

func (v *view) createJoinToken(ctx context.Context, in url.Values) (any, error) {
	t := client.NewJoinToken{Role: in.Get("role"), Note: in.Get("note"), Labels: map[string]string{}}
	var err error
	var faults []error
	if t.Cloud, err = strconv.Atoi(in.Get("area")); err != nil {
		faults = append(faults, badParameter("area", in.Get("area"), "a number"))
	}
	if t.Uses, err = strconv.Atoi(in.Get("uses")); err != nil {
		faults = append(faults, badParameter("uses", in.Get("uses"), "a number"))
	}
	if t.TTL, err = hours(in.Get("hours")); err != nil {
		faults = append(faults, err)
	}
	for _, label := range fields(in.Get("labels")) {
		key, value, found := strings.Cut(label, "=")
		if !found {
			faults = append(faults, badParameter("labels", label, "KEY=VALUE"))
		}
		t.Labels[key] = value
	}
	if err := badForm(faults); err != nil {
		return nil, err
	}
	made, err := v.client.CreateJoinToken(ctx, t)
	if err != nil {
		return nil, err
	}
	return shownOnce{
		Title: words.Admin.TokenMade.In(v.lang, "n", made.Uses), Text: made.Token,
		Lines: joinLines(made.Role, v.address(), made.Token),
	}, nil
}

// joinLines are the lines that a person pastes on a host, or on the machine of a proxy.
func joinLines(role, server, token string) []string {
	if role == "proxy" {
		return []string{
			"dpkg -i drover_*.deb",
			"echo " + quote(token) + " | drover proxy join --server " + quote(server) +
				" --token - --name $(hostname) --advertise $(hostname -f):7351 --data-dir /var/lib/drover-proxy",
			"systemctl enable --now drover-proxy",
		}
	}
	return joining.Lines(quote(server), quote(token))
}

func (v *view) revokeJoinToken(ctx context.Context, in url.Values) (any, error) {
	return nil, v.client.RevokeJoinToken(ctx, in.Get("id"))
}

// keyKind is the keys of one kind, and the next step of their rotation.
type keyKind struct {
	ID   string
	Keys []v1.Key
	// Announced is set if there is a next key; the next step takes it into use.
	Announced bool
}

// keys lists the keys by which hosts trust the server.
func (v *view) keys(ctx context.Context, body map[string]any) error {
	k, err := v.client.Keys(ctx)
	var kinds []keyKind
	for _, key := range k.Keys {
		i := slices.IndexFunc(kinds, func(known keyKind) bool { return known.ID == key.Kind })
		if i < 0 {
			i = len(kinds)
			kinds = append(kinds, keyKind{ID: key.Kind})
		}
		kinds[i].Keys = append(kinds[i].Keys, key)
		kinds[i].Announced = kinds[i].Announced || key.Stage == "next"
	}
	body["Keys"], body["Kinds"], body["Without"] = k, kinds, k.Online-k.Reached
	body["Command"] = "drover keys list"
	return err
}

// rotateKeys does the next step of a rotation, if it is still the step that the page has shown.
func (v *view) rotateKeys(ctx context.Context, in url.Values) (any, error) {
	kind := in.Get("kind")
	var keep time.Duration
	if in.Get("step") == "use" {
		if err := v.typed(in, kind); err != nil {
			return nil, err
		}
		if in.Get("days") != "" {
			days, err := strconv.Atoi(in.Get("days"))
			if err != nil || days < 0 || days > 36_500 {
				return nil, badParameter("days", in.Get("days"), "a number of days")
			}
			keep = time.Duration(days) * 24 * time.Hour
		}
	}
	k, err := v.client.Keys(ctx)
	if err != nil {
		return nil, err
	}
	announced := slices.ContainsFunc(k.Keys, func(k v1.Key) bool { return k.Kind == kind && k.Stage == "next" })
	if announced != (in.Get("step") == "use") {
		return nil, &v1.Problem{
			Status: http.StatusConflict, Title: http.StatusText(http.StatusConflict),
			Detail: words.Admin.ChangedMeanwhile.In(v.lang),
		}
	}
	_, err = v.client.RotateKeys(ctx, kind, keep, announced && in.Get("force") != "")
	return nil, err
}

func (v *view) dropKey(ctx context.Context, in url.Values) (any, error) {
	if err := v.typed(in, in.Get("kind")); err != nil {
		return nil, err
	}
	return nil, v.client.DropKey(ctx, in.Get("kind"), in.Get("id"))
}

// proxies lists the proxies of areas.
func (v *view) proxies(ctx context.Context, body map[string]any) error {
	rows, err := client.Collect(v.client.Proxies(ctx))
	body["Rows"], body["Command"] = rows, "drover proxies list"
	return err
}

func (v *view) removeProxy(ctx context.Context, in url.Values) (any, error) {
	if err := v.typed(in, in.Get("name")); err != nil {
		return nil, err
	}
	return nil, v.client.RemoveProxy(ctx, in.Get("key"))
}

// server shows the state of the server.
func (v *view) server(ctx context.Context, body map[string]any) error {
	s, err := v.client.Server(ctx)
	body["Server"] = s
	return err
}

// firstOfAdmin leads to the first page of the administration.
func (v *view) firstOfAdmin(context.Context) error {
	http.Redirect(v.w, v.r, path("admin", parts()[0].ID), http.StatusSeeOther)
	return nil
}
