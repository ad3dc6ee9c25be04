package provider_test

import (
	"context"
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"drover/internal/server/provider"
)

// redirect is where the provider sends browsers back to.
const redirect = "https://drover.example.com/ui/login/oidc/callback"

// evil is a provider that does what a test says. By itself it follows the specification.
type evil struct {
	*httptest.Server
	key *rsa.PrivateKey
	now time.Time
	// discovery and claims replace parts of what is right; nil removes a part.
	discovery, claims map[string]any
	// token makes the text of a token from its claims; nil signs with RS256.
	token func(claims []byte) string
	// replies replace the whole answer of a path.
	replies map[string]http.HandlerFunc
	// challenge is what the last flow has sent, and asked counts discoveries.
	challenge url.Values
	asked     atomic.Int32
}

func newEvil(t *testing.T) *evil {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	e := &evil{key: key, now: time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)}
	e.Server = httptest.NewServer(e)
	t.Cleanup(e.Close)
	return e
}

// changed returns a map with the parts of another map.
func changed(right, with map[string]any) map[string]any {
	maps.Copy(right, with)
	maps.DeleteFunc(right, func(_ string, v any) bool { return v == nil })
	return right
}

// ServeHTTP implements http.Handler.
func (e *evil) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if reply := e.replies[r.URL.Path]; reply != nil {
		reply(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	answer := func(v any) { _ = json.NewEncoder(w).Encode(v) }
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		e.asked.Add(1)
		answer(changed(map[string]any{
			"issuer": e.URL, "authorization_endpoint": e.URL + "/auth", "token_endpoint": e.URL + "/token",
			"jwks_uri": e.URL + "/keys", "id_token_signing_alg_values_supported": []string{"RS256", "HS256", "none"},
		}, e.discovery))
	case "/keys":
		encode := base64.RawURLEncoding.EncodeToString
		answer(map[string]any{"keys": []any{map[string]any{
			"kty": "RSA", "use": "sig", "kid": "1", "n": encode(e.key.N.Bytes()),
			"e": encode(big.NewInt(int64(e.key.E)).Bytes()),
		}}})
	case "/token":
		sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
		id, secret, _ := r.BasicAuth()
		if base64.RawURLEncoding.EncodeToString(sum[:]) != e.challenge.Get("code_challenge") ||
			id != "drover" || secret != "planted" || r.PostFormValue("code") != "right" ||
			r.PostFormValue("redirect_uri") != redirect {
			w.WriteHeader(http.StatusBadRequest)
			answer(map[string]any{"error": "invalid_grant", "error_description": "planted"})
			return
		}
		claims, _ := json.Marshal(changed(map[string]any{
			"iss": e.URL, "sub": "1", "aud": "drover", "exp": e.now.Add(time.Minute).Unix(), "iat": e.now.Unix(),
			"nonce": e.challenge.Get("nonce"), "email": "anna@example.com", "email_verified": true,
			"groups": []string{"ops", "dev"}, "auth_time": e.now.Add(-time.Minute).Unix(),
		}, e.claims))
		sign := e.token
		if sign == nil {
			sign = e.rs256
		}
		answer(map[string]any{"access_token": "x", "token_type": "Bearer", "id_token": sign(claims)})
	default:
		http.NotFound(w, r)
	}
}

// unsigned is the part of a token that is signed.
func unsigned(header string, claims []byte) string {
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(header)) + "." + encode(claims)
}

func (e *evil) rs256(claims []byte) string { return signed(e.key, claims) }

func signed(key *rsa.PrivateKey, claims []byte) string {
	text := unsigned(`{"alg":"RS256","kid":"1"}`, claims)
	sum := sha256.Sum256([]byte(text))
	signature, _ := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// provider returns what asks the provider.
func (e *evil) provider(t *testing.T) *provider.Provider {
	t.Helper()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("planted\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return provider.New(provider.Config{
		Issuer: e.URL, ClientID: "drover", SecretFile: secret, Scopes: []string{"openid", "email"},
		NameClaim: "email", GroupsClaim: "groups", Now: func() time.Time { return e.now },
	})
}

