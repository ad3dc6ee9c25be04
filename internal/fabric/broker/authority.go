package broker

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

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

// authority is the chain of trust: the operator signs the account, the account signs its users, and each scoped
// signer signs users of one role only. Only keys are on disk; each start makes new JWTs of operator and account.
type authority struct {
	operator, account nkeys.KeyPair
	// system is the key of the system account, which only external brokers have. It is always made with the other
	// keys, so that a copy of the keys on another server holds it too.
	system    nkeys.KeyPair
	accountID string
	// agents and proxies issue the credentials of each role.
	agents, proxies atomic.Pointer[signer]

	refreshing sync.Mutex // held from the read of the revoked keys until they are applied

	mu      sync.Mutex      // protects the next fields, once the server runs
	revoked map[string]bool // by public key
	// meanwhile holds the keys that were revoked or restored since a reload began, because the reload may miss them;
	// nil without a reload.
	meanwhile map[string]bool
}

// signer issues users of one role. At each connect the signing key determines the rights.
type signer struct {
	role   string
	key    nkeys.KeyPair
	rights jwt.UserPermissionLimits
	// others are the public keys of further valid signers: the former keys, and the next key.
	others []string
}

// Signers are the keys that issue the credentials of each role.
type Signers struct{ Agents, Proxies Issuers }

// Issuers are the keys that issue the credentials of one role, during a rotation too.
type Issuers struct {
	// Issue is the key that issues them from now on; nil is the key in the directory.
	Issue nkeys.KeyPair
	// Others are the public keys of further valid issuers.
	Others []string
}

// open returns the issuer of a role's credentials.
func (s Issuers) open(dir, role string, rights jwt.UserPermissionLimits) (*signer, error) {
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
	for _, k := range []struct {
		key  *nkeys.KeyPair
		file string
		kind nkeys.PrefixByte
	}{
		{&a.operator, "operator.nk", nkeys.PrefixByteOperator},
		{&a.account, "account.nk", nkeys.PrefixByteAccount},
		{&a.system, "system.nk", nkeys.PrefixByteAccount},
	} {
		var err error
		if *k.key, err = fabric.LoadOrCreateKey(filepath.Join(dir, k.file), k.kind); err != nil {
			return nil, err
		}
	}
	agent, err := signers.Agents.open(dir, "agent", agentRights(agents))
	if err != nil {
		return nil, err
	}
	proxy, err := signers.Proxies.open(dir, "proxy", proxyRights(proxies))
	if err != nil {
		return nil, err
	}
	a.agents.Store(agent)
	a.proxies.Store(proxy)
	a.accountID, err = a.account.PublicKey()
	return a, err
}

// setSigners replaces the keys that issue credentials; the caller holds the lock, and announces the account.
func (a *authority) setSigners(s Signers) {
	for role, by := range map[*atomic.Pointer[signer]]Issuers{&a.agents: s.Agents, &a.proxies: s.Proxies} {
		made := *role.Load()
		made.key, made.others = by.Issue, by.Others
		role.Store(&made)
	}
}

