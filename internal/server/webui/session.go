package webui

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/internal/server/access"
	"drover/internal/server/audit"
	"drover/internal/server/edge"
	"drover/internal/server/gate"
	"drover/internal/server/store"
	"drover/internal/words"
)

// Limits of sessions.
const (
	// sessionTime is the longest time of a session, idleTime the longest time between two calls of it.
	sessionTime = 12 * time.Hour
	idleTime    = time.Hour
	// seenEvery is the shortest time between two writes of the last use of a session.
	seenEvery = time.Minute
	// maxSessions is the number of sessions of a person; another one ends the oldest.
	maxSessions = 20
	// recentTime is the longest time since the sign-in for administration, and for operations, applies and rollouts
	// above recentAbove processes or hosts. Pausing and aborting need no recent sign-in.
	recentTime  = 15 * time.Minute
	recentAbove = 1000
	// backTime is how long a browser remembers the page to return to after the sign-in.
	backTime = 10 * time.Minute
)

// cookieName is the name of the session's cookie. A browser sends a cookie of the first name over https only, and only
// to the host that set it. Over http there is only loopback, where several servers share a host and differ in the port.
func cookieName(r *http.Request) string {
	if r.TLS != nil {
		return "__Host-drover"
	}
	_, port, _ := net.SplitHostPort(r.Host)
	return "drover-" + cmp.Or(port, "80")
}

// sessionSecret is the secret of the session of a call: the cookie, and the account of this machine that sends it. A
// cookie knows no ports, so a browser sends it to every server of the same host. Another account that has got a cookie
// in this way has no session. Without a cookie the secret is empty.
func sessionSecret(r *http.Request) string {
	c, err := r.Cookie(cookieName(r))
	if err != nil {
		return ""
	}
	return secretOf(r, c.Value)
}

// secretOf is the secret of a session with a cookie, for the account of a caller. No cookie has a NUL byte, so that no
// cookie with one account gives the secret of another cookie with another account.
func secretOf(r *http.Request, cookie string) string {
	return edge.Account(r.Context()) + "\x00" + cookie
}

// languageCookie holds the language that a person has chosen, backCookie the page to return to after the sign-in: a
// link often opens in another tab.
const (
	languageCookie = "drover-language"
	backCookie     = "drover-back"
)

// language is the language of a page: the person's choice, or what the browser prefers.
func language(r *http.Request) words.Lang {
	if c, err := r.Cookie(languageCookie); err == nil {
		if l, ok := words.ByTag(c.Value); ok {
			return l
		}
	}
	return words.Preferred(r.Header.Get("Accept-Language"))
}

// attended reports whether a person may have made a call: a page that renews itself needs nobody, nor does its stream.
func attended(r *http.Request) bool { return r.Header.Get(renews) == "" && r.URL.Path != Prefix+"live" }

// person identifies the person of a session. It fails with a *gate.Refusal if there is no valid session.
func (h *Handler) person(ctx context.Context, r *http.Request) (access.Principal, store.Token, error) {
	secret := sessionSecret(r)
	if secret == "" {
		return access.Principal{}, store.Token{}, &gate.Refusal{Reason: gate.BadToken}
	}
	who, t, err := h.Gate.Person(ctx, store.Session, secret)
	now := h.Now()
	switch {
	case err != nil:
		return access.Principal{}, store.Token{}, err
	case now.Sub(t.LastUse) > idleTime:
		return access.Principal{}, store.Token{}, &gate.Refusal{Reason: gate.BadToken}
	case now.Sub(t.LastUse) > seenEvery && attended(r):
		if err := h.Tokens.SeeToken(ctx, access.HashToken(secret), now); err != nil {
			return access.Principal{}, store.Token{}, err
		}
	}
	return who, t, nil
}

// recently returns a page for people whose sign-in is recent. Others get the page that signs them in again.
func recently(p page) page {
	return func(v *view, ctx context.Context) error {
		if !v.recent() {
			v.signInAgain()
			return nil
		}
		return p(v, ctx)
	}
}

