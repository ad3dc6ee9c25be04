package webui_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"drover/internal/server/access"
	"drover/internal/server/admission"
	"drover/internal/server/api"
	"drover/internal/server/api/accounts"
	"drover/internal/server/api/hosts"
	"drover/internal/server/api/install"
	"drover/internal/server/audit"
	"drover/internal/server/bus"
	"drover/internal/server/edge"
	"drover/internal/server/fleet"
	"drover/internal/server/gate"
	"drover/internal/server/rollup"
	"drover/internal/server/store"
	"drover/internal/server/store/sqlite"
	"drover/internal/server/webui"
	"drover/internal/wire"
)

// rig is a console over a real database, a real gate and the real API, with a clock of the test.
type rig struct {
	console *webui.Handler
	*testing.T
	store store.Store
	fleet *fleet.Directory
	now   time.Time
	// reports counts those of all agents, and tokens the tokens that were read to identify people.
	reports int64
	seq     uint64 // of the last event
	tokens  atomic.Int64
	url     string
	http    *http.Client
}

func newRig(t *testing.T) *rig {
	t.Helper()
	return newRigWith(t, webui.Settings{})
}

func newRigWith(t *testing.T, settings webui.Settings) *rig {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "drover.db"), log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	r := &rig{T: t, store: s, now: time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)}
	r.fleet = fleet.New(s, r.now)
	clock := func() time.Time { return r.now }
	g := gate.New(gate.Config{Store: reading{s, r}, Now: clock})
	records := audit.New(s, log)
	changes := bus.New(r.now)
	api := api.New(api.Config{
		Bus:     changes,
		Config:  edge.Config{Gate: g, Audit: records, Tasks: s, Rooms: admission.New(), Log: log, Now: clock},
		Records: accounts.Records{Apps: s, Users: s, Tokens: s}, History: s, Fullness: s,
		Directory: r.fleet, Labels: r.fleet, Listing: s, CallerSelections: s, Events: s, Rollouts: s, Revisions: s, Logs: quiet{},
		FileSelections: s, Upkeep: s, Timeline: s, Joining: install.Joining{Store: s, Enroller: oneToken{}, Proxies: oneProxy{}},
		Picture: rollup.New(rollup.Config{Store: s, Directory: r.fleet, Now: clock}),
	})
	console, err := webui.New(webui.Config{
		API: api, Gate: g, Tokens: reading{s, r}, Views: s, Directory: r.fleet, Audit: records, Named: func(string) bool { return true }, Now: clock, Log: log,
		Bus: changes, Settings: settings, Parse: admission.New().ParseYAML,
	})
	if err != nil {
		t.Fatal(err)
	}
	r.console = console
	server := httptest.NewServer(webui.Below(settings.BasePath, console))
	t.Cleanup(server.Close)
	r.url = server.URL
	r.http = r.browser()
	if err := s.CreateUser(t.Context(), store.User{Name: "anna", Admin: true, Created: r.now}); err != nil {
		t.Fatal(err)
	}
	return r
}

// oneToken makes the same token each time.
type oneToken struct{ install.Enroller }

func (oneToken) NewToken(_ context.Context, t store.JoinToken, _ time.Duration) (store.JoinToken, string, error) {
	return t, "token-1", nil
}

// oneProxy is a register with a proxy of area 3.
type oneProxy struct{}

func (oneProxy) List() []hosts.Proxy {
	return []hosts.Proxy{{Proxy: store.Proxy{Name: "dmz-1", Area: 3}, Agents: 1}}
}

// quiet are hosts whose processes are as their specs say. They have written one line each, and measured nothing.
type quiet struct{}

func (quiet) Ask(context.Context, string, wire.LogQuestion) (wire.LogAnswer, error) {
	return wire.LogAnswer{Blocks: []wire.LogBlock{{Stream: "stdout", Run: 1, Text: []byte("ready")}}}, nil
}

func (quiet) Live(context.Context, string, wire.LiveQuestion) (wire.LiveAnswer, error) {
	return wire.LiveAnswer{}, nil
}

func (quiet) Usage(context.Context, string, wire.UsageQuestion) (wire.UsageAnswer, error) {
	return wire.UsageAnswer{}, nil
}

