package browser_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"drover/internal/test/harness"
	"drover/test/judge"
)

// chromiumPath is the browser: Debian's package chromium-headless-shell, which draws pages as chromium does and has no
// window of its own to draw (docs/adr/0035).
const chromiumPath = "/usr/bin/chromium-headless-shell"

// chromium starts the browser of all tests, which ends with their pid namespace. No name but *.example resolves, so that
// no request leaves this machine.
var chromium = sync.OnceValues(func() (context.Context, error) {
	dir := filepath.Join(filepath.Dir(binaries.drover), "chromium")
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(chromiumPath), chromedp.UserDataDir(dir), chromedp.WindowSize(1440, 900),
		chromedp.NoSandbox,        // root, which a test is in its pid namespace, has no sandbox
		chromedp.IgnoreCertErrors, // of a fleet's server, which has an authority of its own
		chromedp.Env("HOME="+dir, "LANG=C.UTF-8"),
		chromedp.Flag("host-resolver-rules", "MAP *.example 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.*"))
	allocator, _ := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, _ := chromedp.NewContext(allocator)
	return ctx, chromedp.Do(ctx)
})

// browser is how a person's browser is set up.
type browser struct {
	language string // en or zh-CN; empty is en
	zone     string // of the clock; empty is UTC
	dark     bool
	width    int64 // of the window, in CSS pixels; 0 is 1440
}

// tab is a tab of a person's browser. A browser has cookies and storage of its own. Its methods fail the test.
type tab struct {
	t   testing.TB
	url string // of the server
	set browser
	ctx context.Context //nolint:containedctx // chromedp's handle of a tab is a context

	mu       sync.Mutex
	allowed  []*regexp.Regexp
	offences []string
	asked    []string // what the page and its files are, with their types
	bytes    float64  // of replies, as transferred
}

// open opens a browser of its own.
func open(t testing.TB, url string, set browser) *tab {
	t.Helper()
	ctx, err := chromium()
	if err != nil {
		t.Fatalf("chromium does not start: %v", err)
	}
	return newTab(ctx, t, url, set, chromedp.WithNewBrowserContext())
}

// another opens another tab of the same browser.
func (b *tab) another() *tab {
	b.t.Helper()
	ctx, err := chromium()
	if err != nil {
		b.t.Fatal(err)
	}
	own := chromedp.FromContext(b.ctx).BrowserContextID
	return newTab(ctx, b.t, b.url, b.set, chromedp.WithExistingBrowserContext(own))
}

func newTab(parent context.Context, t testing.TB, address string, set browser, option chromedp.ContextOption) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(parent, option)
	b := &tab{t: t, url: address, set: set, ctx: ctx}
	t.Cleanup(cancel)
	b.must(chromedp.Listen(ctx, b.event))
	t.Cleanup(b.judge)
	b.call(audits.Enable)
	b.setUp()
	return b
}

// setUp has the tab behave as a browser that is set up so.
func (b *tab) setUp() {
	b.t.Helper()
	language, zone, theme, width := b.set.language, b.set.zone, "light", b.set.width
	if language == "" {
		language = "en"
	}
	if zone == "" {
		zone = "UTC"
	}
	if b.set.dark {
		theme = "dark"
	}
	if width == 0 {
		width = 1440
	}
	call(b, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{
		Headers: network.Headers{"Accept-Language": language},
	})
	call(b, emulation.SetLocaleOverride, emulation.SetLocaleOverrideParams{Locale: language})
	call(b, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: zone})
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}},
	})
	b.do(chromedp.EmulateViewport(width, 900))
}

// call sends a command of the browser's protocol.
func call[P, R any](b *tab, command cdp.Command[P, R], params P) R {
	b.t.Helper()
	result, err := chromedp.Call(b.ctx, command, params)
	b.must(err)
	return result
}

func (b *tab) call(command cdp.Command[cdp.Empty, cdp.Empty]) {
	b.t.Helper()
	call(b, command, cdp.Empty{})
}

// run carries out an action within the patience of the tests.
func run[T any](b *tab, action chromedp.Action[T]) (T, error) {
	ctx, cancel := context.WithTimeout(b.ctx, harness.Patience)
	defer cancel()
	return chromedp.Run(ctx, action)
}

// do carries out an action that must succeed.
func (b *tab) do(action chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if _, err := run(b, action); err != nil {
		b.t.Fatalf("%s: %v", b.where(), err)
	}
}

