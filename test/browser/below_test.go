package browser_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"drover/internal/test/harness"
	"drover/internal/words"
)

// TestBelowAPath: behind a proxy that serves the console below a path, pages, scripts, the stream of hints and the palette
// stay below the path, whether the proxy removes the path or passes it on.
func TestBelowAPath(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "server.yaml")
	must0(t, os.WriteFile(config, []byte("insecure-http: true\nconsole: {base-path: /drover}\n"), 0o600))
	f := harness.NewFleet(t, binaries.drover, binaries.agent, "--config", config)
	server, err := url.Parse(f.URL)
	must0(t, err)
	for name, removes := range map[string]bool{"removed": true, "passed on": false} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			asked := map[string]bool{}
			forward := httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
				r.SetURL(server)
				r.Out.Host = r.In.Host
				if removes {
					r.Out.URL.Path = strings.TrimPrefix(r.In.URL.Path, "/drover")
					r.Out.URL.RawPath = ""
				}
			}}
			proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				asked[r.URL.Path] = true
				mu.Unlock()
				if !strings.HasPrefix(r.URL.Path, "/drover/ui/") {
					t.Errorf("the browser asks for %s", r.URL.Path)
					http.NotFound(w, r)
					return
				}
				forward.ServeHTTP(w, r)
			}))
			t.Cleanup(proxy.Close)
			b := open(t, proxy.URL, browser{language: words.English.Tag()})
			link := strings.TrimSpace(f.CLI("login"))
			if !strings.HasPrefix(link, f.URL+"/drover/ui/login#") {
				t.Fatalf("the link is %s", link)
			}
			b.signInBy(strings.Replace(link, f.URL, proxy.URL, 1))
			b.at("/drover/ui/")
			await := func(path string) {
				t.Helper()
				harness.Eventually(t, "the browser to ask for "+path, func() bool {
					mu.Lock()
					defer mu.Unlock()
					return asked[path]
				})
			}
			await("/drover/ui/login/who")
			await("/drover/ui/live")
			b.keys("g")
			b.keys("h")
			b.at("/drover/ui/hosts")
			b.keys(":")
			b.await("the palette", "document.querySelector('dialog[open] input')")
			b.typeInto("dialog[open] input", "none")
			await("/drover/ui/jump")
			b.load("/drover/ui/events?follow=1")
			await("/drover/ui/events/lines")
		})
	}
}
