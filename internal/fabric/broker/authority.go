package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"drover/internal/durable"
	"drover/internal/fabric"
)

const (
	agentSubscriptions = 16              // at one time, of one agent
	answerWithin       = 2 * time.Minute // after that an agent may no longer answer a request
	// to one request: the broker counts a further delivery of it to the same agent as one
	answers = 4
)

// Placeholders of the templates: the broker fills in the values of each client.
const (
	ownArea = "{{tag(area)}}"
	ownKey  = "{{subject()}}"
	areaTag = "area:"
)

// authority makes the account of the fleet and its users. Each role has a signer. The account itself has a name and no
// private key: whoever makes it forgets the key at once. Only the keys of signers are on disk.
type authority struct {
	// account and system are the names of the fleet's account and of the system account, which only external brokers
	// have.
	account, system string
	// agents, proxies and servers issue the credentials of each role.
	agents, proxies, servers atomic.Pointer[signer]

	refreshing sync.Mutex // held from the read of the revoked keys until they are applied

	mu      sync.Mutex      // protects the next fields, once the server runs
	revoked map[string]bool // by public key
	// meanwhile holds the keys that were revoked or restored since a reload began, because the reload may miss them;
	// nil without a reload.
	meanwhile map[string]bool
}

// signer issues users of one role. At each connect the signing key determines the rights.
type signer struct {
	role string
	key  nkeys.KeyPair
	// rights are nil for servers, which have every right.
	rights *jwt.UserPermissionLimits
	// others are the public keys of further valid signers: the former keys, and the next key.
	others []string
}

// Signers are the keys that issue the credentials of each role. The key of Servers also signs the account for external
// brokers.
type Signers struct{ Agents, Proxies, Servers Issuers }

// Issuers are the keys that issue the credentials of one role, during a rotation too.
type Issuers struct {
	// Issue is the key that issues them from now on; nil is the key in the directory.
	Issue nkeys.KeyPair
	// Others are the public keys of further valid issuers.
	Others []string
}

// open returns the issuer of a role's credentials.
func (s Issuers) open(dir, role string, rights *jwt.UserPermissionLimits) (*signer, error) {
	made := &signer{role: role, key: s.Issue, rights: rights, others: s.Others}
	if made.key != nil {
		return made, nil
	}
	var err error
	made.key, err = fabric.LoadOrCreateKey(filepath.Join(dir, role+"-signer.nk"), nkeys.PrefixByteAccount)
	return made, err
}

func openAuthority(dir string, signers Signers, agents, proxies Rights) (*authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, err
	}
	a := &authority{revoked: map[string]bool{}}
	var err error
	if a.account, err = AccountName(dir); err != nil {
		return nil, err
	}
	if a.system, err = loadOrCreateName(filepath.Join(dir, systemFile)); err != nil {
		return nil, err
	}
	for _, role := range []struct {
		signer *atomic.Pointer[signer]
		by     Issuers
		name   string
		rights *jwt.UserPermissionLimits
	}{
		{&a.agents, signers.Agents, "agent", agentRights(agents)},
		{&a.proxies, signers.Proxies, "proxy", proxyRights(proxies)},
		{&a.servers, signers.Servers, "server", nil},
	} {
		made, err := role.by.open(dir, role.name, role.rights)
		if err != nil {
			return nil, err
		}
		role.signer.Store(made)
	}
	return a, nil
}

// setSigners replaces the keys that issue credentials; the caller holds the lock, and announces the account.
func (a *authority) setSigners(s Signers) {
	for role, by := range map[*atomic.Pointer[signer]]Issuers{
		&a.agents: s.Agents, &a.proxies: s.Proxies, &a.servers: s.Servers,
	} {
		made := *role.Load()
		made.key, made.others = by.Issue, by.Others
		role.Store(&made)
	}
}

// agentRights returns the template that the broker fills in for each agent.
func agentRights(r Rights) *jwt.UserPermissionLimits {
	return &jwt.UserPermissionLimits{
		Permissions: jwt.Permissions{
			Pub: jwt.Permission{Allow: append(jwt.StringList{}, r.Publish...)},
			Sub: jwt.Permission{Allow: append(jwt.StringList{fabric.InboxPrefix(ownArea, ownKey) + ".>"},
				r.Subscribe...)},
			Resp: &jwt.ResponsePermission{MaxMsgs: answers, Expires: answerWithin},
		},
		Limits: jwt.Limits{
			NatsLimits: jwt.NatsLimits{Subs: agentSubscriptions, Data: jwt.NoLimit, Payload: fabric.MaxFromAgents},
		},
		AllowedConnectionTypes: jwt.StringList{jwt.ConnectionTypeStandard},
	}
}

