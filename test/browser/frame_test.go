package browser_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"drover/internal/test/harness"
)

// TestFrameSeesFaults: a page with every fault that fails a test is not overlooked.
func TestFrameSeesFaults(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(other.Close)
	faulty := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/page":
			w.Header().Set("Content-Security-Policy", "require-trusted-types-for 'script'; style-src 'self'")
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte(`<!doctype html><html lang="en"><title>t</title><main><h1>h</h1><p style="color:red">x</p>
				<img src="/no-alternative"><script src="/script"></script></main>`))
		case "/script":
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = w.Write([]byte(`console.warn("warned"); fetch("` + other.URL + `/x", {mode: "no-cors"});
				setTimeout(() => { throw new Error("thrown") }); document.body.append(document.createElement("p"));
				setTimeout(() => { document.querySelector("p").innerHTML = "<b>set</b>" });`))
		default:
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(faulty.Close)
	b := open(t, faulty.URL, browser{})
	b.load("/page")
	b.accessible()
	for _, want := range []string{
		"the console says: warning", "an exception", "thrown", "a request to " + other.URL, "answers 500",
		"the content policy: style-src-attr", "the content policy: require-trusted-types-for", "axe-core: critical: image-alt",
	} {
		found := func() bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			return strings.Contains(strings.Join(b.offences, "\n"), want)
		}
		harness.Eventually(t, want, found)
	}
	b.load("about:blank")
	b.mu.Lock()
	defer b.mu.Unlock()
	b.offences = nil
}