// reading counts the reads of tokens.
type reading struct {
	store.Store
	r *rig
}

func (s reading) FindToken(ctx context.Context, hash string) (store.Token, store.User, error) {
	s.r.tokens.Add(1)
	return s.Store.FindToken(ctx, hash)
}

func (r *rig) browser() *http.Client {
	r.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		r.Fatal(err)
	}
	return &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
}

// link makes a link for anna.
func (r *rig) link() string {
	r.Helper()
	return r.linkFor("anna")
}

// linkFor makes a link for a user.
func (r *rig) linkFor(name string) string {
	r.Helper()
	token, hash := access.NewToken()
	err := r.store.CreateToken(r.Context(), store.Token{
		ID: hash[:8], Kind: store.Link, User: name, Hash: hash, Created: r.now, Expires: r.now.Add(10 * time.Minute),
	})
	if err != nil {
		r.Fatal(err)
	}
	return token
}

// call makes a call, and returns its status, where it leads to, and its text.
func (r *rig) call(method, path string, form url.Values) (status int, at, text string) {
	r.Helper()
	req, err := http.NewRequestWithContext(r.Context(), method, r.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		r.Fatal(err)
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	resp, err := r.http.Do(req)
	if err != nil {
		r.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		r.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("Location"), string(data)
}

func (r *rig) get(path string) (status int, at, text string) {
	r.Helper()
	return r.call(http.MethodGet, path, nil)
}

// signIn signs in without the page to return to, as a link does that opens in another tab.
func (r *rig) signIn() (at string) {
	r.Helper()
	_, at, _ = r.call(http.MethodPost, "/ui/login", url.Values{"code": {r.link()}})
	return at
}

func (r *rig) sessions() (ids []string) {
	r.Helper()
	all, err := r.store.ListTokens(r.Context(), "anna")
	if err != nil {
		r.Fatal(err)
	}
	for _, t := range all {
		if t.Kind == store.Session {
			ids = append(ids, t.ID)
		}
	}
	return ids
}

// TestOldSignIn: administration needs a recent sign-in. Another sign-in leads back to the page, and replaces the
// session.
func TestOldSignIn(t *testing.T) {
	r := newRig(t)
	r.signIn()
	const page = "/ui/admin/people?name=anna"
	if status, _, text := r.get(page); status != 200 || !strings.Contains(text, "everything") {
		t.Fatalf("%d %s", status, text)
	}
	r.now = r.now.Add(15*time.Minute + time.Second)
	before := r.sessions()
	status, _, text := r.get(page)
	if status != 403 || !strings.Contains(text, "at most 15 minutes old") || !strings.Contains(text, "name=anna") {
		t.Errorf("an old sign-in gets %d %s", status, text)
	}
	form := url.Values{"do": {"disable"}, "name": {"anna"}, "back": {page}}
	if status, _, _ := r.call(http.MethodPost, "/ui/admin/people", form); status != 403 {
		t.Errorf("a change after an old sign-in gets %d", status)
	}
	if u, err := r.store.GetUser(t.Context(), "anna"); err != nil || u.Disabled {
		t.Errorf("it was done: %v %v", u, err)
	}
	if status, _, _ := r.get("/ui/sessions"); status != 200 {
		t.Errorf("a page for everybody gets %d", status)
	}
	for _, at := range []string{"/ui/device", "/ui/device/answer"} { // a command line has the person's rights for hours
		form := url.Values{"code": {"BBBBBBBB"}, "answer": {"confirm"}, "back": {"/ui/device"}}
		if status, _, text := r.call(http.MethodPost, at, form); status != 403 || !strings.Contains(text, `value="/ui/device"`) {
			t.Errorf("letters after an old sign-in get %d %s", status, text)
		}
	}
	r.get(page)
	if at := r.signIn(); at != page {
		t.Errorf("after the sign-in there is %s, want %s", at, page)
	}
	if after := r.sessions(); len(after) != 1 || after[0] == before[0] {
		t.Errorf("the sessions are %q, were %q", after, before)
	}
	if status, _, _ := r.get(page); status != 200 {
		t.Errorf("a new sign-in gets %d", status)
	}
}

// TestDisablingIsConfirmed: a person or an app is disabled after its name was typed, and enabled without.
func TestDisablingIsConfirmed(t *testing.T) {
	r := newRig(t)
	r.signIn()
	r.must(r.store.CreateUser(t.Context(), store.User{Name: "li", Created: r.now}))
	r.must(r.store.CreateApp(t.Context(), store.App{Code: "bk_job", Created: r.now}))
	disabled := func() (all [2]bool) {
		u, err := r.store.GetUser(t.Context(), "li")
		r.must(err)
		app, err := r.store.GetApp(t.Context(), "bk_job")
		r.must(err)
		return [2]bool{u.Disabled, app.Disabled}
	}
	for _, step := range []struct {
		do, typed string
		status    int
		want      bool
	}{
		{"disable", "", 422, false}, {"disable", "lI", 422, false}, {"disable", "*", 303, true}, {"enable", "", 303, false},
	} {
		for page, field := range map[string][2]string{"/ui/admin/people": {"name", "li"}, "/ui/admin/apps": {"code", "bk_job"}} {
			form := url.Values{
				"do": {step.do}, field[0]: {field[1]}, "typed": {strings.Replace(step.typed, "*", field[1], 1)},
				"back": {page + "?" + field[0] + "=" + field[1]},
			}
			if status, _, text := r.call(http.MethodPost, page, form); status != step.status {
				t.Errorf("%s of %s after typing %q: %d %s", step.do, field[1], step.typed, status, text)
			}
		}
		if got := disabled(); got != [2]bool{step.want, step.want} {
			t.Errorf("after %s with %q they are disabled: %v", step.do, step.typed, got)
		}
	}
}

// TestRightsWithBounds: the form of a right takes hours and a number of targets, and says which one is wrong.
func TestRightsWithBounds(t *testing.T) {
	r := newRig(t)
	r.signIn()
	const page = "/ui/admin/people?name=anna"
	form := func(do, right, hours, targets string) url.Values {
		return url.Values{
			"do": {do}, "name": {"anna"}, "back": {page}, "right": {right}, "hours": {hours}, "targets": {targets},
		}
	}
	for _, wrong := range []url.Values{
		form("grant", "operator on shop*", "-1", ""), form("grant", "operator on shop*", "0", ""),
		form("grant", "operator on shop*", "", "0"), form("grant", "operator on shop*", "", "many"),
	} {
		if status, _, text := r.call(http.MethodPost, "/ui/admin/people", wrong); status != 400 {
			t.Errorf("%v gets %d %s", wrong, status, text)
		}
	}
	_, _, all := r.call(http.MethodPost, "/ui/admin/people", form("grant", "fly on shop*", "-1", "many"))
	for _, name := range []string{"right: ", "hours: ", "targets: "} {
		if !strings.Contains(all, name) {
			t.Errorf("%q is not among the faults of a form: %s", name, all)
		}
	}
	if status, at, text := r.call(http.MethodPost, "/ui/admin/people", form("grant", "operator on shop*", "8", "200")); status != 303 ||
		at != page {
		t.Fatalf("%d %s %s", status, at, text)
	}
	u, err := r.store.GetUser(t.Context(), "anna")
	if err != nil || len(u.Grants) != 1 || u.Grants[0].MaxTargets != 200 ||
		!u.Grants[0].Until.Equal(r.now.Add(8*time.Hour).Truncate(time.Second)) {
		t.Fatalf("the rights are %v, %v", u.Grants, err)
	}
	right := u.Grants[0].String()
	if _, _, text := r.get(page); !strings.Contains(text, right) {
		t.Errorf("the page lacks %q: %s", right, text)
	}
	if status, _, text := r.call(http.MethodPost, "/ui/admin/people", form("revoke", right, "", "")); status != 303 {
		t.Errorf("%d %s", status, text)
	}
	if u, err := r.store.GetUser(t.Context(), "anna"); err != nil || len(u.Grants) != 0 {
		t.Errorf("the rights are %v, %v", u.Grants, err)
	}
}

// TestOneReadOfASession: a page reads the session of its person once.
func TestOneReadOfASession(t *testing.T) {
	r := newRig(t)
	r.signIn()
	before := r.tokens.Load()
	r.get("/ui/events")
	if n := r.tokens.Load() - before; n != 1 {
		t.Errorf("a page reads %d tokens", n)
	}
}

// TestSessionsEnd: a session ends after an hour without a call and after twelve hours, and the sign-in leads back to
// the same page with its filters.
func TestSessionsEnd(t *testing.T) {
	r := newRig(t)
	const page = "/ui/audit?user=anna&since=24h"
	r.signIn()
	shown := func() bool {
		t.Helper()
		status, _, text := r.get(page)
		if status != 200 {
			t.Fatalf("%d %s", status, text)
		}
		return !strings.Contains(text, `id="login"`)
	}
	for range 12 { // until 11 h 48 min
		r.now = r.now.Add(59 * time.Minute)
		if !shown() {
			t.Fatalf("the session has ended at %s", r.now)
		}
	}
	if r.now = r.now.Add(13 * time.Minute); shown() {
		t.Errorf("the session lasts until %s", r.now)
	}
	if at := r.signIn(); at != page {
		t.Errorf("after the sign-in there is %s, want %s", at, page)
	}
	r.now = r.now.Add(time.Hour + time.Second)
	if shown() {
		t.Error("the session lasts an hour without a call")
	}
}

// TestSessionsOfAPerson: sessions show the device, and a person ends one, or all others.
func TestSessionsOfAPerson(t *testing.T) {
	r := newRig(t)
	own := r.http
	for range 3 {
		r.http = r.browser()
		r.signIn()
		r.now = r.now.Add(time.Second)
	}
	r.http = own
	r.signIn()
	all := r.sessions()
	_, _, text := r.get("/ui/sessions")
	if !strings.Contains(text, "this browser") || strings.Count(text, `name="id"`) != 3 {
		t.Errorf("the page is %s", text)
	}
	if strings.Contains(text, `value="`+all[3]+`"`) {
		t.Error("the own session can be ended by its id")
	}
	r.call(http.MethodPost, "/ui/sessions/end", url.Values{"id": {all[1]}})
	if got := r.sessions(); slices.Contains(got, all[1]) || len(got) != 3 {
		t.Errorf("the sessions are %q, were %q", got, all)
	}
	r.call(http.MethodPost, "/ui/sessions/end", url.Values{"id": {"none"}})
	if got := r.sessions(); len(got) != 3 {
		t.Errorf("an unknown id leaves %q", got)
	}
	r.call(http.MethodPost, "/ui/sessions/end", url.Values{})
	if got := r.sessions(); !slices.Equal(got, all[3:]) {
		t.Errorf("the sessions are %q, want %q", got, all[3:])
	}
}

// TestFailedSignIns: 20 may fail at once, then one in 3 s, and a right link waits, too.
func TestFailedSignIns(t *testing.T) {
	r := newRig(t)
	try := func(code string) int {
		t.Helper()
		status, _, _ := r.call(http.MethodPost, "/ui/login", url.Values{"code": {code}})
		return status
	}
	for i := range 20 {
		if status := try("wrong"); status != 200 {
			t.Fatalf("attempt %d: %d", i+1, status)
		}
	}
	if status := try(r.link()); status != 429 {
		t.Errorf("after 20 failures there is %d", status)
	}
	if status, _, _ := r.call(http.MethodPost, "/ui/login/who", url.Values{"code": {"wrong"}}); status != 429 {
		t.Errorf("who is there: %d", status)
	}
	r.now = r.now.Add(3*time.Second + time.Millisecond)
	if status := try("wrong"); status != 200 {
		t.Errorf("after 3 s there is %d", status)
	}
	if status := try("wrong"); status != 429 {
		t.Errorf("right after that there is %d", status)
	}
	r.now = r.now.Add(4 * time.Second)
	if at := r.signIn(); at != "/ui/" {
		t.Errorf("a right link leads to %s", at)
	}
	rows, err := r.store.ListAudit(context.WithoutCancel(t.Context()), store.AuditFilter{Action: "console.sign-in", Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	codes := map[int]int{}
	for _, row := range rows {
		codes[row.Code]++
	}
	if codes[429] == 0 || codes[403] == 0 || codes[0] != 1 {
		t.Errorf("the audit has %v", codes)
	}
}