// begin begins a flow, and returns the answer that a right provider sends.
func (e *evil) begin(t *testing.T, p *provider.Provider) (provider.Flow, url.Values) {
	t.Helper()
	address, flow, err := p.Begin(t.Context(), redirect, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(address)
	if err != nil || !strings.HasPrefix(address, e.URL+"/auth?") {
		t.Fatalf("%s: %v", address, err)
	}
	e.challenge = u.Query()
	return flow, url.Values{"state": {u.Query().Get("state")}, "code": {"right"}}
}

// TestSignIn: the flow has PKCE, a state and a nonce of its own, and the answer names the person.
func TestSignIn(t *testing.T) {
	e := newEvil(t)
	p := e.provider(t)
	flow, answer := e.begin(t, p)
	for name, want := range map[string]string{
		"response_type": "code", "code_challenge_method": "S256", "client_id": "drover", "scope": "openid email",
		"redirect_uri": redirect, "max_age": "3600", "prompt": "",
	} {
		if got := e.challenge.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	person, err := p.Finish(t.Context(), redirect, provider.ParseFlow(flow.Text()), answer)
	if err != nil || person.Name != "anna@example.com" || !slices.Equal(person.Groups, []string{"ops", "dev"}) ||
		!person.Proved.Equal(e.now.Add(-time.Minute)) {
		t.Errorf("%+v, %v", person, err)
	}
	other, _ := e.begin(t, p)
	if other.State == flow.State || other.Nonce == flow.Nonce || other.Verifier == flow.Verifier {
		t.Errorf("two flows have a part in common: %+v, %+v", flow, other)
	}
	address, _, err := p.Begin(t.Context(), redirect, 0)
	if err != nil || !strings.Contains(address, "max_age=0") || !strings.Contains(address, "prompt=login") {
		t.Errorf("a new proof: %s, %v", address, err)
	}
	if n := e.asked.Load(); n != 1 {
		t.Errorf("%d discoveries", n)
	}
}

// refused fails unless a sign-in is refused, with a reason and without a secret.
func refused(t *testing.T, person provider.Person, err error, why string) {
	t.Helper()
	refusal, ok := errors.AsType[*provider.Refusal](err)
	if !ok || person.Name != "" || !strings.Contains(refusal.Reason, why) || strings.Contains(refusal.Reason, "planted") {
		t.Errorf("%+v, %v; want a refusal with %q", person, err, why)
	}
}

// TestAnswersOfOthers: an answer counts for the flow of its browser only.
func TestAnswersOfOthers(t *testing.T) {
	e := newEvil(t)
	p := e.provider(t)
	for name, tt := range map[string]struct {
		change func(*provider.Flow, url.Values)
		why    string
	}{
		"no flow":             {func(f *provider.Flow, _ url.Values) { *f = provider.ParseFlow("") }, "waits"},
		"a broken flow":       {func(f *provider.Flow, a url.Values) { *f = provider.ParseFlow(".."); a.Set("state", "") }, "waits"},
		"another state":       {func(_ *provider.Flow, a url.Values) { a.Set("state", "x") }, "waits"},
		"no state":            {func(_ *provider.Flow, a url.Values) { a.Del("state") }, "waits"},
		"another nonce":       {func(f *provider.Flow, _ url.Values) { f.Nonce = "x" }, "nonce"},
		"another verifier":    {func(f *provider.Flow, _ url.Values) { f.Verifier = "x" }, "rejected the code"},
		"another code":        {func(_ *provider.Flow, a url.Values) { a.Set("code", "wrong") }, "invalid_grant"},
		"no code":             {func(_ *provider.Flow, a url.Values) { a.Del("code") }, "rejected the code"},
		"a person who leaves": {func(_ *provider.Flow, a url.Values) { a.Set("error", "access_denied") }, "access_denied"},
	} {
		t.Run(name, func(t *testing.T) {
			flow, answer := e.begin(t, p)
			tt.change(&flow, answer)
			person, err := p.Finish(t.Context(), redirect, flow, answer)
			refused(t, person, err, tt.why)
		})
	}
}

// TestHostileTokens: a token that the provider may not have made for this server signs nobody in.
func TestHostileTokens(t *testing.T) {
	foreign, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		claims map[string]any
		token  func(e *evil, claims []byte) string
		why    string
	}{
		"wrong issuer":           {claims: map[string]any{"iss": "https://other.example.com"}, why: "different provider"},
		"no issuer":              {claims: map[string]any{"iss": nil}, why: "different provider"},
		"wrong audience":         {claims: map[string]any{"aud": "other"}, why: "audience"},
		"an audience of many":    {claims: map[string]any{"aud": []string{"drover", "other"}}, why: "azp"},
		"another party":          {claims: map[string]any{"azp": "other"}, why: "azp"},
		"expired":                {claims: map[string]any{"exp": 1}, why: "expired"},
		"no expiry":              {claims: map[string]any{"exp": nil}, why: "expired"},
		"of tomorrow":            {claims: map[string]any{"nbf": 4e9}, why: "nbf"},
		"no nonce":               {claims: map[string]any{"nonce": nil}, why: "nonce"},
		"a nonce of another":     {claims: map[string]any{"nonce": "x"}, why: "nonce"},
		"no name":                {claims: map[string]any{"email": nil}, why: `"email"`},
		"a name of another kind": {claims: map[string]any{"email": 7}, why: `"email"`},
		"an empty name":          {claims: map[string]any{"email": ""}, why: "is empty"},
		"a long name":            {claims: map[string]any{"email": strings.Repeat("x", 129)}, why: "too long"},
		"a name with an escape":  {claims: map[string]any{"email": "a\x1b[2J"}, why: "cannot be shown"},
		"a name turned round":    {claims: map[string]any{"email": "a\u202eb"}, why: "cannot be shown"},
		"the operator's name":    {claims: map[string]any{"email": "uid:0"}, why: "reserved"},
		"an email of anybody":    {claims: map[string]any{"email_verified": false}, why: "not verified"},
		"an email of nobody":     {claims: map[string]any{"email_verified": nil}, why: "not verified"},
		"a time that is a text":  {claims: map[string]any{"auth_time": []int{1}}, why: "another kind"},
		"no token":               {token: func(*evil, []byte) string { return "" }, why: "not valid"},
		"alg none": {
			token: func(_ *evil, c []byte) string { return unsigned(`{"alg":"none"}`, c) + "." }, why: "not valid",
		},
		"HS256 with the public key": {token: func(e *evil, c []byte) string {
			der, _ := x509.MarshalPKIXPublicKey(&e.key.PublicKey)
			mac := hmac.New(sha256.New, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
			text := unsigned(`{"alg":"HS256","kid":"1"}`, c)
			_, _ = io.WriteString(mac, text)
			return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
		}, why: "not valid"},
		"the key of another": {token: func(_ *evil, c []byte) string { return signed(foreign, c) }, why: "not valid"},
		"claims that were changed": {token: func(e *evil, c []byte) string {
			parts := strings.Split(e.rs256(c), ".")
			parts[1] = base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(c), "anna", "hanna", 1)))
			return strings.Join(parts, ".")
		}, why: "not valid"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEvil(t)
			e.claims = tt.claims
			if tt.token != nil {
				e.token = func(c []byte) string { return tt.token(e, c) }
			}
			p := e.provider(t)
			flow, answer := e.begin(t, p)
			person, err := p.Finish(t.Context(), redirect, flow, answer)
			refused(t, person, err, tt.why)
		})
	}
}