func (b *tab) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// event notes what must not happen in a tab.
func (b *tab) event(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			text := ""
			for _, a := range e.Args {
				text += string(a.Value) + " " + a.Description
			}
			b.offend("the console says: %s: %s", e.Type, text)
		}
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if x := e.ExceptionDetails.Exception; x != nil {
			text += " " + x.Description
		}
		b.offend("an exception: %s", text)
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			b.offend("the log says: %s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL)
		}
	case *audits.EventIssueAdded:
		if e.Issue.Code == audits.InspectorIssueCodeContentSecurityPolicyIssue {
			d := e.Issue.Details.ContentSecurityPolicyIssueDetails
			b.offend("the content policy: %s blocked %q", d.ViolatedDirective, d.BlockedURL)
		}
	case *network.EventRequestWillBeSent:
		if e.Type != network.ResourceTypeFetch && e.Type != network.ResourceTypeEventSource {
			b.asked = append(b.asked, string(e.Type)+" "+e.Request.URL)
		}
		if at := e.Request.URL; !strings.HasPrefix(at, b.url+"/") && strings.HasPrefix(at, "http") {
			b.offend("a request to %s", at)
		}
	case *network.EventResponseReceived:
		if e.Response.Status >= 500 {
			b.offend("%s answers %d", e.Response.URL, e.Response.Status)
		}
	case *network.EventLoadingFinished:
		b.bytes += e.EncodedDataLength
	}
}

func (b *tab) offend(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !slices.ContainsFunc(b.allowed, func(a *regexp.Regexp) bool { return a.MatchString(text) }) &&
		!slices.Contains(b.offences, text) {
		b.offences = append(b.offences, text)
	}
}

// allow has a test go on after what matches a pattern, which it causes itself.
func (b *tab) allow(pattern string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.allowed = append(b.allowed, regexp.MustCompile(pattern))
}

// judge ends a tab: it fails the test if anything happened that must not, and keeps a picture of a test that failed.
func (b *tab) judge() {
	if at, err := run(b, chromedp.Location()); err == nil && strings.HasPrefix(at, b.url) && !b.t.Failed() {
		b.checked()
	}
	b.mu.Lock()
	for _, text := range b.offences {
		b.t.Errorf("%s", text)
	}
	b.mu.Unlock()
	if b.t.Failed() {
		b.t.Logf("%s shows:\n%.6000s\n(picture: %s)", b.where(), b.text("body"), b.picture(b.t.Name()))
	}
}

// picture stores a picture of the whole page below artefacts/, which git ignores, and returns its path.
func (b *tab) picture(name string) string {
	name = strings.Map(func(r rune) rune {
		if strings.ContainsRune("/ :", r) {
			return '-'
		}
		return r
	}, name)
	png, err := run(b, chromedp.FullScreenshot(100))
	path, _ := filepath.Abs(filepath.Join("artefacts", name+".png"))
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	if err == nil {
		err = os.WriteFile(path, png, 0o644)
	}
	if err != nil {
		b.t.Logf("no picture: %v", err)
	}
	return path
}

// where is the path that the tab shows.
func (b *tab) where() string {
	at, _ := run(b, chromedp.Location()) // of a tab that is gone it is empty
	return strings.TrimPrefix(at, b.url)
}

// text is what a person reads in an element; nothing if there is none.
func (b *tab) text(selector string) string {
	text, _ := run(b, chromedp.Evaluate[string](
		fmt.Sprintf("document.querySelector(%q)?.innerText ?? ''", selector))) // a page that is being left has none
	return text
}

// goTo opens a path, waits until the page is there, and checks it.
func (b *tab) goTo(path string) {
	b.t.Helper()
	b.load(path)
	b.checked()
}

// checked checks the accessibility of the page in the long form. In the short form TestPages checks each page once, and
// TestStories each question and dialog: axe-core takes half a second of the processor.
func (b *tab) checked() {
	b.t.Helper()
	if judge.Long() {
		b.accessible()
	}
}

// load opens a path, and waits until the page is there.
func (b *tab) load(path string) {
	b.t.Helper()
	if strings.HasPrefix(path, "/") {
		path = b.url + path
	}
	if _, err := run(b, chromedp.Navigate(path)); err != nil {
		b.t.Fatalf("%s: %v", path, err)
	}
}

// emptyCache forgets what the browser has loaded.
func (b *tab) emptyCache() {
	b.t.Helper()
	b.call(network.ClearBrowserCache)
}

