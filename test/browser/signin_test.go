package browser_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"

	"drover/internal/server/access"
	"drover/internal/server/store/sqlite"
	"drover/internal/test/harness"
	"drover/internal/words"
	"drover/test/identity"
	"drover/test/judge"
)

// file is a process file with two processes that run, and one that fails at once.
const file = `
namespace: shop
defaults: {hosts: ["0:127.0.0.1"], user: root, directory: DIR, ready: {alive: 0s}}
processes:
  api: {run: sleep 1000}
  web: {run: sleep 1000}
  bad: {run: "echo 'cannot reach the database'; sleep 0.3; exit 3", restart: {give_up_after: 1, delay: 1s}}
`

// place is a drover with the processes of file, of which shop/bad is given up.
func place(t *testing.T, flags ...string) *harness.Place {
	t.Helper()
	p := harness.NewPlace(t, binaries.drover, flags...)
	p.ApplyFailing(file)
	harness.Eventually(t, "shop/bad to be given up", func() bool { return p.State("bad") == "given-up" })
	return p
}

// must runs a command of drover, which must succeed, and returns what it prints.
func must(p *harness.Place, args ...string) string {
	p.T.Helper()
	a := p.CLI(args...)
	if a.Code != 0 {
		p.T.Fatalf("drover %q: exit code %d\n%s%s", args, a.Code, a.Out, a.Errors)
	}
	return a.Out
}

// languages runs a test in each language.
func languages(t *testing.T, test func(t *testing.T, l words.Lang)) {
	t.Helper()
	all := []words.Lang{words.English, words.Chinese}
	if !judge.Long() {
		all = all[:1] // TestPages has every page in both
	}
	for _, l := range all {
		t.Run(l.Tag(), func(t *testing.T) {
			t.Parallel()
			test(t, l)
		})
	}
}

var linkInBanner = regexp.MustCompile(`http://\S+/ui/login#\S+`)

// TestSignIn: the link that drover dev prints opens the overview with one click. A preview of the link does not use it
// up. A second click on it signs nobody in. The cookie is only the console's.
func TestSignIn(t *testing.T) {
	t.Parallel()
	languages(t, func(t *testing.T, l words.Lang) {
		t.Helper()
		p := place(t)
		link := linkInBanner.FindString(p.S.Output())
		if link == "" {
			t.Fatalf("drover dev prints no link:\n%s", p.S.Output())
		}
		preview, err := http.Get(link) //nolint:noctx,gosec // as the preview of a chat does
		if err != nil {
			t.Fatal(err)
		}
		_ = preview.Body.Close()
		b := open(t, p.S.URL, browser{language: l.Tag()})
		b.signInBy(link)
		b.shows(words.Page.Overview.In(l), "shop/bad")
		if strings.Contains(b.where(), "#") || b.where() != "/ui/" {
			t.Errorf("after the sign-in the address is %s", b.where())
		}
		if got := evaluate[string](b, "document.documentElement.lang"); got != l.Tag() {
			t.Errorf("the language is %s, want %s", got, l.Tag())
		}
		_, port, _ := strings.Cut(strings.TrimPrefix(p.S.URL, "http://"), ":")
		wantCookie(t, b, network.Cookie{Name: "drover-" + port, HTTPOnly: true})
		b.allow("401")
		if status := evaluate[int](b, "fetch('/api/v1/processes').then((r) => r.status)"); status != 401 {
			t.Errorf("the API answers a cookie with %d", status)
		}

		late := open(t, p.S.URL, browser{language: l.Tag()})
		late.allow("410")
		late.load(link)
		late.shows(words.Page.LinkUsed.In(l))
		late.keep("link-used-" + l.Tag())
		late.goTo("/ui/processes")
		late.shows(words.Page.SignIn.In(l))
		if strings.Contains(late.text("body"), "shop") {
			t.Error("a page without a session shows data")
		}
	})
}

// wantCookie fails unless the browser has one session cookie that is like another one.
func wantCookie(t *testing.T, b *tab, want network.Cookie) {
	t.Helper()
	for _, c := range call(b, network.GetCookies, network.GetCookiesParams{}).Cookies {
		if c.Name != want.Name {
			continue
		}
		if c.HTTPOnly != want.HTTPOnly || c.Secure != want.Secure || c.SameSite != network.CookieSameSiteLax ||
			c.Path != "/" {
			t.Errorf("the cookie is %+v", c)
		}
		if ends := time.Unix(int64(c.Expires), 0); time.Until(ends) > 12*time.Hour {
			t.Errorf("the cookie ends at %v", ends)
		}
		return
	}
	t.Errorf("there is no cookie %s", want.Name)
}