// recent reports whether the sign-in is recent.
func (v *view) recent() bool { return v.isRecent(v.session.Proved) }

// isRecent reports whether a proof at a time is recent; zero is not.
func (h *Handler) isRecent(proved time.Time) bool { return h.Now().Sub(proved) <= recentTime }

// signInAgain asks a person for another sign-in, which leads back to the page of the call.
func (v *view) signInAgain() { v.showLogin(v, http.StatusForbidden, words.Session.Again) }

// loginPage shows how to sign in.
func (h *Handler) loginPage(w http.ResponseWriter, r *http.Request) {
	h.showLogin(&view{Handler: h, w: w, r: r, lang: language(r)}, http.StatusOK, words.Text{})
}

// showLogin shows how to sign in, and has the browser remember the page to return to.
func (h *Handler) showLogin(v *view, status int, problem words.Text, args ...any) {
	back := ""
	switch {
	case v.r.Method != http.MethodGet:
		back = v.r.PostFormValue("back")
	case !strings.HasPrefix(v.r.URL.Path, Prefix+"login"):
		back = v.r.URL.RequestURI()
	}
	if strings.HasPrefix(back, Prefix+"login") { // where a sign-in would end on this page again
		back = ""
	}
	if back != "" && len(back) <= maxBack {
		v.setCookie(backCookie, url.QueryEscape(back), Prefix, backTime)
	}
	v.render(status, "login", map[string]any{
		"Problem": problem.In(v.lang, args...), "Back": back,
		"As":       words.Page.SignInAs.In(v.lang, "host", v.r.Host),
		"Provider": v.providerLink(),
	})
}

// maxBack is the length of the longest path that a browser remembers, in bytes.
const maxBack = 2000

// setCookie gives the browser a cookie that scripts cannot read, for all paths or those below Prefix. Zero time removes
// it.
func (v *view) setCookie(name, value, at string, lasts time.Duration) {
	age := int(lasts / time.Second)
	if age == 0 {
		age = -1
	}
	if at == Prefix {
		at = v.BasePath + at
	}
	http.SetCookie(v.w, &http.Cookie{ //nolint:gosec // over http there is only loopback
		Name: name, Value: value, Path: at, MaxAge: age, Secure: v.r.TLS != nil, HttpOnly: true,
		SameSite: http.SameSiteLaxMode,
	})
}

// remembered is the page that the browser came from to the sign-in.
func remembered(r *http.Request) string {
	c, err := r.Cookie(backCookie)
	if err != nil {
		return ""
	}
	back, _ := url.QueryUnescape(c.Value) // else it is empty
	return back
}

// rejectIfLimited answers a caller from whose address too many sign-ins have failed, and reports whether it did.
func (h *Handler) rejectIfLimited(w http.ResponseWriter, r *http.Request) bool {
	wait := h.failures.Wait(audit.Remote(r), h.Now())
	if wait <= 0 {
		return false
	}
	h.record(r, store.AuditRow{
		Action: signInAction, Code: http.StatusTooManyRequests, Message: "too many sign-ins have failed",
	})
	seconds := int(math.Ceil(wait.Seconds()))
	w.Header().Set("Retry-After", strconv.Itoa(seconds))
	h.showLogin(&view{Handler: h, w: w, r: r, lang: language(r)}, http.StatusTooManyRequests, words.Session.TooMany,
		"n", seconds)
	return true
}

// loginWho tells whom a link signs in. It does not use the link up, so that a page can ask before it signs in.
func (h *Handler) loginWho(w http.ResponseWriter, r *http.Request) {
	if wait := h.failures.Wait(audit.Remote(r), h.Now()); wait > 0 {
		seconds := int(math.Ceil(wait.Seconds()))
		http.Error(w, words.Session.TooMany.In(language(r), "n", seconds), http.StatusTooManyRequests)
		return
	}
	who, _, err := h.Gate.Person(r.Context(), store.Link, r.PostFormValue("code"))
	if _, refused := errors.AsType[*gate.Refusal](err); err != nil && !refused {
		(&view{Handler: h, w: w, r: r, lang: language(r)}).failed(err)
		return
	}
	if err != nil {
		h.failures.Note(audit.Remote(r), h.Now())
		http.Error(w, words.Page.LinkUsed.In(language(r)), http.StatusGone)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(who.User)) // the browser has hung up
}

