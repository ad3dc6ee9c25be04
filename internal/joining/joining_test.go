package joining_test

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"drover/internal/joining"
	"drover/internal/pki"
	"drover/internal/pki/pkitest"
	"drover/internal/wire"
)

// TestAnAnswerThroughAProxy: what a proxy passes on counts if the server has signed it for this very question.
func TestAnAnswerThroughAProxy(t *testing.T) {
	k := pkitest.New(t)
	header := func(request, answer string) string {
		proof, err := k.Prove(wire.Proven([]byte(request), []byte(answer)))
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(proof)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	stranger, err := pkitest.New(t).Prove(wire.Proven([]byte("question"), []byte("answer")))
	if err != nil {
		t.Fatal(err)
	}
	forged, err := json.Marshal(stranger)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ proof, words string }{
		"signed":                {header("question", "answer"), ""},
		"not signed":            {"", "no server signed it"},
		"no signature":          {"{}", "cannot trust the answer"},
		"of another question":   {header("another", "answer"), "signature does not match"},
		"another answer":        {header("question", "x"), "signature does not match"},
		"signed by a stranger":  {string(forged), "cannot trust the answer"},
		"nothing that was read": {"x", "no server signed it"},
	} {
		server := serve(t, proxyTLS(t, k), func(w http.ResponseWriter) {
			if c.proof != "" {
				w.Header().Set(wire.ProofHeader, c.proof)
			}
			_, _ = io.WriteString(w, "answer")
		})
		answer, err := joining.Ask(t.Context(), server, k.Fingerprint(), []byte("question"))
		if (err == nil) != (c.words == "") || err != nil && !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %q, %v, want an error about %q", name, answer, err, c.words)
		}
	}
	// A server speaks for itself.
	server := serve(t, k.ServerTLS(), func(w http.ResponseWriter) { _, _ = io.WriteString(w, "answer") })
	if answer, err := joining.Ask(t.Context(), server, k.Fingerprint(), []byte("question")); err != nil ||
		string(answer) != "answer" {
		t.Errorf("a server: %q, %v", answer, err)
	}
}

// TestAServerThatIsNotAvailableYet: Ask repeats a request that a server wants later, and no other one.
func TestAServerThatIsNotAvailableYet(t *testing.T) {
	k := pkitest.New(t)
	for name, c := range map[string]struct {
		status     int
		retryAfter string
		refusals   int
		asked      int
		ok         bool
	}{
		"later":             {http.StatusServiceUnavailable, "0", 2, 3, true},
		"much later":        {http.StatusServiceUnavailable, "3600", 1, 1, false},
		"never":             {http.StatusServiceUnavailable, "18446744073709551615", 1, 1, false},
		"in the past":       {http.StatusServiceUnavailable, "-1", 1, 1, false},
		"without a time":    {http.StatusServiceUnavailable, "", 1, 1, false},
		"another rejection": {http.StatusTooManyRequests, "0", 1, 1, false},
	} {
		asked := 0
		server := serve(t, k.ServerTLS(), func(w http.ResponseWriter) {
			if asked++; asked > c.refusals {
				_, _ = io.WriteString(w, "answer")
				return
			}
			if c.retryAfter != "" {
				w.Header().Set("Retry-After", c.retryAfter)
			}
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, `{"detail": "not yet"}`)
		})
		answer, err := joining.Ask(t.Context(), server, k.Fingerprint(), []byte("question"))
		if asked != c.asked || (err == nil) != c.ok || c.ok && string(answer) != "answer" ||
			!c.ok && err.Error() != "not yet" {
			t.Errorf("%s: asked %d times, %q, %v", name, asked, answer, err)
		}
	}
}

// TestABrokerIsNoServer: what the same authority has certified as a broker is shown no token.
func TestABrokerIsNoServer(t *testing.T) {
	k := pkitest.New(t)
	chain, key, err := k.IssueNode([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tls.X509KeyPair(chain, key)
	if err != nil {
		t.Fatal(err)
	}
	server := serve(t, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}},
		func(w http.ResponseWriter) {
			t.Error("it was asked")
			_, _ = io.WriteString(w, "keys to obey")
		})
	answer, err := joining.Ask(t.Context(), server, k.Fingerprint(), []byte("question"))
	denied, ok := errors.AsType[*joining.DeniedError](err)
	if !ok || !denied.Forbidden() || !strings.Contains(denied.Text, "belongs to a broker") {
		t.Errorf("got %q, %v, want a denial about a broker", answer, err)
	}
}

// proxyTLS is what a proxy shows.
func proxyTLS(t *testing.T, k *pki.Manager) *tls.Config {
	t.Helper()
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{*pkitest.ProxyCertificate(t, k, 3)},
	}
}

func serve(t *testing.T, shown *tls.Config, answer func(http.ResponseWriter)) *url.URL {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != wire.JoinPath {
			t.Errorf("asked at %s", r.URL.Path)
		}
		answer(w)
	}))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	s.Listener = tls.NewListener(s.Listener, shown) // StartTLS would put a certificate of its own in
	s.Start()
	t.Cleanup(s.Close)
	u, err := joining.ServerURL("https://"+s.Listener.Addr().String(), false)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestForbidden(t *testing.T) {
	for status, want := range map[int]bool{
		0: true, 401: true, 403: true, 404: true, 400: false, 409: false, 422: false,
		429: false, 500: false, 503: false,
	} {
		if got := (&joining.DeniedError{Status: status}).Forbidden(); got != want {
			t.Errorf("%d: %v", status, got)
		}
	}
}

// TestARefusalIsShownAsText: whoever answers, a proxy that was taken over perhaps, draws nothing on the terminal of who
// joins.
func TestARefusalIsShownAsText(t *testing.T) {
	k := pkitest.New(t)
	server := serve(t, proxyTLS(t, k), func(w http.ResponseWriter) {
		w.WriteHeader(http.StatusForbidden)
		//nolint:errchkjson // texts
		_ = json.NewEncoder(w).Encode(map[string]string{"detail": "no\x1b[2J\r\n\u009b" + strings.Repeat("x", 1<<17)})
	})
	_, err := joining.Ask(t.Context(), server, k.Fingerprint(), []byte("question"))
	if err == nil || strings.ContainsAny(err.Error(), "\x1b\r\n\u009b") || len(err.Error()) > 4<<10 ||
		!strings.HasPrefix(err.Error(), "no?[2J") {
		t.Errorf("it is told %.200q", err)
	}
}
