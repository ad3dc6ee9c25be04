package broker

import (
	"fmt"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
)

// Trust is what a broker knows users by: the JWTs of the operator and of the account. It holds no secret. The account's says who was
// revoked and what each role may do, so it changes; the operator's vouches for it.
type Trust struct {
	Operator, Account string
}

// options returns the part of a server's options that says whom to trust.
func (t Trust) options() (*server.Options, error) {
	operator, err := jwt.DecodeOperatorClaims(t.Operator)
	if err != nil {
		return nil, fmt.Errorf("cannot read operator: %w", err)
	}
	account, err := t.account()
	if err != nil {
		return nil, err
	}
	accounts := &server.MemAccResolver{}
	if err := accounts.Store(account.Subject, t.Account); err != nil {
		return nil, err
	}
	return &server.Options{TrustedOperators: []*jwt.OperatorClaims{operator}, AccountResolver: accounts}, nil
}

// account reads the account, which the operator must have signed.
func (t Trust) account() (*jwt.AccountClaims, error) {
	operator, err := jwt.DecodeOperatorClaims(t.Operator)
	if err != nil {
		return nil, fmt.Errorf("cannot read operator: %w", err)
	}
	account, err := jwt.DecodeAccountClaims(t.Account)
	if err != nil {
		return nil, fmt.Errorf("cannot read account: %w", err)
	}
	if !operator.DidSign(account) {
		return nil, fmt.Errorf("cannot use account: the operator has not signed it")
	}
	return account, nil
}

// apply tells a running server of an account that has changed: whom it no longer lets in is cut off before apply returns.
func (t Trust) apply(srv *server.Server) error {
	claims, err := t.account()
	if err != nil {
		return err
	}
	if err := srv.AccountResolver().Store(claims.Subject, t.Account); err != nil {
		return fmt.Errorf("cannot store account: %w", err)
	}
	account, err := srv.LookupAccount(claims.Subject)
	if err != nil {
		return fmt.Errorf("cannot find account: %w", err)
	}
	srv.UpdateAccountClaims(account, claims)
	return nil
}