// login begins a session by a link, which ends with that. A session that the browser had before ends, too.
func (h *Handler) login(w http.ResponseWriter, r *http.Request) {
	if h.rejectIfLimited(w, r) {
		return
	}
	ctx, code := r.Context(), strings.TrimSpace(r.PostFormValue("code"))
	if _, after, found := strings.Cut(code, "#"); found { // the whole link
		code = after
	}
	v := &view{Handler: h, w: w, r: r, lang: language(r)}
	cookie, session := h.newSession(r, h.Now())
	who, _, err := h.Gate.Person(ctx, store.Link, code)
	if err == nil {
		err = h.makeRoom(ctx, who.User, store.Session)
	}
	if err == nil {
		_, err = h.Tokens.TakeToken(ctx, access.HashToken(code), &session)
	}
	if _, refused := errors.AsType[*gate.Refusal](err); refused || errors.Is(err, store.ErrNotFound) {
		h.failures.Note(audit.Remote(r), h.Now())
		h.record(r, store.AuditRow{
			Action: signInAction, Code: http.StatusForbidden, Message: "the link has expired, or somebody has used it",
		})
		h.showLogin(v, http.StatusOK, words.Page.LinkUsed)
		return
	}
	if err != nil {
		v.failed(err)
		return
	}
	v.finishSignIn(ctx, cookie, store.AuditRow{Action: signInAction, App: who.App, User: who.User})
}

// finishSignIn answers a sign-in that has begun a session. A session that the browser had before ends.
func (v *view) finishSignIn(ctx context.Context, cookie string, row store.AuditRow) {
	if err := v.endSession(ctx, v.r); err != nil {
		v.failed(err)
		return
	}
	v.record(v.r, row)
	v.setCookie(cookieName(v.r), cookie, "/", sessionTime)
	v.setCookie(backCookie, "", Prefix, 0)
	//nolint:gosec // backTo returns paths of the console only
	http.Redirect(v.w, v.r, backTo(cmp.Or(v.r.PostFormValue("back"), remembered(v.r))), http.StatusSeeOther)
}

// endSession ends the session of a browser, if it has one.
func (h *Handler) endSession(ctx context.Context, r *http.Request) error {
	secret := sessionSecret(r)
	if secret == "" {
		return nil
	}
	_, err := h.Tokens.TakeToken(ctx, access.HashToken(secret), nil)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// signInAction is the action of audit rows of sign-ins.
const signInAction = "console.sign-in"

// record stores that a person has signed in or out. A row without a user is a rejection, with a code and a message.
func (h *Handler) record(r *http.Request, row store.AuditRow) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), edge.AuditTime)
	defer cancel()
	row.At, row.Remote, row.RequestID, row.Allowed = h.Now(), audit.Remote(r), audit.RequestID(""), row.User != ""
	var err error
	if row.Allowed {
		err = h.Audit.PutAudit(ctx, row)
	} else {
		err = h.Audit.PutDenial(ctx, "", row)
	}
	if err != nil {
		h.Log.Error("lost audit row", "endpoint", row.Action, "error", err)
	}
}

// backTo is the page of this console to return to.
func backTo(path string) string {
	if strings.HasPrefix(path, Prefix) && !strings.ContainsAny(path, "\\\r\n") {
		return path
	}
	return Prefix
}

// newSession returns a session for a browser, without its user, and the value of its cookie. Proved is when the person
// has proved the identity.
func (h *Handler) newSession(r *http.Request, proved time.Time) (cookie string, s store.Token) {
	cookie, _ = access.NewToken()
	now := h.Now()
	return cookie, store.Token{
		ID: strings.ToLower(rand.Text()[:8]), Kind: store.Session, Hash: access.HashToken(secretOf(r, cookie)),
		Created: now, LastUse: now, Proved: proved,
		Expires: now.Add(sessionTime), Note: audit.Clip(audit.Remote(r)+" "+r.UserAgent(), 200),
	}
}

