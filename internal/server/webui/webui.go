// Package webui is the console below /ui: pages for people in a browser, rendered by the server. It reads and acts
// through the handler of /api/v1 in the same process, as the person who is signed in. So rights, limits and audit rows
// are those of the API. The package owns the sessions' cookies, the pages, and the headers that protect both. Package
// words owns the texts.
package webui

import (
	"cmp"
	"context"
	"crypto/tls"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/server/access"
	"drover/internal/server/api/accounts"
	"drover/internal/server/api/call"
	"drover/internal/server/bus"
	"drover/internal/server/edge"
	"drover/internal/server/gate"
	"drover/internal/server/store"
	"drover/internal/words"
)

// Prefix is the path below which the console is.
const Prefix = "/ui/"

// Owns reports whether a path belongs to the console.
func Owns(path string) bool { return path == "/ui" || strings.HasPrefix(path, Prefix) }

// Gate identifies the person of a token.
type Gate interface {
	Person(ctx context.Context, kind store.TokenKind, token string) (access.Principal, store.Token, error)
}

// Directory finds hosts by their id.
type Directory interface {
	LookupID(id string) (store.Agent, bool)
}

// Below returns a handler of what next serves that serves the same below a path, such as /drover. An empty path returns
// next.
func Below(base string, next http.Handler) http.Handler {
	if base == "" {
		return next
	}
	inside := http.StripPrefix(base, next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, base+"/") {
			inside.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Audit is the audit log. PutDenial counts equal denials.
type Audit interface {
	PutAudit(ctx context.Context, rows ...store.AuditRow) error
	PutDenial(ctx context.Context, proven string, row store.AuditRow) error
}

// Settings are the settings of the console in the configuration of a server; the zero value has the defaults.
type Settings struct {
	// BehindTLS are proxies that speak TLS with browsers. Their X-Forwarded-For names the browser's address.
	BehindTLS []netip.Prefix
	// Hosts are further names of this server, in lower case.
	Hosts []string
	// BasePath is the prefix that a proxy in front of the server adds to every path, such as /drover. The handler
	// itself serves the paths below Prefix; links, forms, redirects, cookies and scripts have BasePath before Prefix.
	BasePath string
	// TypeAbove is the largest number of processes that need no typed number; 0 means 20.
	TypeAbove int
	// ReasonAt are expressions about hosts: an operation on one of these hosts needs a reason.
	ReasonAt []string
	// Grafana is a URL with the placeholders {namespace}, {process} and {host}; empty means none.
	Grafana string
}

// typeAbove is the largest number of processes that need no typed number.
func (s *Settings) typeAbove() int { return cmp.Or(s.TypeAbove, 20) }

// dashboard is the page of a process on a host at Grafana; empty if there is none.
func (s *Settings) dashboard(namespace, process, host string) string {
	return strings.NewReplacer("{namespace}", url.QueryEscape(namespace), "{process}", url.QueryEscape(process),
		"{host}", url.QueryEscape(host)).Replace(s.Grafana)
}

// Config holds the parts of the console. All fields but Provider and Settings are required.
type Config struct {
	Settings
	// API serves /api/v1.
	API     http.Handler
	Gate    Gate
	Tokens  store.Tokens
	Devices store.Devices
	Views   store.SavedViews
	Directory
	Audit Audit
	Bus   *bus.Bus
	Users store.Users
	// Parse waits until there is memory to parse a text in YAML for an app. release frees the memory.
	Parse func(ctx context.Context, app string, text []byte) (release func(), err error)
	// Provider signs people in; nil if there is none.
	Provider *Provider
	// Named reports whether a name or address, without a port, is one of this server. Pages are served under no other
	// name, so that a foreign name that points here cannot reach them.
	Named func(host string) bool
	Now   func() time.Time
	Log   *slog.Logger
}

// Handler serves the console. It starts nothing and is safe for concurrent use.
type Handler struct {
	Config
	pages    map[words.Lang]*template.Template
	files    files
	mux      *http.ServeMux
	failures *gate.Failures
	// codes are the wrong codes of command lines, by the user who typed them.
	codes *gate.Failures
	// streams are the open streams of hints, and stopping ends them.
	streams  streams
	stopping context.Context //nolint:containedctx // it is the lifetime of the handler, not of a call
	stop     context.CancelFunc
	reads    reads
	// renewed are pages that people share.
	renewed sharedPages
}

//go:embed pages/*.html
var pageFiles embed.FS

//go:embed assets
var assetFiles embed.FS

// New returns the handler of all paths below Prefix.
func New(c Config) (*Handler, error) {
	h := &Handler{
		Config: c, mux: http.NewServeMux(), pages: map[words.Lang]*template.Template{}, failures: gate.NewFailures(),
		codes: gate.NewFailures(),
	}
	var err error
	if h.files, err = readFiles(assetFiles, c.BasePath); err != nil {
		return nil, fmt.Errorf("cannot read the files of the console: %w", err)
	}
	asset := template.FuncMap{"asset": h.files.url}
	for _, lang := range []words.Lang{words.English, words.Chinese} {
		t, err := template.New("").Funcs(functions(lang, c.Now)).Funcs(spoken(lang)).Funcs(asset).ParseFS(pageFiles, "pages/*.html")
		if err != nil {
			return nil, fmt.Errorf("cannot parse the pages of the console: %w", err)
		}
		h.pages[lang] = t
	}
	h.stopping, h.stop = context.WithCancel(context.Background())
	h.mux.HandleFunc("GET /ui/live", h.live)
	h.mux.Handle("GET /ui/assets/{version}/{name}", h.files)
	h.mux.HandleFunc("GET /ui/login", h.loginPage)
	h.mux.HandleFunc("POST /ui/login", h.login)
	h.mux.HandleFunc("POST /ui/login/who", h.loginWho)
	h.mux.HandleFunc("POST /ui/language", h.language)
	if c.Provider != nil {
		h.mux.HandleFunc("GET "+providerPath, h.toProvider)
		h.mux.HandleFunc("GET "+providerPath+"/callback", h.fromProvider)
	}
	ofLog := []string{"run", "stream", "find", "follow"}
	ofInstance := append([]string{"last", "span", "check"}, ofLog...)
	ofProcess := append([]string{"cursor", "tab", "revision", "hosts"}, ofLog...)
	for pattern, page := range map[string]page{
		"GET /ui/{$}":                                            withFilter(shared((*view).overview)),
		"GET /ui/processes":                                      withFilter((*view).processes),
		"GET /ui/processes.csv":                                  only((*view).processesCSV, slices.Concat(filterNames())...),
		"POST /ui/processes/paste":                               (*view).paste,
		"GET /ui/processes/{namespace}/{name}":                   only((*view).process, ofProcess...),
		"GET /ui/processes/{namespace}/{name}/log":               only((*view).followLog, "hosts", "stream", "find"),
		"GET /ui/processes/{namespace}/{name}/at/{host}":         only((*view).instance, ofInstance...),
		"GET /ui/processes/{namespace}/{name}/at/{host}/log":     only((*view).followLog, "stream", "find"),
		"GET /ui/processes/{namespace}/{name}/at/{host}/log.txt": only((*view).logFile, "run", "stream", "find"),
		"GET /ui/hosts":                                          withFilter((*view).hosts),
		"GET /ui/tasks":                                          withFilter((*view).tasks),
		"GET /ui/tasks/{id}":                                     only((*view).task, "outcome", "cursor", "left_out"),
		"GET /ui/tasks/{id}/results.csv":                         only((*view).resultsFile, "outcome"),
		"GET /ui/tasks/{id}/hosts.txt":                           only((*view).hostsOfTask, "outcome"),
		"GET /ui/rollouts":                                       withFilter((*view).rollouts),
		"GET /ui/rollouts/{id}":                                  only((*view).rollout, "left_out"),
		"GET /ui/events":                                         withFilter((*view).events),
		"GET /ui/events/lines":                                   only((*view).followEvents, "namespace", "name", "hosts", "selector", "kind"),
		"GET /ui/why/{id}":                                       only((*view).cause),
		"POST /ui/views":                                         (*view).saveView,
		"POST /ui/views/{id}/remove":                             (*view).removeView,
		"GET /ui/silences":                                       only((*view).silences, "process", "ended"),
		"POST /ui/silences":                                      (*view).silences,
		"POST /ui/operate":                                       (*view).operate,
		"POST /ui/tasks/{id}/cancel":                             (*view).cancelTask,
		"POST /ui/rollouts/{id}/{action}":                        (*view).changeRollout,
		"GET " + accounts.DevicePath:                             recently((*view).devicePage),
		"POST " + accounts.DevicePath:                            recently((*view).deviceShown),
		"POST " + accounts.DevicePath + "/answer":                recently((*view).deviceAnswer),
		"GET /ui/apply":                                          only((*view).pageOfApply, "ns"),
		"POST /ui/apply":                                         (*view).apply,
		"GET /ui/audit":                                          (*view).audit,
		"GET /ui/audit.csv":                                      only((*view).auditFile, auditParameters()...),
		"GET /ui/admin":                                          (*view).firstOfAdmin,
		"GET /ui/admin/{part}":                                   recently((*view).admin),
		"POST /ui/admin/{part}":                                  recently((*view).admin),
		"GET /ui/hosts/{host}":                                   only((*view).host, "cursor"),
		"POST /ui/hosts/{host}/labels":                           recently((*view).labelHost),
		"POST /ui/hosts/{host}/remove":                           recently((*view).removeHost),
		"GET /ui/jump":                                           only((*view).jump, "q"),
		"GET /ui/sessions":                                       only((*view).sessions),
		"POST /ui/sessions/end":                                  (*view).endSessions,
		"POST /ui/logout":                                        (*view).logout,
		"/ui/":                                                   (*view).nothing,
	} {
		h.mux.HandleFunc(pattern, h.signedIn(page))
	}
	h.mux.Handle("GET /ui", http.RedirectHandler(Prefix, http.StatusMovedPermanently))
	return h, nil
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	here := fromLoopback(r.RemoteAddr)
	r = h.fromBrowser(r)
	protect(w.Header(), r.TLS != nil)
	edge.Limit(w, r, 0)
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if h.BasePath != "" {
		w = redirects{w, h.BasePath}
	}
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	switch {
	case !h.servesName(strings.Trim(host, "[]")):
		http.Error(w, "The console is not served under this name.", http.StatusForbidden)
	case r.TLS == nil && !here:
		http.Error(w, "The console needs https.", http.StatusForbidden)
	default:
		http.NewCrossOriginProtection().Handler(h.mux).ServeHTTP(w, r)
	}
}

// redirects is a reply whose redirects to the console lead below a path.
type redirects struct {
	http.ResponseWriter
	base string
}

// Unwrap is for http.ResponseController.
func (w redirects) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w redirects) WriteHeader(status int) {
	if to := w.Header().Get("Location"); strings.HasPrefix(to, Prefix) {
		w.Header().Set("Location", w.base+to)
	}
	w.ResponseWriter.WriteHeader(status)
}

// maxForm is the size of the largest form, in bytes: maxTargets processes with long names.
const maxForm = 2 << 20

// renews is the header of a page that asks for itself again.
const renews = "X-Drover-Renews"

// servesName reports whether the console is served under a name.
func (h *Handler) servesName(host string) bool {
	return h.Named(host) || slices.Contains(h.Hosts, strings.ToLower(host))
}

// fromBrowser returns the request of a browser behind one of the proxies in front of the server: over TLS, and from the
// address that the proxy has added last. It returns every other request unchanged.
func (h *Handler) fromBrowser(r *http.Request) *http.Request {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	isPeer := func(p netip.Prefix) bool { return p.Contains(peer.Addr().Unmap()) }
	if err != nil || !slices.ContainsFunc(h.BehindTLS, isPeer) {
		return r
	}
	r = r.WithContext(r.Context())
	if r.TLS == nil && r.Header.Get("X-Forwarded-Proto") != "http" {
		r.TLS = &tls.ConnectionState{}
	}
	hops := r.Header.Values("X-Forwarded-For")
	if len(hops) == 0 {
		return r
	}
	last := hops[len(hops)-1]
	if browser, err := netip.ParseAddr(strings.TrimSpace(last[strings.LastIndexByte(last, ',')+1:])); err == nil {
		r.RemoteAddr = netip.AddrPortFrom(browser.Unmap(), 0).String()
	}
	return r
}

// fromLoopback reports whether a caller is on this machine.
func fromLoopback(address string) bool {
	host, _, _ := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// policy lets a page load from its own server only, and lets no markup in a page's data run.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"worker-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types drover"

func protect(header http.Header, secure bool) {
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
	if secure {
		header.Set("Strict-Transport-Security", "max-age=31536000")
	}
}

// page answers one call of a person.
type page func(v *view, ctx context.Context) error

// view is one call of a person who is signed in.
type view struct {
	*Handler
	w   http.ResponseWriter
	r   *http.Request
	who access.Principal
	// session is the session of the person.
	session store.Token
	lang    words.Lang
	client  *client.Client
	// calls are the reads of client for the page.
	calls *calls
	// refused is the form that the page shows again; nil on other pages.
	refused *refused
	// forMany leaves the frame of the page without the person, because others get the page, too.
	forMany bool
}

// signedIn returns the handler of a page for people who are signed in. Others get the page that signs them in.
func (h *Handler) signedIn(p page) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		who, session, err := h.person(ctx, r)
		if _, refused := errors.AsType[*gate.Refusal](err); refused {
			h.loginPage(w, r)
			return
		}
		v := &view{Handler: h, w: w, r: r, who: who, session: session, lang: language(r), calls: &calls{}}
		v.refused, _ = ctx.Value(ofRefused{}).(*refused)
		if err == nil {
			v.client, err = client.New(client.Config{
				URL: "http://console", Transport: inProcess{h, who, r, v.calls}, AppCode: "-", AppSecret: "-",
			})
		}
		if err == nil {
			err = p(v, ctx)
		}
		if err != nil && !v.askAgain(ctx, err) {
			v.failed(err)
		}
	}
}

