package admission_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"drover/internal/agent/admission"
	"drover/internal/joining"
	"drover/internal/pki"
	"drover/internal/pki/pkitest"
	"drover/internal/test/harness"
	"drover/internal/wire"
)

// rig is a server that lets everybody in, or answers as it is told.
type rig struct {
	manager *pki.Manager
	server  *httptest.Server
	// answer replaces the answer.
	answer func(w http.ResponseWriter, r wire.JoinRequest)
	asked  []wire.JoinRequest
}

func newRig(t *testing.T) *rig {
	t.Helper()
	k := pkitest.New(t)
	r := &rig{manager: k}
	r.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		data, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		request, err := wire.OpenJoin(data)
		if err != nil || req.URL.Path != wire.JoinPath {
			t.Errorf("%s: %v", req.URL.Path, err)
		}
		r.asked = append(r.asked, request)
		if r.answer != nil {
			r.answer(w, request)
			return
		}
		send(t, w, r.enrolment(request))
	}))
	r.server.TLS = k.ServerTLS()
	r.server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	// StartTLS would put a certificate of its own in.
	r.server.Listener = tls.NewListener(r.server.Listener, k.ServerTLS())
	r.server.Start()
	t.Cleanup(r.server.Close)
	return r
}

func send(t *testing.T, w http.ResponseWriter, v any) {
	t.Helper()
	if err := json.NewEncoder(w).Encode(v); err != nil {
		t.Error(err)
	}
}

func (r *rig) enrolment(q wire.JoinRequest) wire.Enrolment {
	return wire.Enrolment{
		URLs: []string{"tls://192.0.2.1:7351"}, JWT: "jwt", Fleet: "fleet", CA: r.manager.CA(),
		ManifestKeys: []string{"A"}, SealingKeys: []string{"X"}, Cloud: 3, IP: q.IP, ID: q.ID,
	}
}

// config is what joins a server.
func (r *rig) config(t *testing.T) admission.Config {
	t.Helper()
	return admission.Config{
		Dir: filepath.Join(t.TempDir(), "agent"), Server: "https" + strings.TrimPrefix(r.server.URL, "http"),
		Token: wire.NewJoinToken(r.manager.Fingerprint(), time.Now()).String(), Build: "test",
	}
}

func TestJoin(t *testing.T) {
	r := newRig(t)
	cfg := r.config(t)
	cfg.ID = "web-1"
	e, err := admission.Join(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if e.IP != "127.0.0.1" || e.ID != "web-1" || e.Cloud != 3 {
		t.Errorf("joined as %+v", e)
	}
	if kept := harness.Enrolment(t, filepath.Dir(cfg.Dir)); kept.CA != e.CA || kept.JWT != "jwt" {
		t.Errorf("kept is %+v", kept)
	}
	cfg.IP = "192.0.2.7"
	if e, err = admission.Join(t.Context(), cfg); err != nil || e.IP != "192.0.2.7" {
		t.Errorf("joined again as %+v, %v", e, err)
	}
	if len(r.asked) != 2 || r.asked[0].Key != r.asked[1].Key {
		t.Errorf("a second time with another key: %+v", r.asked)
	}
	if q := r.asked[0]; q.Build != "test" || q.Host.CPUs < 1 || time.Since(q.At).Abs() > time.Hour || q.Secret == "" {
		t.Errorf("asked with %+v", q)
	}
	files, err := os.ReadDir(cfg.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if info, err := f.Info(); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s may be read by others", f.Name())
		}
		data, err := os.ReadFile(filepath.Join(cfg.Dir, f.Name()))
		if err != nil || strings.Contains(string(data), r.asked[0].Secret) {
			t.Errorf("%s holds the token's secret (%v)", f.Name(), err)
		}
	}
}

// TestTheTokenIsSentToItsServerOnly: a server with another authority learns nothing.
func TestTheTokenIsSentToItsServerOnly(t *testing.T) {
	r, other := newRig(t), newRig(t)
	cfg := r.config(t)
	cfg.Token = other.config(t).Token
	_, err := admission.Join(t.Context(), cfg)
	if _, ok := errors.AsType[*joining.DeniedError](err); !ok ||
		!strings.Contains(err.Error(), "is this the server that made the token?") {
		t.Errorf("error is %v", err)
	}
	if len(r.asked) != 0 {
		t.Error("the token was sent")
	}
	nothingKept(t, cfg.Dir)
}