// logout ends the session.
func (v *view) logout(ctx context.Context) error {
	if err := v.endSession(ctx, v.r); err != nil {
		return err
	}
	v.record(v.r, store.AuditRow{Action: "console.sign-out", App: v.who.App, User: v.who.User})
	v.setCookie(cookieName(v.r), "", "/", 0)
	http.Redirect(v.w, v.r, Prefix+"login?"+anew+"=1", http.StatusSeeOther)
	return nil
}

// language stores the language that somebody has chosen, who need not be signed in.
func (h *Handler) language(w http.ResponseWriter, r *http.Request) {
	if l, ok := words.ByTag(r.PostFormValue("language")); ok {
		(&view{Handler: h, w: w, r: r}).setCookie(languageCookie, l.Tag(), Prefix, 365*24*time.Hour)
	}
	//nolint:gosec // backTo returns paths of the console only
	http.Redirect(w, r, backTo(r.PostFormValue("back")), http.StatusSeeOther)
}

// ownSession is a session as its person sees it.
type ownSession struct {
	v1.Token
	Address, Browser string
	// Here is set for the session of the call.
	Here bool
}

// sessions lists the sessions of the person, the newest first.
func (v *view) sessions(ctx context.Context) error {
	rows, err := v.ownSessions(ctx)
	if err != nil {
		return err
	}
	v.render(http.StatusOK, "sessions", map[string]any{
		"Rows": rows, "Others": len(rows) > 1, "Command": "drover user tokens " + quote(v.who.User),
	})
	return nil
}

func (v *view) ownSessions(ctx context.Context) (rows []ownSession, err error) {
	all, err := v.client.Tokens(ctx, v.who.User)
	if err != nil {
		return nil, err
	}
	for _, t := range slices.Backward(all) {
		if t.Kind != string(store.Session) || t.SeenAt != nil && v.Now().Sub(*t.SeenAt) > idleTime ||
			t.ExpiresAt != nil && !v.Now().Before(*t.ExpiresAt) {
			continue
		}
		address, agent, _ := strings.Cut(t.Note, " ")
		rows = append(rows, ownSession{
			Token: t, Address: address, Browser: browserName(agent), Here: t.ID == v.session.ID,
		})
	}
	return rows, nil
}

// endSessions ends one session of the person, or all others.
func (v *view) endSessions(ctx context.Context) error {
	rows, err := v.ownSessions(ctx)
	if err != nil {
		return err
	}
	id := v.r.PostFormValue("id")
	for _, s := range rows {
		if s.ID != id && (id != "" || s.Here) {
			continue
		}
		err := v.client.DeleteToken(ctx, v.who.User, s.ID)
		if known, ok := errors.AsType[*v1.Problem](err); ok && known.Status == http.StatusNotFound {
			err = nil
		}
		if err != nil {
			return err
		}
	}
	http.Redirect(v.w, v.r, Prefix+"sessions", http.StatusSeeOther)
	return nil
}

// browserName is a short name for what a browser says of itself, or that text. The order counts: browsers also name the
// browsers that they resemble.
func browserName(agent string) string {
	first := func(marks ...string) string {
		for i := 0; i < len(marks); i += 2 {
			if strings.Contains(agent, marks[i]) {
				return marks[i+1]
			}
		}
		return ""
	}
	browser := first("Edg/", "Edge", "OPR/", "Opera", "Firefox/", "Firefox", "Chrome/", "Chrome", "Safari/", "Safari",
		"curl/", "curl")
	system := first("Android", "Android", "iPhone", "iPhone", "iPad", "iPad", "Windows", "Windows", "Mac OS X", "macOS",
		"Linux", "Linux")
	switch {
	case browser == "":
		return agent
	case system == "":
		return browser
	}
	return browser + ", " + system
}
