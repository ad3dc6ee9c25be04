package webui

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	v1 "drover/api/v1"
	"drover/internal/server/access"
	"drover/internal/server/admission"
	"drover/internal/server/api"
	"drover/internal/server/edge"
	"drover/internal/server/gate"
	"drover/internal/server/store"
)

// rows keeps audit rows.
type rows struct{ list []string }

func (a *rows) PutAudit(_ context.Context, rows ...store.AuditRow) error {
	for i := range rows {
		a.list = append(a.list, rows[i].Action)
	}
	return nil
}

func (a *rows) NoteAudit(ctx context.Context, row store.AuditRow) error { return a.PutAudit(ctx, row) }

func (a *rows) PutDenial(ctx context.Context, _ string, row store.AuditRow) error {
	return a.PutAudit(ctx, row)
}

// open is a gate that lets everybody in.
type open struct{ edge.Gate }

func (open) Enter(access.Principal) (func(), gate.Usage, gate.Verdict) {
	return func() {}, gate.Usage{}, gate.Within
}

// broken is a gate whose database fails.
type broken struct{ Gate }

var errSecret = errors.New("cannot read token: dial tcp 10.9.8.7:5432: refused")

func (broken) Person(context.Context, store.TokenKind, string) (access.Principal, store.Token, error) {
	return access.Principal{}, store.Token{}, errSecret
}

// schedules is a database without schedules.
type schedules struct{ store.Schedules }

func (schedules) FullSince() time.Time { return time.Time{} }

func (schedules) ListSchedules(context.Context, string) ([]store.Schedule, error) { return nil, nil }

// TestReadsAreAudited: a page that renews itself has one audit row, and no header of a reader hides the first read.
func TestReadsAreAudited(t *testing.T) {
	now, audit := time.Unix(1_800_000_000, 0), &rows{}
	log := slog.New(slog.DiscardHandler)
	api := api.New(api.Config{
		Config:    edge.Config{Gate: open{}, Audit: audit, Log: log, Rooms: admission.New(), Now: func() time.Time { return now }},
		Schedules: schedules{}, Fullness: schedules{},
	})
	h, err := New(Config{API: api, Log: log, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	read := func(session, path string, renewing bool) {
		t.Helper()
		page := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/ui/x", http.NoBody)
		page.AddCookie(&http.Cookie{Name: cookieName(page), Value: session}) //nolint:gosec // of a test
		if renewing {
			page.Header.Set(renews, "1")
		}
		who := access.Principal{App: access.PersonApp("anna"), User: "anna", Proven: true}
		call := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1"+path, http.NoBody)
		answer, err := inProcess{h, who, page, &calls{}}.RoundTrip(call)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("status %v, error %v", answer, err)
		}
		_ = answer.Body.Close()
	}
	for i, c := range []struct {
		session  string
		renewing bool
		after    time.Duration
		rows     int
	}{
		{"a", true, 0, 1}, // the header alone hides nothing
		{"a", true, time.Minute, 1},
		{"a", true, 4 * time.Minute, 1},
		{"a", false, time.Minute, 2},
		{"b", true, 0, 3},
		{"a", true, renewTime, 4},
	} {
		now = now.Add(c.after)
		if read(c.session, "/schedules", c.renewing); len(audit.list) != c.rows {
			t.Errorf("after read %d there are the rows %q, want %d", i, audit.list, c.rows)
		}
	}
}

// TestStrangersLearnNothing: the errors of the server's parts are for its log.
func TestStrangersLearnNothing(t *testing.T) {
	var log strings.Builder
	h, err := New(Config{
		Gate: broken{}, Audit: &rows{}, Named: func(string) bool { return true }, Now: time.Now,
		Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/ui/login", "/ui/login/who", "/ui/hosts"} {
		method := http.MethodGet
		if strings.HasPrefix(path, "/ui/login") {
			method = http.MethodPost
		}
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(url.Values{"code": {"x"}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.RemoteAddr = "127.0.0.1:1"
		r.AddCookie(&http.Cookie{Name: cookieName(r), Value: "s"}) //nolint:gosec // of a test
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		text, err := io.ReadAll(w.Result().Body)
		if err != nil {
			t.Fatal(err)
		}
		if w.Code != http.StatusInternalServerError || strings.Contains(string(text), "10.9.8.7") {
			t.Errorf("%s: status %d, %.2000s", path, w.Code, text)
		}
	}
	if n := strings.Count(log.String(), "10.9.8.7"); n != 3 {
		t.Errorf("the log tells %d of 3 failures: %s", n, log.String())
	}
}

// sessions is a register with one session, which was used last at seen, and a gate that takes each token for it.
type sessions struct {
	Gate
	store.Tokens
	seen time.Time
}

func (s *sessions) SeeToken(_ context.Context, _ string, at time.Time) error {
	s.seen = at
	return nil
}

func (s *sessions) Person(context.Context, store.TokenKind, string) (access.Principal, store.Token, error) {
	return access.Principal{User: "anna"}, store.Token{Kind: store.Session, LastUse: s.seen}, nil
}

// TestIdleSession: a page that renews itself does not keep a session.
func TestIdleSession(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	tokens := &sessions{seen: now}
	h, err := New(Config{Gate: tokens, Tokens: tokens, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	call := func(path, renewing string) error {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
		r.AddCookie(&http.Cookie{Name: cookieName(r), Value: "s"}) //nolint:gosec // of a test
		r.Header.Set(renews, renewing)
		_, _, err := h.person(t.Context(), r)
		return err
	}
	for _, unattended := range [][2]string{{"/ui/", "1"}, {"/ui/live", ""}} {
		tokens.seen = now
		for range 3 {
			now = now.Add(29 * time.Minute)
			if err := call("/ui/", ""); err != nil {
				t.Fatalf("a person who works is signed out: %v", err)
			}
		}
		for range 3 {
			now = now.Add(29 * time.Minute)
			err = call(unattended[0], unattended[1])
		}
		if _, refused := errors.AsType[*gate.Refusal](err); !refused {
			t.Errorf("an unattended page keeps the session by %q: %v", unattended, err)
		}
	}
}

// TestFailuresNameTheirRequest: the page of a failure has the id by which the log of the server tells more. A refusal
// has none, because its page says all.
func TestFailuresNameTheirRequest(t *testing.T) {
	t.Parallel()
	for status, named := range map[int]bool{http.StatusServiceUnavailable: true, http.StatusUnprocessableEntity: false} {
		h, err := New(Config{
			Gate: broken{}, Audit: &rows{}, Named: func(string) bool { return true }, Now: time.Now, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		v := &view{Handler: h, w: w, r: httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/ui/tasks", http.NoBody)}
		v.failed(&v1.Problem{Status: status, RequestID: "req-4711"})
		if got := strings.Contains(w.Body.String(), "Request id <code>req-4711</code>"); got != named || w.Code != status {
			t.Errorf("%d: status %d, the page names the request: %t", status, w.Code, got)
		}
	}
}