// proxyRights returns the template that the broker fills in for each proxy. A proxy carries the requests and the
// replies of a whole area, and so may answer the servers at any time. It may answer what it hears of agents.
func proxyRights(r Rights) *jwt.UserPermissionLimits {
	inboxes := func(area string) string { return fabric.InboxPrefix(area, ">") }
	return &jwt.UserPermissionLimits{
		Permissions: jwt.Permissions{
			Pub:  jwt.Permission{Allow: append(jwt.StringList{inboxes(fabric.ServerArea)}, r.Publish...)},
			Sub:  jwt.Permission{Allow: append(jwt.StringList{inboxes(ownArea)}, r.Subscribe...)},
			Resp: &jwt.ResponsePermission{MaxMsgs: answers, Expires: answerWithin},
		},
		Limits: jwt.Limits{
			NatsLimits: jwt.NatsLimits{Subs: jwt.NoLimit, Data: jwt.NoLimit, Payload: fabric.MaxFromAgents},
		},
		AllowedConnectionTypes: jwt.StringList{jwt.ConnectionTypeStandard, jwt.ConnectionTypeLeafnode},
	}
}

// setRevoked sets the revoked keys before the server runs.
func (a *authority) setRevoked(keys []string) { a.revoked = a.amended(keys) }

// mark revokes a key, or restores it; the caller holds the lock.
func (a *authority) mark(key string, revoked bool) {
	if a.meanwhile != nil {
		a.meanwhile[key] = revoked
	}
	if revoked {
		a.revoked[key] = true
	} else {
		delete(a.revoked, key)
	}
}

// toRestore reports whether a key is revoked. If it is not, a list that is being read cannot revoke it.
func (a *authority) toRestore(key string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.meanwhile != nil {
		a.meanwhile[key] = false
	}
	return a.revoked[key]
}

// refresh replaces the revoked keys with the result of read, except for changes here since refresh was called. If the
// keys differ, refresh passes the new account to change, and holds the lock meanwhile.
func (a *authority) refresh(read func() ([]string, error), change func(func()) error) error {
	a.refreshing.Lock()
	defer a.refreshing.Unlock()
	a.mu.Lock()
	a.meanwhile = map[string]bool{}
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		a.meanwhile = nil
		a.mu.Unlock()
	}()
	keys, err := read()
	if err != nil {
		return err
	}
	a.mu.Lock()
	same := maps.Equal(a.amended(keys), a.revoked)
	a.mu.Unlock()
	if same {
		return nil
	}
	return change(func() { a.revoked = a.amended(keys) })
}

// amended returns a list with the changes since it was read; the caller holds the lock.
func (a *authority) amended(keys []string) map[string]bool {
	all := make(map[string]bool, len(keys))
	for _, key := range keys {
		all[key] = true
	}
	maps.Copy(all, a.meanwhile)
	maps.DeleteFunc(all, func(_ string, revoked bool) bool { return !revoked })
	return all
}

// accountClaims returns the fleet's account; the caller holds the lock, unless nothing runs yet.
func (a *authority) accountClaims() (*jwt.AccountClaims, error) {
	// The broker rejects tokens from before this time, and clocks may step back.
	forGood := time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	claims := jwt.NewAccountClaims(a.account)
	claims.Name = "fleet"
	for _, s := range []*signer{a.agents.Load(), a.proxies.Load(), a.servers.Load()} {
		keys, err := s.keys()
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			if s.rights == nil {
				claims.SigningKeys.Add(key)
				continue
			}
			scope := jwt.NewUserScope()
			scope.Key, scope.Role, scope.Template = key, s.role, *s.rights
			claims.SigningKeys.AddScopedSigner(scope)
		}
	}
	for key := range a.revoked {
		claims.RevokeAt(key, forGood)
	}
	var faults jwt.ValidationResults
	claims.Validate(&faults)
	if errs := faults.Errors(); len(errs) > 0 {
		return nil, fmt.Errorf("cannot sign account: %w", errors.Join(errs...))
	}
	return claims, nil
}

// accountToken returns the account's JWT, signed by the root key of external brokers.
func (a *authority) accountToken() (string, error) {
	claims, err := a.accountClaims()
	if err != nil {
		return "", err
	}
	return signedBy(a.servers.Load().key, claims)
}

