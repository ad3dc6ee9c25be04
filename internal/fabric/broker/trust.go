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

// Trust is what a broker knows users by: the JWTs of the operator and of the account. It holds no secret. The account's says who was
// revoked and what each role may do, so it changes; the operator's vouches for it.
type Trust struct {
	Operator, Account string
}

// Digest returns a name for what the account says: the same for the same contents, whenever they were signed.
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

// SameOperator reports whether the other one is vouched for by the same operator, and may take its place.
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

// SameUser reports whether two user JWTs are for the same key, area and signer.
func SameUser(a, b string) bool {
	one, err := jwt.DecodeUserClaims(a)
	if err != nil {
		return false
	}
	other, err := jwt.DecodeUserClaims(b)
	return err == nil && one.Subject == other.Subject && one.Issuer == other.Issuer && slices.Equal(one.Tags, other.Tags)
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

// IssuerOf returns the public key that has issued a user JWT; empty where the JWT is none that counts.
func IssuerOf(token string) string {
	claims, err := jwt.DecodeUserClaims(token)
	if err != nil {
		return ""
	}
	return claims.Issuer
}
