package broker

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
)

// Trust is how a broker verifies users: the JWTs of the operator and of the account. It holds no secret. The
// account's JWT lists the revoked keys and the rights of each role, so it changes; the operator signs it.
type Trust struct {
	Operator, Account string
}

// Digest returns a digest of the account's contents: equal for equal contents, whenever they were signed.
func (t Trust) Digest() (string, error) {
	account, err := t.account()
	if err != nil {
		return "", err
	}
	account.ID, account.IssuedAt = "", 0
	text, err := json.Marshal(account)
	if err != nil {
		return "", fmt.Errorf("cannot encode account: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16]), nil
}

// SameOperator reports whether the same operator signs the other account, so that it may replace this one.
func (t Trust) SameOperator(other Trust) bool {
	own, err := jwt.DecodeOperatorClaims(t.Operator)
	if err != nil {
		return false
	}
	its, err := jwt.DecodeOperatorClaims(other.Operator)
	if err != nil || own.Subject != its.Subject {
		return false
	}
	_, err = other.account()
	return err == nil
}

// SameUser reports whether two user JWTs have the same key, area and signer.
func SameUser(a, b string) bool {
	one, err := jwt.DecodeUserClaims(a)
	if err != nil {
		return false
	}
	other, err := jwt.DecodeUserClaims(b)
	return err == nil && one.Subject == other.Subject && one.Issuer == other.Issuer &&
		slices.Equal(one.Tags, other.Tags)
}

// options returns the part of a server's options that configures trust.
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

// apply applies a changed account to a running server: clients that it no longer accepts are disconnected before
// apply returns.
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

// IssuerOf returns the public key of the issuer of a user JWT; empty if the JWT is not valid.
func IssuerOf(token string) string {
	claims, err := jwt.DecodeUserClaims(token)
	if err != nil {
		return ""
	}
	return claims.Issuer
}