// systemToken returns the JWT of the system account, whose users the servers' signer issues.
func (a *authority) systemToken() (string, error) {
	keys, err := a.servers.Load().keys()
	if err != nil {
		return "", err
	}
	claims := jwt.NewAccountClaims(a.system)
	claims.Name = "system"
	claims.SigningKeys.Add(keys...)
	return signedBy(a.servers.Load().key, claims)
}

// keys returns the public keys of all valid signers of a role, that of the issuer first.
func (s *signer) keys() ([]string, error) {
	public, err := s.key.PublicKey()
	return append([]string{public}, s.others...), err
}

// issue returns a user JWT of a role for the holder of a key in an area.
func (a *authority) issue(s *signer, public string, area int) (string, error) {
	if !nkeys.IsValidPublicUserKey(public) {
		return "", fmt.Errorf("cannot issue %s credential: %q is not a public user nkey", s.role, public)
	}
	claims := jwt.NewUserClaims(public)
	claims.Name = s.role
	claims.IssuerAccount = a.account
	claims.Tags.Add(areaTag + strconv.Itoa(area))
	claims.SetScoped(true)
	token, err := claims.Encode(s.key)
	if err != nil {
		return "", fmt.Errorf("cannot issue %s credential: %w", s.role, err)
	}
	return token, nil
}

// serverUser is the user of a running server in an account. Its key is in memory only. A new inbox at each start keeps
// late replies from the wrong request.
type serverUser struct {
	authority *authority
	key       nkeys.KeyPair
	claims    *jwt.UserClaims

	mu   sync.Mutex
	last string // the last JWT
}

// newServerUser makes a user of an account. It may only publish to the subjects and receive the answers, or has all
// rights if there are no subjects.
func (a *authority) newServerUser(account string, publish ...string) (*serverUser, error) {
	key, err := nkeys.CreateUser()
	if err != nil {
		return nil, err
	}
	public, err := key.PublicKey()
	if err != nil {
		return nil, err
	}
	claims := jwt.NewUserClaims(public)
	claims.Name, claims.IssuerAccount = "server", account
	if len(publish) > 0 {
		claims.Pub.Allow.Add(publish...)
		claims.Sub.Allow.Add(fabric.InboxPrefix(fabric.ServerArea, public) + ".>")
	}
	claims.AllowedConnectionTypes = jwt.StringList{jwt.ConnectionTypeStandard, jwt.ConnectionTypeInProcess}
	u := &serverUser{authority: a, key: key, claims: claims}
	return u, u.sign()
}

// sign makes the JWT anew, by the present signer.
func (u *serverUser) sign() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	token, err := u.claims.Encode(u.authority.servers.Load().key)
	if err != nil {
		return fmt.Errorf("cannot sign user of server: %w", err)
	}
	u.last = token
	return nil
}

// token returns the JWT for the next connect.
func (u *serverUser) token() string {
	_ = u.sign() // a key in memory has signed before: it can sign again
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.last
}

func (u *serverUser) identity() fabric.Identity {
	return fabric.Identity{JWT: u.token(), Key: u.key, Area: fabric.ServerArea}
}

// The files of the names of accounts.
const (
	accountFile = "account.pub"
	systemFile  = "system.pub"
)

// AccountName returns the name of the account in a directory, and makes it if there is none. It names the fleet.
func AccountName(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("cannot read account: %w", err)
	}
	return loadOrCreateName(filepath.Join(dir, accountFile))
}

// loadOrCreateName returns the name of an account, which is a public nkey. Nobody has the private half: the signers of
// the account are other keys, because its name cannot be replaced. Concurrent callers get the same name.
func loadOrCreateName(path string) (string, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := createName(path); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("cannot create %s: %w", path, err)
		}
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return "", fmt.Errorf("cannot read account: %w", err)
	}
	name := strings.TrimSpace(string(data))
	if !nkeys.IsValidPublicAccountKey(name) {
		return "", fmt.Errorf("%s is damaged: expected the public nkey of an account", path)
	}
	return name, nil
}

func createName(path string) error {
	key, err := nkeys.CreateAccount()
	if err != nil {
		return err
	}
	defer key.Wipe()
	name, err := key.PublicKey()
	if err != nil {
		return err
	}
	return durable.Create(path, []byte(name+"\n"), 0o600)
}