// evaluate returns the value of an expression in the page.
func evaluate[T any](b *tab, expression string) T {
	b.t.Helper()
	value, err := run(b, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// await waits until an expression holds in the page.
func (b *tab) await(what, expression string) {
	b.t.Helper()
	b.awaitWithin(harness.Patience, what, expression)
}

func (b *tab) awaitWithin(patience time.Duration, what, expression string) {
	b.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		asked := time.Now()
		// While the tab goes to another page there is nothing to ask. A page that has come in part has other texts, and
		// the test goes on with what it does not have yet.
		if ok, err := run(b, chromedp.Evaluate[bool](
			"document.readyState !== 'loading' && Boolean("+expression+")")); err == nil && ok {
			return
		}
		select {
		case <-time.After(harness.Pause(time.Since(asked))):
		case <-deadline.C:
			b.t.Fatalf("%s: waited %v in vain for %s", b.where(), harness.Patience, what)
		}
	}
}

// shows waits until the page shows all of some texts.
func (b *tab) shows(texts ...string) {
	b.t.Helper()
	for _, text := range texts {
		b.await(fmt.Sprintf("the text %q", text), fmt.Sprintf("document.body?.innerText.includes(%q)", text))
	}
}

// at waits until the tab shows a path: all of it, or what begins with it.
func (b *tab) at(path string) {
	b.t.Helper()
	b.await("the page "+path, fmt.Sprintf("document.readyState === 'complete' && (location.pathname + location.search).startsWith(%q)",
		path))
}

// click waits for an element, and clicks into its middle as a mouse does. It aims again if the element has moved away
// under the pointer, because a part of the page above it has just come.
func (b *tab) click(selector string) {
	b.t.Helper()
	for aimed := 0; ; {
		b.await("the element "+selector, fmt.Sprintf("document.querySelector(%q)", selector))
		b.point(selector, 0)
		evaluate[bool](b, fmt.Sprintf(`(() => {
			globalThis.missed = true;
			document.addEventListener("click", (e) => { globalThis.missed = e.target.closest(%q) === null; },
				{ capture: true, once: true });
			return true;
		})()`, selector))
		_, err := run(b, chromedp.Click(chromedp.CSS(selector)))
		// The page may have drawn the element anew before the press of the button.
		if err != nil && !strings.Contains(err.Error(), "Could not find node") {
			b.t.Fatalf("click on %s: %v", selector, err)
		}
		if err != nil {
			continue
		}
		missed, err := run(b, chromedp.Evaluate[bool]("globalThis.missed === true"))
		if aimed++; aimed == 3 || !missed || err != nil { // the click may have led to another page
			return
		}
	}
}

// point moves the pointer to the middle of an element, or some pixels right of it.
func (b *tab) point(selector string, right float64) {
	b.t.Helper()
	at := evaluate[[]float64](b, fmt.Sprintf(`(() => {
		const e = document.querySelector(%q);
		e?.scrollIntoView({ block: "nearest", behavior: "instant" });
		const { left, top, width, height } = e?.getBoundingClientRect() ?? { left: 0, top: 0, width: 0, height: 0 };
		return [left + width / 2, top + height / 2];
	})()`, selector))
	b.do(chromedp.MouseEvent(chromedp.MouseMoved, at[0]+right, at[1]))
}

// typeInto puts the cursor into a field, and types.
func (b *tab) typeInto(selector, text string) {
	b.t.Helper()
	b.await("the element "+selector, fmt.Sprintf("document.querySelector(%q)", selector))
	if _, err := run(b, chromedp.SendKeys(chromedp.CSS(selector), text)); err != nil {
		b.t.Fatalf("type into %s: %v", selector, err)
	}
}

// keys presses keys where the focus is.
func (b *tab) keys(keys string, options ...chromedp.KeyOption) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(keys, options...))
}

// signIn signs in by a new link of the user; without a name it is the administrator who runs the command.
func (b *tab) signIn(p *harness.Place, user ...string) {
	b.t.Helper()
	b.signInBy(link(p, user...))
}

func (b *tab) signInBy(link string) {
	b.t.Helper()
	b.load(link)
	b.await("the question who signs in", "document.querySelector('#login [name=code]')?.value")
	b.click("#login button:not([type=button])")
	b.await("the overview", "document.readyState === 'complete' && document.querySelector('nav') && !document.getElementById('login')")
}

// link is a new link that signs in.
func link(p *harness.Place, user ...string) string {
	p.T.Helper()
	a := p.CLI(append([]string{"login"}, user...)...)
	if a.Code != 0 || !strings.Contains(a.Out, "/ui/login#") {
		p.T.Fatalf("drover login: %d %s%s", a.Code, a.Out, a.Errors)
	}
	return strings.TrimSpace(a.Out)
}
