package call

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
)

// cursors seals the places where pages end, because a place may name a row that the caller may not see. All servers of
// a fleet have the same key.
type cursors struct{ aead cipher.AEAD }

// newCursors returns cursors with a key that is derived from a secret of the fleet.
func newCursors(secret []byte) *cursors {
	key, err := hkdf.Key(sha256.New, secret, nil, "drover cursor", 32)
	if err != nil {
		panic(err) // not reached: HKDF supports this key length
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // not reached: the key has a length of AES
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // not reached: AES has its block size
	}
	return &cursors{aead}
}

// seal returns a place in a list as a cursor that is valid for that list only.
func (c *cursors) seal(list string, place any) string {
	// a plain struct always encodes
	text, _ := json.Marshal(place)
	//nolint:gosec // this AEAD creates a random nonce itself
	return base64.RawURLEncoding.EncodeToString(c.aead.Seal(nil, nil, text, []byte(list)))
}

// open reads a cursor of a list into the place, and fails if the cursor belongs to another list.
func (c *cursors) open(list, cursor string, place any) error {
	data, err := base64.RawURLEncoding.DecodeString(cursor)
	if err == nil {
		data, err = c.aead.Open(nil, nil, data, []byte(list))
	}
	if err == nil {
		err = json.Unmarshal(data, place)
	}
	if err != nil {
		return errors.New("expected a value of next_cursor")
	}
	return nil
}

func someSecret() []byte {
	secret := make([]byte, 32)
	rand.Read(secret) // never fails
	return secret
}
