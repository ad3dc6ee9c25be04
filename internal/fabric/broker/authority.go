package broker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

// authority is the chain of trust: the operator vouches for the account, the account for its users, and the agent signer
// for agents only. Only keys are on disk; JWTs of operator and account are made anew at each start.
type authority struct {
	operator, account, agentSigner nkeys.KeyPair
	accountID                      string
	agentRights                    jwt.UserPermissionLimits

	mu      sync.Mutex      // of what follows, once the server runs
	revoked map[string]bool // by public key
}

func openAuthority(dir string, publish, subscribe []string) (*authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, err
	}
	a := &authority{agentRights: agentRights(publish, subscribe), revoked: map[string]bool{}}
	for _, k := range []struct {
		key  *nkeys.KeyPair
		file string
		kind nkeys.PrefixByte
	}{
		{&a.operator, "operator.nk", nkeys.PrefixByteOperator},
		{&a.account, "account.nk", nkeys.PrefixByteAccount},
		{&a.agentSigner, "agent-signer.nk", nkeys.PrefixByteAccount},
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
func agentRights(publish, subscribe []string) jwt.UserPermissionLimits {
	inbox := fabric.InboxPrefix("{{subject()}}") + ".>"
	return jwt.UserPermissionLimits{
		Permissions: jwt.Permissions{
			Pub:  jwt.Permission{Allow: append(jwt.StringList{}, publish...)},
			Sub:  jwt.Permission{Allow: append(jwt.StringList{inbox}, subscribe...)},
			Resp: &jwt.ResponsePermission{MaxMsgs: answers, Expires: answerWithin},
		},
		Limits: jwt.Limits{
			NatsLimits: jwt.NatsLimits{Subs: agentSubscriptions, Data: jwt.NoLimit, Payload: jwt.NoLimit},
		},
		AllowedConnectionTypes: jwt.StringList{jwt.ConnectionTypeStandard},
	}
}

// options returns the part of the server's options that says whom to trust.
func (a *authority) options() (*server.Options, error) {
	operator, err := a.operatorClaims()
	if err != nil {
		return nil, err
	}
	account, err := a.accountToken()
	if err != nil {
		return nil, err
	}
	accounts := &server.MemAccResolver{}
	if err := accounts.Store(a.accountID, account); err != nil {
		return nil, err
	}
	return &server.Options{TrustedOperators: []*jwt.OperatorClaims{operator}, AccountResolver: accounts}, nil
}

// revokeAll is for before the server runs.
func (a *authority) revokeAll(agents []string) {
	for _, key := range agents {
		a.revoked[key] = true
	}
}

func (a *authority) operatorClaims() (*jwt.OperatorClaims, error) {
	id, err := a.operator.PublicKey()
	if err != nil {
		return nil, err
	}
	claims := jwt.NewOperatorClaims(id)
	claims.Name = "drover"
	token, err := claims.Encode(a.operator)
	if err != nil {
		return nil, fmt.Errorf("cannot sign operator: %w", err)
	}
	return jwt.DecodeOperatorClaims(token)
}

func (a *authority) accountToken() (string, error) {
	// Every token that was issued before this moment is refused, and clocks may step back.
	forGood := time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	signer, err := a.agentSigner.PublicKey()
	if err != nil {
		return "", err
	}
	scope := jwt.NewUserScope()
	scope.Key = signer
	scope.Role = "agent"
	scope.Template = a.agentRights
	claims := jwt.NewAccountClaims(a.accountID)
	claims.Name = "fleet"
	claims.SigningKeys.AddScopedSigner(scope)
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

func (a *authority) issueAgent(public string) (string, error) {
	if !nkeys.IsValidPublicUserKey(public) {
		return "", fmt.Errorf("cannot issue agent credential: %q is no public user nkey", public)
	}
	claims := jwt.NewUserClaims(public)
	claims.Name = "agent"
	claims.IssuerAccount = a.accountID
	claims.SetScoped(true)
	token, err := claims.Encode(a.agentSigner)
	if err != nil {
		return "", fmt.Errorf("cannot issue agent credential: %w", err)
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
	return fabric.Identity{JWT: token, Key: key}, nil
}