// failed answers a call that could not be answered otherwise.
func (v *view) failed(err error) {
	status, text, detail, request := http.StatusInternalServerError, words.Page.Failed, "", ""
	if known, ok := errors.AsType[*v1.Problem](err); ok { // other errors are for the log only
		status, detail = known.Status, v.refusal(known)
		if status >= http.StatusInternalServerError { // the server's log has it, too
			request = known.RequestID
		}
	}
	switch status {
	case http.StatusNotFound:
		text = v.notFoundText()
	case http.StatusForbidden:
		text = words.Page.Forbidden
	default:
		if status < http.StatusInternalServerError {
			text = words.Page.Rejected
		}
	}
	if status >= http.StatusInternalServerError && v.r.Context().Err() == nil {
		v.Log.Error("page failed", "path", v.r.URL.Path, "request", request, "error", err)
	}
	v.render(status, "error", map[string]any{
		"Text": text, "Error": detail, "Request": request,
		"Denied": !v.who.Admin && (status == http.StatusNotFound || status == http.StatusForbidden),
	})
}

// nothing answers a path that is no page.
func (v *view) nothing(context.Context) error {
	v.render(http.StatusNotFound, "error", map[string]any{
		"Text": v.notFoundText(), "Error": "", "Denied": !v.who.Admin,
	})
	return nil
}

