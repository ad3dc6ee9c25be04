package webui

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"drover/internal/server/access"
	"drover/internal/server/audit"
	"drover/internal/server/gate"
	"drover/internal/server/provider"
	"drover/internal/server/store"
	"drover/internal/words"
)

// Provider is the identity provider of a console.
type Provider struct {
	*provider.Provider
	// Groups are the rights of its groups.
	Groups access.GroupRights
	// RedirectURL is where the provider sends browsers back to; empty: below the address that the browser has called.
	RedirectURL string
}

// providerPath sends a browser to the provider, which sends the browser back to callback below the path.
const providerPath = "/ui/login/oidc"

// flowTime is how long a browser keeps a sign-in that has not ended.
const flowTime = 10 * time.Minute

// anew is a parameter of the sign-in: the provider asks the person again.
const anew = "anew"

// flowCookie is the name of the cookie with the flow. It has the protection of the session's cookie.
func flowCookie(r *http.Request) string { return cookieName(r) + "-oidc" }

// providerLink returns the link of the sign-in page to the identity provider; nil if there is no provider. Whoever has
// a session, or has just signed out, signs in anew.
func (v *view) providerLink() any {
	if v.Provider == nil {
		return nil
	}
	at := providerPath
	if v.session.ID != "" || v.r.FormValue(anew) != "" {
		at += "?" + anew + "=1"
	}
	return map[string]string{"Name": v.Provider.name(), "Path": at}
}

// name is the name of the provider in pages.
func (p *Provider) name() string {
	if u, err := url.Parse(p.Issuer); err == nil && u.Host != "" {
		return u.Host
	}
	return p.Issuer
}

// callback is where the provider sends the browser of a call back to.
func (v *view) callback() string {
	return cmp.Or(v.Provider.RedirectURL, v.address()+providerPath+"/callback")
}

// toProvider sends a browser to the provider. A page of another site cannot begin a sign-in.
func (h *Handler) toProvider(w http.ResponseWriter, r *http.Request) {
	v := &view{Handler: h, w: w, r: r, lang: language(r)}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		h.loginPage(w, r)
		return
	}
	age := sessionTime
	if r.FormValue(anew) != "" {
		age = 0
	}
	address, flow, err := v.Provider.Begin(r.Context(), v.callback(), age)
	if err != nil {
		v.notSignedIn(err, "")
		return
	}
	v.setCookie(flowCookie(r), flow.Text(), "/", flowTime)
	http.Redirect(w, r, address, http.StatusSeeOther)
}

// fromProvider signs a person in with the answer of the provider.
func (h *Handler) fromProvider(w http.ResponseWriter, r *http.Request) {
	if h.rejectIfLimited(w, r) {
		return
	}
	v := &view{Handler: h, w: w, r: r, lang: language(r)}
	flow := provider.Flow{}
	if c, err := r.Cookie(flowCookie(r)); err == nil {
		flow = provider.ParseFlow(c.Value)
	}
	if flow.State == "" || r.URL.Query().Get("state") != flow.State {
		v.notSignedIn(errStray, "")
		return
	}
	v.setCookie(flowCookie(r), "", "/", 0) // an answer counts once
	p, err := v.Provider.Finish(r.Context(), v.callback(), flow, r.URL.Query())
	if err == nil {
		err = v.signInPerson(r.Context(), p)
	}
	if err != nil {
		v.notSignedIn(err, p.Name)
	}
}

// The reasons to reject a person whom the provider knows, and an answer for another browser.
var (
	errStray    = errors.New("no sign-in of this browser waits for the answer")
	errUnknown  = errors.New("drover does not know the person, and no group of the person has rights")
	errDisabled = errors.New("the user is disabled")
	errOld      = errors.New("the provider did not ask the person again")
)

// signInPerson begins a session of a person whom the provider knows, and answers the call.
func (v *view) signInPerson(ctx context.Context, p provider.Person) error {
	_, _, err := v.person(ctx, v.r)
	if err == nil && !v.isRecent(p.Proved) { // this is the second sign-in, which is to be a recent one
		return errOld
	}
	if _, refused := errors.AsType[*gate.Refusal](err); err != nil && !refused {
		return err
	}
	groups := slices.DeleteFunc(slices.Clone(p.Groups), func(name string) bool {
		return !v.Provider.Groups.Knows([]string{name})
	})
	slices.Sort(groups)
	groups = slices.Compact(groups)
	if err := v.keepPerson(ctx, p.Name, groups); err != nil {
		return err
	}
	cookie, session := v.newSession(v.r, p.Proved)
	session.User = p.Name
	if err := v.makeRoom(ctx, p.Name, store.Session); err != nil {
		return err
	}
	if err := v.Tokens.CreateToken(ctx, session); err != nil {
		return err
	}
	v.finishSignIn(ctx, cookie, v.providerRow(store.AuditRow{App: access.PersonApp(p.Name), User: p.Name}, groups))
	return nil
}

// keepPerson stores the groups of a person. It creates a user of a group with an entry.
func (v *view) keepPerson(ctx context.Context, name string, groups []string) error {
	u, err := v.Users.GetUser(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		if len(groups) == 0 {
			return errUnknown
		}
		u = store.User{Name: name, Note: audit.Clip("of "+v.Provider.Issuer, 200), Groups: groups, Created: v.Now()}
		err = v.Users.CreateUser(ctx, u)
	}
	switch {
	case errors.Is(err, store.ErrExists): // by another sign-in at the same time
	case err != nil:
		return err
	case u.Disabled:
		return errDisabled
	case slices.Equal(u.Groups, groups):
		return nil
	}
	_, err = v.Users.ChangeUser(ctx, name, func(u *store.User) error {
		if u.Disabled {
			return errDisabled
		}
		u.Groups = groups
		return nil
	})
	return err
}

// providerRow is the audit row of a sign-in with the provider.
func (v *view) providerRow(row store.AuditRow, groups []string) store.AuditRow {
	row.Action = signInAction
	row.Detail, _ = json.Marshal(map[string]any{"provider": v.Provider.Issuer, "groups": groups}) // texts only
	return row
}

// notSignedIn answers a sign-in with the provider that has failed, of a person whose name may be unknown.
func (v *view) notSignedIn(err error, name string) {
	status, text := http.StatusForbidden, words.Provider.Refused
	refusal, refused := errors.AsType[*provider.Refusal](err)
	switch {
	case errors.Is(err, provider.ErrAway):
		status, text = http.StatusServiceUnavailable, words.Provider.Away
	case errors.Is(err, errStray):
		text = words.Provider.Stray
	case errors.Is(err, errUnknown):
		text = words.Provider.Unknown
	case errors.Is(err, errDisabled):
		text, err = words.Provider.Disabled, errDisabled
	case errors.Is(err, errOld):
		text = words.Provider.Old
	case refused:
		err = refusal
	default:
		v.failed(err)
		return
	}
	if status == http.StatusForbidden {
		v.failures.Note(audit.Remote(v.r), v.Now())
	} else {
		v.Log.Warn("cannot sign in with the identity provider", "provider", v.Provider.Issuer, "error", err)
	}
	message := err.Error()
	if name != "" {
		message += ": " + name
	}
	v.record(v.r, v.providerRow(store.AuditRow{
		Code: status, Message: audit.Clip(message, 500), Target: audit.Clip(name, 200),
	}, nil))
	page := *v.r
	page.URL = &url.URL{Path: Prefix + "login"} // the page links to itself, and an answer counts once
	v.r = &page
	v.showLogin(v, status, text, "provider", v.Provider.name(), "user", visible(name))
}