// TestClaims: providers write groups in several forms, and some do not tell when the person proved the identity.
func TestClaims(t *testing.T) {
	for name, tt := range map[string]struct {
		claims map[string]any
		want   provider.Person
	}{
		"one group":   {map[string]any{"groups": "ops"}, provider.Person{Groups: []string{"ops"}}},
		"no groups":   {map[string]any{"groups": nil}, provider.Person{}},
		"other kinds": {map[string]any{"groups": []any{"ops", 7}}, provider.Person{}},
		"no time":     {map[string]any{"auth_time": nil, "groups": nil}, provider.Person{}},
		"two audiences": {
			map[string]any{"aud": []string{"x", "drover"}, "azp": "drover", "groups": nil, "email_verified": "true"},
			provider.Person{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEvil(t)
			e.claims = tt.claims
			p := e.provider(t)
			flow, answer := e.begin(t, p)
			person, err := p.Finish(t.Context(), redirect, flow, answer)
			if err != nil || person.Name != "anna@example.com" || !slices.Equal(person.Groups, tt.want.Groups) ||
				person.Proved.IsZero() != (name == "no time") {
				t.Errorf("%+v, %v", person, err)
			}
		})
	}
	e := newEvil(t)
	e.claims = map[string]any{"auth_time": e.now.Add(time.Hour).Unix()}
	p := e.provider(t)
	flow, answer := e.begin(t, p)
	if person, err := p.Finish(t.Context(), redirect, flow, answer); err != nil || !person.Proved.Equal(e.now) {
		t.Errorf("a proof of tomorrow: %+v, %v", person, err)
	}
}

