package server

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"drover/internal/pki/pkitest"
	"drover/internal/server/store"
	"drover/internal/wire"
)

// TestWhatAProxySaysIsShort: what a proxy tells of itself, and of the hosts that ask through it, is kept as far as a
// proxy of ours tells it.
func TestWhatAProxySaysIsShort(t *testing.T) {
	s := &Server{cfg: Config{Log: slog.New(slog.DiscardHandler)}, joining: &joining{fabric: pkitest.New(t)}}
	l := &proxyLink{proxies: newProxies(s)}
	long := strings.Repeat("x", 1<<20)
	text := func(v any) []byte {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	l.beat(store.Proxy{Key: "K"}, text(wire.Beat{Version: 1, Build: long, Agents: 3}))
	if got := l.beats["K"]; len(got.Build) > 1<<10 || got.Agents != 3 {
		t.Errorf("a build of %d bytes is kept", len(got.Build))
	}
	var remote string
	l.takeJoins(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { remote = r.RemoteAddr }))
	l.join(t.Context(), store.Proxy{Key: "K"}, text(wire.RelayedJoin{Version: 1, Remote: "fe80::1%" + long}))
	if remote != "[fe80::1]:0" {
		t.Errorf("the request comes from %.100q", remote)
	}
}
