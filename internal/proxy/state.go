package proxy

import (
	"crypto"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/nats-io/nkeys"

	"drover/internal/durable"
	"drover/internal/fabric"
	"drover/internal/frame"
	"drover/internal/pki"
	"drover/internal/wire"
)

// The files of a proxy, in its directory.
const (
	keyFile       = "proxy.nk"
	sealingFile   = "sealing.nkey"
	tlsKeyFile    = "tls.key"
	enrolmentFile = "enrolment.json"
	relayDir      = "relay"
)

// identity is the keys that a proxy made itself. They never leave the proxy.
type identity struct {
	key    nkeys.KeyPair
	public string
	// sealing are the keys of sealed messages.
	sealing *frame.Keys
	tls     crypto.Signer
}

// ownIdentity reads the keys from a directory (mode 0700), or makes them.
func ownIdentity(dir string) (identity, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return identity{}, fmt.Errorf("cannot create proxy directory: %w", err)
	}
	key, err := fabric.LoadOrCreateKey(filepath.Join(dir, keyFile), nkeys.PrefixByteUser)
	if err != nil {
		return identity{}, err
	}
	public, err := key.PublicKey()
	if err != nil {
		return identity{}, fmt.Errorf("cannot read proxy key: %w", err)
	}
	sealing, err := fabric.LoadOrCreateSealing(filepath.Join(dir, sealingFile), public)
	if err != nil {
		return identity{}, err
	}
	signer, err := pki.ProxyKey(filepath.Join(dir, tlsKeyFile))
	return identity{key: key, public: public, sealing: sealing, tls: signer}, err
}

// fabric is the proxy's identity for a broker.
func (id identity) fabric(e wire.ProxyEnrolment) fabric.Identity {
	return fabric.Identity{JWT: e.JWT, Key: id.key, Area: strconv.Itoa(e.Area)}
}

// certificate returns the proxy's certificate with its key.
func (id identity) certificate(e wire.ProxyEnrolment) (*tls.Certificate, error) {
	cert := &tls.Certificate{PrivateKey: id.tls}
	for block, rest := pem.Decode([]byte(e.Certificate)); block != nil; block, rest = pem.Decode(rest) {
		cert.Certificate = append(cert.Certificate, block.Bytes)
	}
	if len(cert.Certificate) == 0 {
		return nil, errors.New("cannot read certificate: it is not in PEM")
	}
	return checked(cert)
}

// load reads the enrolment.
func load(dir string) (wire.ProxyEnrolment, error) {
	var e wire.ProxyEnrolment
	path := filepath.Join(dir, enrolmentFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return e, fmt.Errorf("the proxy in %s has not joined a server: run 'drover proxy join'", dir)
	}
	if err != nil {
		return e, fmt.Errorf("cannot read enrolment: %w", err)
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return e, fmt.Errorf("cannot read enrolment %s: %w", path, err)
	}
	return e, nil
}

// save writes the enrolment, whole or not at all.
func save(dir string, e wire.ProxyEnrolment) error {
	data, err := json.MarshalIndent(e, "", "  ") //nolint:gosec // without the private key the tokens are not secrets
	if err != nil {
		return fmt.Errorf("cannot encode enrolment: %w", err)
	}
	if err := durable.Replace(filepath.Join(dir, enrolmentFile), data, 0o600); err != nil {
		return fmt.Errorf("cannot write enrolment: %w", err)
	}
	return nil
}