// nothingKept fails unless an agent that was refused has its key at most.
func nothingKept(t *testing.T, dir string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.Name() != "agent.nkey" && f.Name() != "sealing.nkey" {
			t.Errorf("%s is in the directory of an agent that was refused", f.Name())
		}
	}
}

func TestRefusals(t *testing.T) {
	r := newRig(t)
	problem := func(status int, detail string) func(http.ResponseWriter, wire.JoinRequest) {
		return func(w http.ResponseWriter, _ wire.JoinRequest) {
			w.WriteHeader(status)
			send(t, w, map[string]any{"title": "x", "detail": detail})
		}
	}
	answer := func(change func(*wire.Enrolment)) func(http.ResponseWriter, wire.JoinRequest) {
		return func(w http.ResponseWriter, q wire.JoinRequest) {
			e := r.enrolment(q)
			change(&e)
			send(t, w, e)
		}
	}
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter, wire.JoinRequest)
		want   string
	}{
		"a refusal": {problem(403, "the token is spent"), "the token is spent"},
		"another server": {
			func(w http.ResponseWriter, _ wire.JoinRequest) { w.WriteHeader(404) },
			"is it a drover server?",
		},
		"no JSON": {
			func(w http.ResponseWriter, _ wire.JoinRequest) { _, _ = io.WriteString(w, "hello") },
			"is it a drover server?",
		},
		"a redirect": {func(w http.ResponseWriter, _ wire.JoinRequest) {
			w.Header().Set("Location", "/x")
			w.WriteHeader(307)
		}, "redirect"},
		"no fabric": {answer(func(e *wire.Enrolment) { e.URLs = nil }), "it is incomplete"},
		"no keys":   {answer(func(e *wire.Enrolment) { e.ManifestKeys = nil }), "it is incomplete"},
		"no fleet":  {answer(func(e *wire.Enrolment) { e.Fleet = "" }), "it is incomplete"},
		"no CA":     {answer(func(e *wire.Enrolment) { e.CA = "" }), "has no TLS"},
		"a bad CA":  {answer(func(e *wire.Enrolment) { e.CA = "x" }), "expected a certificate in PEM"},
		"a fabric in clear": {
			answer(func(e *wire.Enrolment) { e.URLs = []string{"nats://192.0.2.1:1"} }),
			"has no TLS",
		},
	} {
		cfg := r.config(t)
		r.answer = c.answer
		_, err := admission.Join(t.Context(), cfg)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error about %q", name, err, c.want)
		}
		nothingKept(t, cfg.Dir)
	}
}

func TestWrongUse(t *testing.T) {
	r := newRig(t)
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	for name, c := range map[string]struct {
		change func(*admission.Config)
		want   string
	}{
		"all at once": {func(c *admission.Config) {
			c.Token, c.Server, c.IP, c.ID = "hunter2", "ftp://x", "999.1", "a b"
		}, `expected https://HOST:PORT
cannot use the token: not a token: expected the output of 'drover token create', which begins with dvt1
--ip "999.1" is not an IP address
--id "a b" is not the id of a host`},
		"no token": {func(c *admission.Config) { c.Token = "hunter2" }, "cannot use the token"},
		"no URL": {
			func(c *admission.Config) { c.Server = "drover.example.com" },
			"expected https://HOST:PORT",
		},
		"credentials in it": {
			func(c *admission.Config) { c.Server = "https://a:b@x:1" },
			"expected https://HOST:PORT",
		},
		"no TLS": {func(c *admission.Config) { c.Server = "http://192.0.2.1:7350" }, "has no TLS"},
		"a port without TLS": {func(c *admission.Config) {
			c.Server = "https" + strings.TrimPrefix(plain.URL, "http")
		}, "no TLS at this address"},
		"a port with TLS": {func(c *admission.Config) { c.Server = r.server.URL }, "use https"},
		"a port without anyone": {
			func(c *admission.Config) { c.Server = "https://127.0.0.1:1" },
			"cannot reach the server",
		},
	} {
		cfg := r.config(t)
		c.change(&cfg)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		_, err := admission.Join(ctx, cfg)
		cancel()
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want an error about %q", name, err, c.want)
		}
	}
}
