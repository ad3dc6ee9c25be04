package webui

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

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
	// seenEvery is how often the last use of a session is stored.
	seenEvery = time.Minute
	// maxSessions is the number of sessions of a person; another one ends the oldest.
	maxSessions = 20
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

// languageCookie holds the language that a person has chosen.
const languageCookie = "drover-language"

// language is the language of a page: the person's choice, or what the browser prefers.
func language(r *http.Request) words.Lang {
	if c, err := r.Cookie(languageCookie); err == nil {
		if l, ok := words.ByTag(c.Value); ok {
			return l
		}
	}
	return words.Preferred(r.Header.Get("Accept-Language"))
}

// person identifies the person of a session. It fails with a *gate.Refusal if there is no valid session.
func (h *Handler) person(ctx context.Context, r *http.Request) (access.Principal, error) {
	c, err := r.Cookie(cookieName(r))
	if err != nil {
		return access.Principal{}, &gate.Refusal{Reason: gate.BadToken}
	}
	who, err := h.Gate.Person(ctx, store.Session, c.Value)
	if err != nil {
		return access.Principal{}, err
	}
	hash := access.HashToken(c.Value)
	t, _, err := h.Tokens.FindToken(ctx, hash)
	now := h.Now()
	switch {
	case errors.Is(err, store.ErrNotFound) || err == nil && now.Sub(t.Seen) > idleTime:
		return access.Principal{}, &gate.Refusal{Reason: gate.BadToken}
	case err != nil:
		return access.Principal{}, err
	case now.Sub(t.Seen) > seenEvery:
		if err := h.Tokens.SeeToken(ctx, hash, now); err != nil {
			return access.Principal{}, err
		}
	}
	return who, nil
}

// loginPage shows how to sign in.
func (h *Handler) loginPage(w http.ResponseWriter, r *http.Request) { h.showLogin(w, r, words.Text{}) }

func (h *Handler) showLogin(w http.ResponseWriter, r *http.Request, problem words.Text) {
	back := ""
	if r.Method == http.MethodGet && r.URL.Path != Prefix+"login" {
		back = r.URL.RequestURI()
	}
	v := &view{Handler: h, w: w, r: r, lang: language(r)}
	v.render(http.StatusOK, "login", map[string]any{
		"Problem": problem.In(v.lang), "Back": back, "As": words.Page.SignInAs.In(v.lang, "host", r.Host),
	})
}

// loginWho tells whom a link signs in. It does not use the link up, so that a page can ask before it signs in.
func (h *Handler) loginWho(w http.ResponseWriter, r *http.Request) {
	who, err := h.Gate.Person(r.Context(), store.Link, r.PostFormValue("code"))
	if err != nil {
		http.Error(w, words.Page.LinkUsed.In(language(r)), http.StatusGone)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(who.User)) // the browser has hung up
}

// login begins a session by a link, which ends with that.
func (h *Handler) login(w http.ResponseWriter, r *http.Request) {
	ctx, code := r.Context(), strings.TrimSpace(r.PostFormValue("code"))
	if _, after, found := strings.Cut(code, "#"); found { // the whole link
		code = after
	}
	who, err := h.Gate.Person(ctx, store.Link, code)
	if err == nil {
		_, err = h.Tokens.TakeToken(ctx, access.HashToken(code))
	}
	if _, refused := errors.AsType[*gate.Refusal](err); refused || errors.Is(err, store.ErrNotFound) {
		h.record(r, "console.sign-in", access.Principal{})
		h.showLogin(w, r, words.Page.LinkUsed)
		return
	}
	var token string
	if err == nil {
		token, err = h.begin(ctx, who.User, r)
	}
	if err != nil {
		(&view{Handler: h, w: w, r: r, lang: language(r)}).failed(err)
		return
	}
	h.record(r, "console.sign-in", who)
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // over http there is only loopback
		Name: cookieName(r), Value: token, Path: "/", MaxAge: int(sessionTime / time.Second), Secure: r.TLS != nil,
		HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
	//nolint:gosec // backTo returns paths of the console only
	http.Redirect(w, r, backTo(r.PostFormValue("back")), http.StatusSeeOther)
}

// record stores that a person has signed in or out. Nobody is one who was rejected.
func (h *Handler) record(r *http.Request, action string, who access.Principal) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), edge.AuditTime)
	defer cancel()
	row := store.AuditRow{
		At: h.Now(), App: who.App, User: who.User, Remote: audit.Remote(r), RequestID: audit.RequestID(""),
		Action: action, Allowed: who.User != "",
	}
	var err error
	if row.Allowed {
		err = h.Audit.PutAudit(ctx, row)
	} else {
		row.Code, row.Message = http.StatusForbidden, "the link has expired, or somebody has used it"
		err = h.Audit.PutDenial(ctx, "", row)
	}
	if err != nil {
		h.Log.Error("lost audit row", "endpoint", action, "error", err)
	}
}

// backTo is the page of this console to return to.
func backTo(path string) string {
	if strings.HasPrefix(path, Prefix) && !strings.ContainsAny(path, "\\\r\n") {
		return path
	}
	return Prefix
}

// begin stores a new session, and ends the oldest of too many.
func (h *Handler) begin(ctx context.Context, user string, r *http.Request) (token string, err error) {
	all, err := h.Tokens.ListTokens(ctx, user)
	if err != nil {
		return "", err
	}
	all = slices.DeleteFunc(all, func(t store.Token) bool { return t.Kind != store.Session })
	for i := 0; i+maxSessions <= len(all); i++ {
		if err := h.Tokens.DeleteToken(ctx, user, all[i].ID); err != nil && !errors.Is(err, store.ErrNotFound) {
			return "", err
		}
	}
	token, hash := access.NewToken()
	now := h.Now()
	return token, h.Tokens.CreateToken(ctx, store.Token{
		ID: strings.ToLower(rand.Text()[:8]), Kind: store.Session, User: user, Hash: hash, Created: now, Seen: now,
		Expires: now.Add(sessionTime), Note: audit.Clip(audit.Remote(r)+" "+r.UserAgent(), 200),
	})
}

// logout ends the session.
func (v *view) logout(ctx context.Context) error {
	c, err := v.r.Cookie(cookieName(v.r))
	if err == nil {
		_, err = v.Tokens.TakeToken(ctx, access.HashToken(c.Value))
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	v.record(v.r, "console.sign-out", v.who)
	http.SetCookie(v.w, &http.Cookie{ //nolint:gosec // over http there is only loopback
		Name: cookieName(v.r), Path: "/", MaxAge: -1, Secure: v.r.TLS != nil, HttpOnly: true,
		SameSite: http.SameSiteLaxMode,
	})
	http.Redirect(v.w, v.r, Prefix+"login", http.StatusSeeOther)
	return nil
}

// language stores the language that a person has chosen.
func (v *view) language(context.Context) error {
	if l, ok := words.ByTag(v.r.PostFormValue("language")); ok {
		http.SetCookie(v.w, &http.Cookie{ //nolint:gosec // over http there is only loopback
			Name: languageCookie, Value: l.Tag(), Path: Prefix, MaxAge: int(365 * 24 * time.Hour / time.Second),
			Secure: v.r.TLS != nil, HttpOnly: true, SameSite: http.SameSiteLaxMode,
		})
	}
	http.Redirect(v.w, v.r, backTo(v.r.PostFormValue("back")), http.StatusSeeOther)
	return nil
}
