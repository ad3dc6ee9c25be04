// Package provider signs people in with an OpenID Connect provider: it sends a browser there, and reads who the person
// is from the answer. It owns the discovery of the provider, and every check of an answer. It stores nothing: the
// browser keeps the flow, and package webui owns cookies, users and sessions.
package provider

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

const (
	// askTime bounds each request to the provider, and allTime all requests of one call.
	askTime = 5 * time.Second
	allTime = 10 * time.Second
	// retryAfter is how long a failed discovery is not repeated.
	retryAfter = 5 * time.Second
	// maxReply is the size of the largest reply of the provider that is read, in bytes.
	maxReply = 1 << 20
	// asking is how many sign-ins may ask the provider at once: one that hangs must not hold every connection.
	asking = 32
)

// ErrAway is the error if the provider does not answer, or is busy.
var ErrAway = errors.New("the identity provider does not answer")

// Refusal is the error for an answer that signs nobody in.
type Refusal struct{ Reason string }

// Error holds no secret, no code and no token.
func (r *Refusal) Error() string { return r.Reason }

func refuse(format string, args ...any) error { return &Refusal{fmt.Sprintf(format, args...)} }

// Config says how to ask a provider. All fields are required.
type Config struct {
	// Issuer is the URL of the provider, as it names itself.
	Issuer   string
	ClientID string
	// SecretFile holds the client secret. Each sign-in reads it, so a new secret needs no restart.
	SecretFile string
	Scopes     []string
	// NameClaim holds the name of a person, GroupsClaim the groups. An email counts only if it is verified.
	NameClaim, GroupsClaim string
	Now                    func() time.Time
}

// Provider is one provider. It is safe for concurrent use.
type Provider struct {
	Config
	http  *http.Client
	slots chan struct{}

	mu     sync.Mutex
	found  *found
	failed time.Time // the last discovery
}

// found is what a discovery has found.
type found struct {
	*oidc.Provider
	endpoint oauth2.Endpoint
}

// New returns a provider. It asks nothing yet.
func New(c Config) *Provider {
	return &Provider{
		Config: c, slots: make(chan struct{}, asking),
		http: &http.Client{
			Timeout: askTime, Transport: limited{http.DefaultTransport},
			// A redirect could send the secret to another host.
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return errors.New("the provider answered with a redirect")
			},
		},
	}
}

// limited cuts replies that are too large.
type limited struct{ base http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (l limited) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.base.RoundTrip(r)
	if err == nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, maxReply)
	}
	return resp, err
}

// Flow is one sign-in between its begin and its end. The browser keeps it.
type Flow struct{ State, Nonce, Verifier string }

// Text is the flow as a cookie holds it, ParseFlow reads it. The flow of a broken text matches no answer.
func (f Flow) Text() string { return f.State + "." + f.Nonce + "." + f.Verifier }

// ParseFlow reads a flow.
func ParseFlow(text string) Flow {
	parts := strings.Split(text, ".")
	if len(parts) != 3 || slices.Contains(parts, "") {
		return Flow{}
	}
	return Flow{parts[0], parts[1], parts[2]}
}

// Begin returns where to send a browser, and the flow to keep. The provider sends the browser back to the redirect URL.
// A proof of the person there may be as old as maxAge; 0 has the provider ask for the proof again. Begin blocks for at
// most 10 s, and returns ErrAway if the provider does not answer.
func (p *Provider) Begin(ctx context.Context, redirect string, maxAge time.Duration) (at string, f Flow, err error) {
	ctx, done, err := p.turn(ctx)
	if err != nil {
		return "", Flow{}, err
	}
	defer done()
	known, err := p.discover(ctx)
	if err != nil {
		return "", Flow{}, err
	}
	f = Flow{rand.Text(), rand.Text(), oauth2.GenerateVerifier()}
	options := []oauth2.AuthCodeOption{
		oidc.Nonce(f.Nonce), oauth2.S256ChallengeOption(f.Verifier),
		oauth2.SetAuthURLParam("max_age", strconv.Itoa(int(maxAge/time.Second))),
	}
	if maxAge == 0 {
		options = append(options, oauth2.SetAuthURLParam("prompt", "login"))
	}
	return p.client(known, redirect, "").AuthCodeURL(f.State, options...), f, nil
}

// client is this server as the provider knows it.
func (p *Provider) client(at *found, redirect, secret string) *oauth2.Config {
	return &oauth2.Config{
		ClientID: p.ClientID, ClientSecret: secret, Endpoint: at.endpoint, RedirectURL: redirect, Scopes: p.Scopes,
	}
}

// turn waits for a place among the calls that ask, and bounds the time of the call. done gives the place back.
func (p *Provider) turn(ctx context.Context) (_ context.Context, done func(), err error) {
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, p.http), allTime)
	select {
	case p.slots <- struct{}{}:
		return ctx, func() { <-p.slots; cancel() }, nil
	case <-ctx.Done():
		cancel()
		return nil, nil, fmt.Errorf("%w: too many sign-ins ask it", ErrAway)
	}
}

