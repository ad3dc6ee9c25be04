package broker

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"
)

// A broker of drover verifies users by the account of the fleet, which reaches it by a sealed message or from its own
// process. NATS also wants a root key, called operator there, that has signed the account. The broker makes its own
// root key at each start. External brokers know the root key from their configuration instead.
type trust struct{ rootKey nkeys.KeyPair }

func newTrust() (trust, error) {
	operator, err := nkeys.CreateOperator()
	return trust{operator}, err
}

// AccountDigest returns a digest of the contents of an account's JWT: equal for equal contents, whenever and by
// whomever they were signed.
func AccountDigest(token string) (string, error) {
	account, err := jwt.DecodeAccountClaims(token)
	if err != nil {
		return "", fmt.Errorf("cannot read account: %w", err)
	}
	account.ID, account.Issuer, account.IssuedAt = "", "", 0
	text, err := json.Marshal(account)
	if err != nil {
		return "", fmt.Errorf("cannot encode account: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16]), nil
}

// NameOf returns the name of the account of a JWT; empty if the JWT is not valid.
func NameOf(token string) string {
	account, err := jwt.DecodeAccountClaims(token)
	if err != nil {
		return ""
	}
	return account.Subject
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
func (t trust) options(account *jwt.AccountClaims) (*server.Options, error) {
	id, err := t.rootKey.PublicKey()
	if err != nil {
		return nil, err
	}
	operator := jwt.NewOperatorClaims(id)
	operator.Name = "drover"
	if _, err := operator.Encode(t.rootKey); err != nil {
		return nil, fmt.Errorf("cannot sign operator: %w", err)
	}
	token, err := account.Encode(t.rootKey)
	if err != nil {
		return nil, fmt.Errorf("cannot sign account: %w", err)
	}
	accounts := &server.MemAccResolver{}
	if err := accounts.Store(account.Subject, token); err != nil {
		return nil, err
	}
	return &server.Options{TrustedOperators: []*jwt.OperatorClaims{operator}, AccountResolver: accounts}, nil
}

// apply applies a changed account to a running server: clients that it no longer accepts are disconnected before
// apply returns.
func (t trust) apply(account *jwt.AccountClaims, srv *server.Server) error {
	token, err := account.Encode(t.rootKey) // it also sets the issuer of account
	if err != nil {
		return fmt.Errorf("cannot sign account: %w", err)
	}
	if err := srv.AccountResolver().Store(account.Subject, token); err != nil {
		return fmt.Errorf("cannot store account: %w", err)
	}
	running, err := srv.LookupAccount(account.Subject)
	if err != nil {
		return fmt.Errorf("cannot find account: %w", err)
	}
	srv.UpdateAccountClaims(running, account)
	return nil
}

// rootKeyOf returns the root key of external brokers: the key of the signer in the form of an operator of NATS.
func rootKeyOf(signer nkeys.KeyPair) (nkeys.KeyPair, error) {
	seed, err := signer.Seed()
	if err != nil {
		return nil, fmt.Errorf("cannot read key of operator: %w", err)
	}
	_, raw, err := nkeys.DecodeSeed(seed)
	if err != nil {
		return nil, fmt.Errorf("cannot read key of operator: %w", err)
	}
	defer clear(raw)
	return nkeys.FromRawSeed(nkeys.PrefixByteOperator, raw)
}

// signedBy returns the JWT of an account for external brokers, by the root key of a signer.
func signedBy(signer nkeys.KeyPair, account *jwt.AccountClaims) (string, error) {
	operator, err := rootKeyOf(signer)
	if err != nil {
		return "", err
	}
	token, err := account.Encode(operator)
	if err != nil {
		return "", fmt.Errorf("cannot sign account: %w", err)
	}
	return token, nil
}

// rootKeyToken returns the JWT of a signer's root key.
func rootKeyToken(signer nkeys.KeyPair, system string) (string, error) {
	operator, err := rootKeyOf(signer)
	if err != nil {
		return "", err
	}
	id, err := operator.PublicKey()
	if err != nil {
		return "", err
	}
	claims := jwt.NewOperatorClaims(id)
	claims.Name, claims.SystemAccount = "drover", system
	token, err := claims.Encode(operator)
	if err != nil {
		return "", fmt.Errorf("cannot sign operator: %w", err)
	}
	return token, nil
}

// IssuerOf returns the public key of the issuer of a user JWT; empty if the JWT is not valid.
func IssuerOf(token string) string {
	claims, err := jwt.DecodeUserClaims(token)
	if err != nil {
		return ""
	}
	return claims.Issuer
}