// TestSignInWithAProvider: the button leads to a real identity provider, and from there back to the page that was asked
// for.
func TestSignInWithAProvider(t *testing.T) {
	t.Parallel()
	provider := identity.Start(t)
	provider.Put("anna", "ops")
	f := harness.NewFleet(t, binaries.drover, binaries.agent, "--config",
		provider.Settings(t, `{ops: ["viewer on *"], boss: [admin]}`))
	provider.Serve(f.URL)
	host := strings.TrimPrefix(provider.Server.URL, "http://")
	languages(t, func(t *testing.T, l words.Lang) {
		t.Helper()
		b := open(t, f.URL, browser{language: l.Tag()})
		b.allow(regexp.QuoteMeta("a request to " + provider.Server.URL))
		b.allow(regexp.QuoteMeta("the log says: error: Failed to load resource") + ".*" + regexp.QuoteMeta(host)) // its icon
		signIn := func(name string) {
			t.Helper()
			b.await("the button", "document.getElementById('provider')")
			b.shows(words.Provider.SignIn.In(l, "provider", host))
			b.keep("sign-in-" + l.Tag())
			b.click("#provider")
			b.await("the page of the provider", "document.querySelector('input[name=username]')")
			b.typeInto("input[name=username]", name)
			b.typeInto("input[name=password]", identity.Password)
			b.click("button[type=submit]")
		}
		const asked = "/ui/processes?state=running"
		b.goTo(asked)
		signIn("anna")
		b.await("the page that was asked for", "location.pathname === '/ui/processes'")
		if b.where() != asked {
			t.Errorf("after the sign-in there is %s", b.where())
		}
		wantCookie(t, b, network.Cookie{Name: "__Host-drover", HTTPOnly: true, Secure: true})
		b.goTo("/ui/sessions")
		b.shows("anna")
	})
}

// TestSignInOverTLS: over https the cookie is secure, and only of this host.
func TestSignInOverTLS(t *testing.T) {
	t.Parallel()
	f := harness.NewFleet(t, binaries.drover, binaries.agent)
	b := open(t, f.URL, browser{})
	b.signInBy(strings.TrimSpace(f.CLI("login")))
	b.shows(words.Page.Overview.In(words.English))
	wantCookie(t, b, network.Cookie{Name: "__Host-drover", HTTPOnly: true, Secure: true})
}

// age moves a link or session back in time, as if that time had passed since it was made.
func age(p *harness.Place, token string, by time.Duration) {
	p.T.Helper()
	db, err := sqlite.Open(p.T.Context(), filepath.Join(p.S.DataDir, "server", "drover.db"),
		slog.New(slog.DiscardHandler))
	if err != nil {
		p.T.Fatal(err)
	}
	defer db.Close()
	row, err := db.TakeToken(p.T.Context(), access.HashToken(token), nil)
	if err != nil {
		p.T.Fatal(err)
	}
	row.Created, row.Proved = row.Created.Add(-by), row.Proved.Add(-by)
	row.LastUse, row.Expires = row.LastUse.Add(-by), row.Expires.Add(-by)
	if err := db.CreateToken(p.T.Context(), row); err != nil {
		p.T.Fatal(err)
	}
}

// TestLinkExpires: after 10 minutes a link signs nobody in.
func TestLinkExpires(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t, binaries.drover)
	old, young := link(p), link(p)
	_, code, _ := strings.Cut(old, "#")
	age(p, code, 10*time.Minute+time.Second)
	_, code, _ = strings.Cut(young, "#")
	age(p, code, 9*time.Minute)
	b := open(t, p.S.URL, browser{})
	b.allow("410")
	b.load(old)
	b.shows(words.Page.LinkUsed.In(words.English))
	b.signInBy(young)
}