// discover asks the provider for its addresses, once. After a failure it does not ask for a while.
func (p *Provider) discover(ctx context.Context) (*found, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.found != nil {
		return p.found, nil
	}
	if now := p.Now(); now.Sub(p.failed) < retryAfter && !now.Before(p.failed) {
		return nil, fmt.Errorf("%w: its discovery has just failed", ErrAway)
	}
	at, err := p.ask(ctx)
	if err != nil {
		p.failed = p.Now()
		return nil, fmt.Errorf("%w: %w", ErrAway, err)
	}
	p.found = at
	return at, nil
}

func (p *Provider) ask(ctx context.Context) (*found, error) {
	known, err := oidc.NewProvider(ctx, p.Issuer)
	if err != nil {
		return nil, clipped(err)
	}
	at := &found{known, known.Endpoint()}
	var more struct {
		Keys    string   `json:"jwks_uri"`
		Methods []string `json:"token_endpoint_auth_methods_supported"`
	}
	if err := known.Claims(&more); err != nil {
		return nil, clipped(err)
	}
	for name, address := range map[string]string{
		"authorization_endpoint": at.endpoint.AuthURL, "token_endpoint": at.endpoint.TokenURL, "jwks_uri": more.Keys,
	} {
		if !Secure(address) {
			return nil, fmt.Errorf("its %s is %.200q: expected an https URL", name, address)
		}
	}
	at.endpoint.AuthStyle = oauth2.AuthStyleInHeader // the default of the specification
	if slices.Contains(more.Methods, "client_secret_post") && !slices.Contains(more.Methods, "client_secret_basic") {
		at.endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	return at, nil
}

// Secure reports whether an address is a URL of https, or of http on this machine.
func Secure(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "https" || u.Scheme == "http" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback())
}

// maxError is the length of the longest error text of a provider that is kept, in bytes.
const maxError = 300

// clipped bounds the text of an error, which may quote a reply.
func clipped(err error) error {
	if text := err.Error(); len(text) > maxError {
		return errors.New(strings.ToValidUTF8(text[:maxError], "") + "…")
	}
	return err
}

// Finish reads the answer of the provider that a browser brings, for the flow that the browser has kept. It blocks for
// at most 10 s. It returns ErrAway if the provider does not answer, and a *Refusal for an answer that is not valid or
// not of the flow.
func (p *Provider) Finish(ctx context.Context, redirect string, f Flow, answer url.Values) (Person, error) {
	state := answer.Get("state")
	if f.State == "" || subtle.ConstantTimeCompare([]byte(f.State), []byte(state)) != 1 {
		return Person{}, refuse("no sign-in of this browser waits for the answer")
	}
	if e := answer.Get("error"); e != "" {
		return Person{}, refuse("the identity provider answered %.100q", e)
	}
	ctx, done, err := p.turn(ctx)
	if err != nil {
		return Person{}, err
	}
	defer done()
	at, err := p.discover(ctx)
	if err != nil {
		return Person{}, err
	}
	text, err := p.exchange(ctx, at, redirect, f, answer.Get("code"))
	if err != nil {
		return Person{}, err
	}
	token, err := at.Verifier(&oidc.Config{ClientID: p.ClientID, Now: p.Now}).Verify(ctx, text)
	if err != nil {
		return Person{}, refuse("the identity token is not valid: %v", clipped(err))
	}
	if subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(f.Nonce)) != 1 {
		return Person{}, refuse("the identity token is of another sign-in: its nonce differs")
	}
	return p.person(token)
}

// exchange exchanges a code for the text of an identity token; empty if the provider gives none.
func (p *Provider) exchange(ctx context.Context, at *found, redirect string, f Flow, code string) (string, error) {
	secret, err := os.ReadFile(p.SecretFile)
	if err != nil {
		return "", fmt.Errorf("cannot read the client secret: %w", err)
	}
	given, err := p.client(at, redirect, strings.TrimSpace(string(secret))).Exchange(ctx, code,
		oauth2.VerifierOption(f.Verifier))
	denied, rejected := errors.AsType[*oauth2.RetrieveError](err)
	lost, unreachable := errors.AsType[*url.Error](err)
	switch {
	case rejected && denied.Response.StatusCode < http.StatusInternalServerError:
		return "", refuse("the identity provider rejected the code: status %d, %.100q", denied.Response.StatusCode,
			denied.ErrorCode)
	case rejected:
		return "", fmt.Errorf("%w: status %d", ErrAway, denied.Response.StatusCode)
	case unreachable:
		return "", fmt.Errorf("%w: %w", ErrAway, clipped(lost.Err))
	case err != nil:
		return "", refuse("the answer of the identity provider is not valid: %v", clipped(err))
	}
	text, _ := given.Extra("id_token").(string)
	return text, nil
}