// notFoundText tells that there is no such page. Somebody with all rights lacks none.
func (v *view) notFoundText() words.Text {
	if v.who.Admin {
		return words.Page.Absent
	}
	return words.Page.NotFound
}

// inProcess carries the calls of a page to the handler of the API, as calls of a person.
type inProcess struct {
	h    *Handler
	who  access.Principal
	page *http.Request
	made *calls
}

// RoundTrip implements http.RoundTripper.
func (t inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	reply := newReply(r)
	ctx := call.WithConsole(call.WithOperator(r.Context(), t.who), t.page.PostForm.Get("reason"))
	read := ""
	if session := sessionOf(t.page); session != "" && r.Method == http.MethodGet {
		read = session + " " + r.URL.RequestURI()
	}
	if read != "" && t.page.Header.Get(renews) != "" && t.h.reads.again(read, t.h.Now()) {
		ctx = call.WithRenewal(ctx)
	}
	call := r.WithContext(ctx)
	call.RemoteAddr, call.RequestURI = t.page.RemoteAddr, r.URL.RequestURI()
	if call.Body == nil {
		call.Body = http.NoBody
	}
	t.h.API.ServeHTTP(reply, call)
	answer := reply.response()
	if read != "" && answer.StatusCode < http.StatusBadRequest {
		t.h.reads.remember(read, t.h.Now())
		t.made.add(r.URL.RequestURI())
	}
	return answer, nil
}

// sessionOf names the session of a page; empty without one.
func sessionOf(r *http.Request) string {
	secret := sessionSecret(r)
	if secret == "" {
		return ""
	}
	return access.HashToken(secret)
}
