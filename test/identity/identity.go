// Package identity is a real OpenID Connect provider, that of zitadel/oidc, for tests: it has people with groups, a page
// that asks for a password, and codes that count once.
package identity

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// Password is that of every person, and Secret that of drover.
const (
	Password = "correct horse"
	Secret   = "planted-client-secret"
	clientID = "drover"
)

// Provider is a provider that runs until its test ends.
type Provider struct {
	*storage.Storage
	Server *httptest.Server

	mu       sync.Mutex
	people   map[string][]string // groups by name
	callback string
	nonce    string
	proved   time.Time
}

// Start starts a provider. It knows nobody yet.
func Start(t testing.TB) *Provider {
	t.Helper()
	p := &Provider{people: map[string][]string{}}
	p.Storage = storage.NewStorageWithClients(people{p}, map[string]*storage.Client{
		clientID: storage.WebClient(clientID, Secret),
	})
	p.Server = httptest.NewUnstartedServer(nil)
	p.Server.Config.Handler = exampleop.SetupServer("http://"+p.Server.Listener.Addr().String(), p,
		slog.New(slog.DiscardHandler), false)
	p.Server.Start()
	t.Cleanup(p.Server.Close)
	return p
}

// Settings writes the settings of a server with this provider, and returns the path of the file. The grants are YAML.
func (p *Provider) Settings(t testing.TB, grants string) string {
	t.Helper()
	dir := t.TempDir()
	path, secret := filepath.Join(dir, "server.yaml"), filepath.Join(dir, "secret")
	for at, text := range map[string]string{
		secret: Secret + "\n",
		path: "oidc:\n  issuer: " + p.Server.URL + "\n  client-id: " + clientID + "\n  client-secret-file: " + secret +
			"\n  name-claim: preferred_username\n  scopes: [openid, profile, groups]\n  grants: " + grants + "\n",
	} {
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// Serve lets the provider send browsers back to a server.
func (p *Provider) Serve(server string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.callback = server + "/ui/login/oidc/callback"
}

// Put adds a person, or replaces the groups of one.
func (p *Provider) Put(name string, groups ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.people[name] = groups
}

// Spoil has all further tokens hold a nonce; an empty one is the right one again.
func (p *Provider) Spoil(nonce string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nonce = nonce
}

// ProvedAt has all further tokens say when the person gave the password; zero says the truth again.
func (p *Provider) ProvedAt(at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.proved = at
}

// Expire ends a code, as its time does.
func (p *Provider) Expire(t testing.TB, code string) {
	t.Helper()
	request, err := p.Storage.AuthRequestByCode(t.Context(), code)
	if err == nil {
		err = p.DeleteAuthRequest(t.Context(), request.GetID())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// GetClientByClientID implements op.Storage.
func (p *Provider) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	c, err := p.Storage.GetClientByClientID(ctx, id)
	return client{c, p}, err
}

// client is drover as the provider knows it.
type client struct {
	op.Client
	p *Provider
}

// RedirectURIs are those to which the provider may send a browser back.
func (c client) RedirectURIs() []string {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	return []string{c.p.callback}
}

// IDTokenUserinfoClaimsAssertion has tokens hold the claims of a person.
func (c client) IDTokenUserinfoClaimsAssertion() bool { return true }

// IsScopeAllowed allows the scope of groups.
func (c client) IsScopeAllowed(scope string) bool { return scope == "groups" }

// SetUserinfoFromRequest implements op.CanSetUserinfoFromRequest.
func (p *Provider) SetUserinfoFromRequest(ctx context.Context, info *oidc.UserInfo, request op.IDTokenRequest,
	scopes []string,
) error {
	if err := p.Storage.SetUserinfoFromRequest(ctx, info, request, scopes); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	info.AppendClaims("groups", p.people[request.GetSubject()])
	return nil
}

// AuthRequestByCode implements op.Storage.
func (p *Provider) AuthRequestByCode(ctx context.Context, code string) (op.AuthRequest, error) {
	request, err := p.Storage.AuthRequestByCode(ctx, code)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.nonce == "" && p.proved.IsZero() {
		return request, nil
	}
	return spoiled{request, p.nonce, p.proved}, nil
}

// spoiled is a request whose token says what the test wants.
type spoiled struct {
	op.AuthRequest
	nonce  string
	proved time.Time
}

// GetNonce is the nonce of the token.
func (s spoiled) GetNonce() string {
	if s.nonce == "" {
		return s.AuthRequest.GetNonce()
	}
	return s.nonce
}

// GetAuthTime is when the person gave the password.
func (s spoiled) GetAuthTime() time.Time {
	if s.proved.IsZero() {
		return s.AuthRequest.GetAuthTime()
	}
	return s.proved
}

// people are the people of a provider; the id of a person is the name.
type people struct{ p *Provider }

// GetUserByID implements storage.UserStore.
func (l people) GetUserByID(id string) *storage.User { return l.GetUserByUsername(id) }

// GetUserByUsername implements storage.UserStore.
func (l people) GetUserByUsername(name string) *storage.User {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	if _, known := l.p.people[name]; !known {
		return nil
	}
	return &storage.User{ID: name, Username: name, Password: Password}
}

// ExampleClientID implements storage.UserStore.
func (people) ExampleClientID() string { return storage.ServiceUserID }