// agentRights returns the template that the broker fills in for each agent.
func agentRights(r Rights) jwt.UserPermissionLimits {
	return jwt.UserPermissionLimits{
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
func proxyRights(r Rights) jwt.UserPermissionLimits {
	inboxes := func(area string) string { return fabric.InboxPrefix(area, ">") }
	return jwt.UserPermissionLimits{
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

// options returns the part of the server's options that configures trust.
func (a *authority) options() (*server.Options, error) {
	trust, err := a.trust()
	if err != nil {
		return nil, err
	}
	return trust.options()
}

// trust returns what another broker needs to accept the same users.
func (a *authority) trust() (Trust, error) {
	operator, err := a.operatorToken("")
	if err != nil {
		return Trust{}, err
	}
	account, err := a.accountToken()
	return Trust{Operator: operator, Account: account}, err
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

// operatorToken returns the operator's JWT, which may name a system account.
func (a *authority) operatorToken(system string) (string, error) {
	id, err := a.operator.PublicKey()
	if err != nil {
		return "", err
	}
	claims := jwt.NewOperatorClaims(id)
	claims.Name, claims.SystemAccount = "drover", system
	token, err := claims.Encode(a.operator)
	if err != nil {
		return "", fmt.Errorf("cannot sign operator: %w", err)
	}
	return token, nil
}

func (a *authority) accountToken() (string, error) {
	// The broker rejects tokens from before this time, and clocks may step back.
	forGood := time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	claims := jwt.NewAccountClaims(a.accountID)
	claims.Name = "fleet"
	for _, s := range []*signer{a.agents.Load(), a.proxies.Load()} {
		public, err := s.key.PublicKey()
		if err != nil {
			return "", err
		}
		for _, key := range append([]string{public}, s.others...) {
			scope := jwt.NewUserScope()
			scope.Key, scope.Role, scope.Template = key, s.role, s.rights
			claims.SigningKeys.AddScopedSigner(scope)
		}
	}
	for key := range a.revoked {
		claims.RevokeAt(key, forGood)
	}
	var faults jwt.ValidationResults
	claims.Validate(&faults)
	if errs := faults.Errors(); len(errs) > 0 {
		return "", fmt.Errorf("cannot sign account: %w", errors.Join(errs...))
	}
	token, err := claims.Encode(a.operator)
	if err != nil {
		return "", fmt.Errorf("cannot sign account: %w", err)
	}
	return token, nil
}

// issue returns a user JWT of a role for the holder of a key in an area.
func (a *authority) issue(s *signer, public string, area int) (string, error) {
	if !nkeys.IsValidPublicUserKey(public) {
		return "", fmt.Errorf("cannot issue %s credential: %q is not a public user nkey", s.role, public)
	}
	claims := jwt.NewUserClaims(public)
	claims.Name = s.role
	claims.IssuerAccount = a.accountID
	claims.Tags.Add(areaTag + strconv.Itoa(area))
	claims.SetScoped(true)
	token, err := claims.Encode(s.key)
	if err != nil {
		return "", fmt.Errorf("cannot issue %s credential: %w", s.role, err)
	}
	return token, nil
}

// newServer makes a user with every right in the account. Its key is in memory only: a reader of the account key
// could make such a user anyway. A new inbox at each start keeps late replies from the wrong request.
func (a *authority) newServer() (fabric.Identity, error) {
	return newServerUser(a.account)
}

// newServerUser makes a user of an account for a server. It may only publish to the subjects and receive the answers,
// or has all rights if there are no subjects.
func newServerUser(account nkeys.KeyPair, publish ...string) (fabric.Identity, error) {
	key, err := nkeys.CreateUser()
	if err != nil {
		return fabric.Identity{}, err
	}
	public, err := key.PublicKey()
	if err != nil {
		return fabric.Identity{}, err
	}
	claims := jwt.NewUserClaims(public)
	claims.Name = "server"
	if len(publish) > 0 {
		claims.Pub.Allow.Add(publish...)
		claims.Sub.Allow.Add(fabric.InboxPrefix(fabric.ServerArea, public) + ".>")
	}
	claims.AllowedConnectionTypes = jwt.StringList{jwt.ConnectionTypeStandard, jwt.ConnectionTypeInProcess}
	token, err := claims.Encode(account)
	if err != nil {
		return fabric.Identity{}, fmt.Errorf("cannot sign user of server: %w", err)
	}
	return fabric.Identity{JWT: token, Key: key, Area: fabric.ServerArea}, nil
}

// AccountKey returns the public key of the account in a directory, and makes the key if there is none. The public
// key names the fleet.
func AccountKey(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("cannot read account key: %w", err)
	}
	key, err := fabric.LoadOrCreateKey(filepath.Join(dir, "account.nk"), nkeys.PrefixByteAccount)
	if err != nil {
		return "", err
	}
	return key.PublicKey()
}

// FleetSecret returns a secret that only holders of the keys in a directory can derive: the servers of a fleet. It
// protects the messages between the servers.
func FleetSecret(dir, purpose string) ([]byte, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot read account key: %w", err)
	}
	key, err := fabric.LoadOrCreateKey(filepath.Join(dir, "account.nk"), nkeys.PrefixByteAccount)
	if err != nil {
		return nil, err
	}
	seed, err := key.Seed()
	if err != nil {
		return nil, fmt.Errorf("cannot read account key: %w", err)
	}
	mac := hmac.New(sha256.New, seed)
	_, _ = mac.Write([]byte(purpose)) // it never fails
	return mac.Sum(nil), nil
}