// TestProviderAway: a provider that is down, slow, or answers nonsense is away, within a bounded time. It is not asked all
// the time, and later it is asked again.
func TestProviderAway(t *testing.T) {
	huge := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		block := []byte(strings.Repeat(" ", 1<<16))
		for range 64 {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
		_, _ = io.WriteString(w, "{}")
	}
	const discovery = "/.well-known/openid-configuration"
	for name, spoil := range map[string]func(e *evil){
		"wrong issuer":      func(e *evil) { e.discovery = map[string]any{"issuer": "https://other.example.com"} },
		"a token over http": func(e *evil) { e.discovery = map[string]any{"token_endpoint": "http://id.example.com/t"} },
		"a script":          func(e *evil) { e.discovery = map[string]any{"authorization_endpoint": "javascript:alert(1)"} },
		"no keys":           func(e *evil) { e.discovery = map[string]any{"jwks_uri": nil} },
		"a failure": func(e *evil) {
			e.replies[discovery] = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }
		},
		"a page": func(e *evil) {
			e.replies[discovery] = func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }
		},
		"a redirect":         func(e *evil) { e.replies[discovery] = http.RedirectHandler("/other", http.StatusFound).ServeHTTP },
		"an endless reply":   func(e *evil) { e.replies[discovery] = huge },
		"nobody who listens": func(e *evil) { e.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			e := newEvil(t)
			e.replies = map[string]http.HandlerFunc{}
			spoil(e)
			p := e.provider(t)
			if _, _, err := p.Begin(t.Context(), redirect, 0); !errors.Is(err, provider.ErrAway) {
				t.Errorf("it is %v", err)
			}
		})
	}
	for what, path := range map[string]string{"a token": "/token", "keys": "/keys"} {
		t.Run(what+" without an end", func(t *testing.T) {
			e := newEvil(t)
			p := e.provider(t)
			flow, answer := e.begin(t, p)
			e.replies = map[string]http.HandlerFunc{path: huge}
			person, err := p.Finish(t.Context(), redirect, flow, answer)
			refused(t, person, err, "not valid")
		})
	}
	t.Run("an exchange that fails", func(t *testing.T) {
		e := newEvil(t)
		p := e.provider(t)
		flow, answer := e.begin(t, p)
		e.replies = map[string]http.HandlerFunc{"/token": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(502) }}
		if _, err := p.Finish(t.Context(), redirect, flow, answer); !errors.Is(err, provider.ErrAway) {
			t.Errorf("it is %v", err)
		}
		e.Close()
		if _, err := p.Finish(t.Context(), redirect, flow, answer); !errors.Is(err, provider.ErrAway) {
			t.Errorf("it is %v", err)
		}
	})
	t.Run("again later", func(t *testing.T) {
		e := newEvil(t)
		e.discovery = map[string]any{"issuer": "x"}
		p := e.provider(t)
		for range 3 {
			if _, _, err := p.Begin(t.Context(), redirect, 0); !errors.Is(err, provider.ErrAway) {
				t.Errorf("it is %v", err)
			}
		}
		e.discovery = nil
		if n := e.asked.Load(); n != 1 {
			t.Errorf("%d discoveries at once", n)
		}
		e.now = e.now.Add(5 * time.Second)
		e.begin(t, p)
	})
}

// TestSlowProvider: a provider that does not answer holds a sign-in for a bounded time, and others for no longer.
func TestSlowProvider(t *testing.T) {
	t.Parallel()
	e := newEvil(t)
	held, release := context.WithCancel(t.Context())
	defer release()
	e.replies = map[string]http.HandlerFunc{
		"/.well-known/openid-configuration": func(http.ResponseWriter, *http.Request) { <-held.Done() },
	}
	p := e.provider(t)
	begun := time.Now()
	results := make(chan error, 3)
	for range cap(results) {
		go func() {
			_, _, err := p.Begin(context.WithoutCancel(t.Context()), redirect, 0)
			results <- err
		}()
	}
	for range cap(results) {
		if err := <-results; !errors.Is(err, provider.ErrAway) {
			t.Errorf("it is %v", err)
		}
	}
	if took := time.Since(begun); took > 9*time.Second {
		t.Errorf("it took %s", took)
	}
}

// TestSecretFile: each sign-in reads the secret, so that a new one needs no restart.
func TestSecretFile(t *testing.T) {
	e := newEvil(t)
	p := e.provider(t)
	finish := func() error {
		flow, answer := e.begin(t, p)
		_, err := p.Finish(t.Context(), redirect, flow, answer)
		return err
	}
	if err := os.WriteFile(p.SecretFile, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := finish(); err == nil {
		t.Error("a wrong secret is accepted")
	}
	if err := os.WriteFile(p.SecretFile, []byte("planted"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := finish(); err != nil {
		t.Error(err)
	}
	if err := os.Remove(p.SecretFile); err != nil {
		t.Fatal(err)
	}
	if err := finish(); err == nil || errors.Is(err, provider.ErrAway) {
		t.Errorf("without a secret: %v", err)
	}
}