// session returns the secret of the browser's session: the cookie, and the account of the browser.
func session(b *tab) string {
	b.t.Helper()
	for _, c := range call(b, network.GetCookies, network.GetCookiesParams{}).Cookies {
		if strings.HasPrefix(c.Name, "drover-") && c.Name != "drover-language" {
			return strconv.Itoa(os.Getuid()) + "\x00" + c.Value
		}
	}
	b.t.Fatal("the browser has no session")
	return ""
}

// TestSessionEnds: after an hour without a call, and after twelve hours, a page turns into the sign-in page by itself.
// A sign-in leads back to the same address with its filter.
func TestSessionEnds(t *testing.T) {
	t.Parallel()
	p := place(t)
	for name, by := range map[string]time.Duration{"idle": time.Hour + time.Minute, "age": 12*time.Hour + time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := open(t, p.S.URL, browser{})
			b.signIn(p)
			const filtered = "/ui/processes?namespace=shop&state=running"
			b.goTo(filtered)
			b.shows("shop/api")
			age(p, session(b), by)
			b.await("the sign-in page", "document.getElementById('login')")
			if strings.Contains(b.text("body"), "shop/api") {
				t.Error("the sign-in page shows data")
			}
			_, code, _ := strings.Cut(link(p), "#")
			b.typeInto("#login [name=code]", code)
			b.click("#login button:not([type=button])")
			b.shows("shop/api")
			if b.where() != filtered {
				t.Errorf("after the sign-in there is %s", b.where())
			}
		})
	}
}

// TestSlowAnswer: a page that had to wait for an answer looks less often, but the end of its session ends it all the
// same.
func TestSlowAnswer(t *testing.T) {
	t.Parallel()
	p := place(t)
	b := open(t, p.S.URL, browser{})
	b.signIn(p)
	b.goTo("/ui/processes")
	b.shows("shop/api")
	evaluate[bool](b, `((fast) => {
		window.slow = 0;
		window.fetch = (...call) => new Promise((answer, refuse) => setTimeout(() => {
			fast(...call).then(answer, refuse);
			window.slow++;
		}, 6000));
		return true;
	})(window.fetch)`)
	// The second look may be planned before the first one ends.
	b.awaitWithin(3*time.Minute, "looks that had to wait", "window.slow > 1")
	age(p, session(b), time.Hour+time.Minute)
	b.await("the sign-in page", "document.getElementById('login')")
}

// TestDisabledPersonIsOut: the server ends the stream of a disabled person within 10 s, and then an open page shows
// nothing any more. How fast a browser on a busy machine does so is not measured.
func TestDisabledPersonIsOut(t *testing.T) {
	t.Parallel()
	p := place(t)
	must(p, "user", "create", "anna")
	must(p, "user", "grant", "anna", "viewer on shop")
	b := open(t, p.S.URL, browser{})
	b.signIn(p, "anna")
	b.goTo("/ui/processes")
	b.shows("shop/api")
	must(p, "user", "disable", "anna")
	b.await("the sign-in page", "document.getElementById('login')")
	if strings.Contains(b.text("body"), "shop/api") {
		t.Error("the page of a disabled person shows data")
	}
}

// TestOtherSites: another site's form changes nothing, and no foreign name leads to the console.
func TestOtherSites(t *testing.T) {
	t.Parallel()
	p := place(t, "--http", "127.0.0.1:0") // the other site is another port of the same host
	b := open(t, p.S.URL, browser{})
	b.signIn(p)
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<!doctype html><html lang="en"><title>e</title><main><h1>Evil</h1>
			<form method="post" action="`+p.S.URL+`/ui/operate"><input type="hidden" name="op" value="stop">
			<input type="hidden" name="target" value="shop/api@`+harness.Agent+`"><input type="hidden" name="confirm" value="yes">
			<button>win</button></form></main>`)
	}))
	t.Cleanup(evil.Close)
	b.allow("a request to " + evil.URL)
	b.allow("status of 40[34]") // of the call, and of the icon of the other site
	b.load(evil.URL)
	b.click("button")
	b.at("/ui/operate")
	b.shows("page of another site")
	if state := p.State("api"); state != "running" {
		t.Errorf("the call of another site has been carried out: %s", state)
	}
	_, port, _ := strings.Cut(strings.TrimPrefix(p.S.URL, "http://"), ":")
	b.allow("http://drover.example")
	b.load("http://drover.example:" + port + "/ui/")
	b.shows("not served under this name")
	b.load("about:blank") // the pages of other origins are not the console's to be accessible
}
