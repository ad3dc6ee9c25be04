package broker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"drover/internal/fabric"
)

const (
	agentSubscriptions = 64              // at one time, of one agent
	answerWithin       = 2 * time.Minute // after that an agent may no longer answer a request
	answers            = 4               // to one request: the broker counts a further delivery of it to the same agent as one
)

// Placeholders of the templates that the broker fills in for whoever connects.
const (
	ownArea = "{{tag(area)}}"
	ownKey  = "{{subject()}}"
	areaTag = "area:"
)

// authority is the chain of trust: the operator vouches for the account, the account for its users, and each scoped signer for users of
// one role only. Only keys are on disk; JWTs of operator and account are made anew at each start.
type authority struct {
	operator, account nkeys.KeyPair
	accountID         string
	agents, proxies   signer

	mu      sync.Mutex      // of what follows, once the server runs
	revoked map[string]bool // by public key
}

// signer issues users of one role, whose rights are looked up by the signing key at each connect.
type signer struct {
	role   string
	key    nkeys.KeyPair
	rights jwt.UserPermissionLimits
}

func openAuthority(dir string, agents, proxies Rights) (*authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, err
	}
	a := &authority{
		agents:  signer{role: "agent", rights: agentRights(agents)},
		proxies: signer{role: "proxy", rights: proxyRights(proxies)},
		revoked: map[string]bool{},
	}
	for _, k := range []struct {
		key  *nkeys.KeyPair
		file string
		kind nkeys.PrefixByte
	}{
		{&a.operator, "operator.nk", nkeys.PrefixByteOperator},
		{&a.account, "account.nk", nkeys.PrefixByteAccount},
		{&a.agents.key, "agent-signer.nk", nkeys.PrefixByteAccount},
		{&a.proxies.key, "proxy-signer.nk", nkeys.PrefixByteAccount},
	} {
		var err error
		if *k.key, err = fabric.LoadOrCreateKey(filepath.Join(dir, k.file), k.kind); err != nil {
			return nil, err
		}
	}
	var err error
	a.accountID, err = a.account.PublicKey()
	return a, err
}

// agentRights is the template that the broker fills in for each agent.
func agentRights(r Rights) jwt.UserPermissionLimits {
	return jwt.UserPermissionLimits{
		Permissions: jwt.Permissions{
			Pub:  jwt.Permission{Allow: append(jwt.StringList{}, r.Publish...)},
			Sub:  jwt.Permission{Allow: append(jwt.StringList{fabric.InboxPrefix(ownArea, ownKey) + ".>"}, r.Subscribe...)},
			Resp: &jwt.ResponsePermission{MaxMsgs: answers, Expires: answerWithin},
		},
		Limits: jwt.Limits{
			NatsLimits: jwt.NatsLimits{Subs: agentSubscriptions, Data: jwt.NoLimit, Payload: jwt.NoLimit},
		},
		AllowedConnectionTypes: jwt.StringList{jwt.ConnectionTypeStandard},
	}
}

// proxyRights is the template that the broker fills in for each proxy. It carries the requests and the replies of a whole area, and so
// may answer the servers at any time.
func proxyRights(r Rights) jwt.UserPermissionLimits {
	inboxes := func(area string) string { return fabric.InboxPrefix(area, ">") }
	return jwt.UserPermissionLimits{
		Permissions: jwt.Permissions{
			Pub: jwt.Permission{Allow: append(jwt.StringList{inboxes(fabric.ServerArea)}, r.Publish...)},
			Sub: jwt.Permission{Allow: append(jwt.StringList{inboxes(ownArea)}, r.Subscribe...)},
		},
		Limits: jwt.Limits{
			NatsLimits: jwt.NatsLimits{Subs: jwt.NoLimit, Data: jwt.NoLimit, Payload: jwt.NoLimit},
		},
		AllowedConnectionTypes: jwt.StringList{jwt.ConnectionTypeStandard, jwt.ConnectionTypeLeafnode},
	}
}

// options returns the part of the server's options that says whom to trust.
func (a *authority) options() (*server.Options, error) {
	trust, err := a.trust()
	if err != nil {
		return nil, err
	}
	return trust.options()
}

// trust returns what another broker needs to let in the same users.
func (a *authority) trust() (Trust, error) {
	operator, err := a.operatorToken()
	if err != nil {
		return Trust{}, err
	}
	account, err := a.accountToken()
	return Trust{Operator: operator, Account: account}, err
}

// revokeAll is for before the server runs.
func (a *authority) revokeAll(keys []string) {
	for _, key := range keys {
		a.revoked[key] = true
	}
}

func (a *authority) isRevoked(key string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.revoked[key]
}

func (a *authority) operatorToken() (string, error) {
	id, err := a.operator.PublicKey()
	if err != nil {
		return "", err
	}
	claims := jwt.NewOperatorClaims(id)
	claims.Name = "drover"
	token, err := claims.Encode(a.operator)
	if err != nil {
		return "", fmt.Errorf("cannot sign operator: %w", err)
	}
	return token, nil
}

func (a *authority) accountToken() (string, error) {
	// Every token that was issued before this moment is refused, and clocks may step back.
	forGood := time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	claims := jwt.NewAccountClaims(a.accountID)
	claims.Name = "fleet"
	for _, s := range []signer{a.agents, a.proxies} {
		scope := jwt.NewUserScope()
		var err error
		if scope.Key, err = s.key.PublicKey(); err != nil {
			return "", err
		}
		scope.Role = s.role
		scope.Template = s.rights
		claims.SigningKeys.AddScopedSigner(scope)
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
func (a *authority) issue(s signer, public string, area int) (string, error) {
	if !nkeys.IsValidPublicUserKey(public) {
		return "", fmt.Errorf("cannot issue %s credential: %q is no public user nkey", s.role, public)
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

// newServer makes a user with every right in the account. Its key is in memory only: who can read the account key could
// make one anyway, and a new inbox at each start keeps late replies from reaching the wrong request.
func (a *authority) newServer() (fabric.Identity, error) {
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
	claims.AllowedConnectionTypes = jwt.StringList{jwt.ConnectionTypeStandard}
	token, err := claims.Encode(a.account)
	if err != nil {
		return fabric.Identity{}, fmt.Errorf("cannot sign server user: %w", err)
	}
	return fabric.Identity{JWT: token, Key: key, Area: fabric.ServerArea}, nil
}
