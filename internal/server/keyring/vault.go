package keyring

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"errors"
	"path/filepath"

	"github.com/nats-io/nkeys"

	"drover/internal/fabric"
)

// Vault seals texts for the database. Only servers of the fleet open them. It uses AES-256-GCM with random nonces.
type Vault struct{ ciphers []cipher.AEAD }

// OpenVault returns a vault of secrets of 32 bytes each (Ring.Secrets): it seals with the first one.
func OpenVault(secrets func() ([][]byte, error)) (Vault, error) {
	var v Vault
	keys, err := secrets()
	if err != nil {
		return v, err
	}
	for _, key := range keys {
		block, err := aes.NewCipher(key)
		if err != nil {
			return v, err
		}
		made, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return v, err
		}
		v.ciphers = append(v.ciphers, made)
	}
	if len(v.ciphers) == 0 {
		return v, errors.New("no sealing key on this server")
	}
	return v, nil
}

// Seal returns the sealed form of a text, which opens by the same name only.
func (v Vault) Seal(text []byte, name string) string {
	//nolint:gosec // this AEAD creates a random nonce itself
	return base64.RawStdEncoding.EncodeToString(v.ciphers[0].Seal(nil, nil, text, []byte(name)))
}

// Open returns a sealed text. former says that a former secret has sealed it. Open fails if no secret opens the text.
func (v Vault) Open(sealed, name string) (text []byte, former bool, err error) {
	data, err := base64.RawStdEncoding.DecodeString(sealed)
	if err != nil {
		return nil, false, errors.New("not a sealed text")
	}
	for i, c := range v.ciphers {
		if text, err = c.Open(nil, nil, data, []byte(name)); err == nil {
			return text, i > 0, nil
		}
	}
	return nil, false, errors.New("sealed by a key that is not on this server")
}

// HashKey returns the key that hashes the secrets of apps. It makes the key if there is none in dir, the directory of
// the server.
func HashKey(dir string) ([]byte, error) {
	key, err := fabric.LoadOrCreateKey(filepath.Join(dir, "apps.nkey"), nkeys.PrefixByteAccount)
	if err != nil {
		return nil, err
	}
	return key.Seed()
}
