package access

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"math/big"
	"strings"
	"unicode"
)

// Longest credentials, in bytes.
const (
	MaxAppCode   = 32
	MaxAppSecret = 128
	MaxUser      = 128
	MaxToken     = 4096
)

// NewSecret returns a random secret of 48 hexadecimal digits.
func NewSecret() string {
	var random [24]byte
	_, _ = rand.Read(random[:]) // never fails (crypto/rand)
	return hex.EncodeToString(random[:])
}

// Secrets hashes the secrets of apps under a key that is not in the database. So a copy of the database does not help
// to guess secrets, even weak secrets that people chose. Its zero value has an empty key.
type Secrets struct{ key []byte }

// NewSecrets returns the Secrets of a key, which all servers of a fleet share.
func NewSecrets(key []byte) Secrets { return Secrets{key} }

// The stored form of a secret: the scheme, then salt and HMAC in base64.
const (
	hashScheme = "hmac-sha256$"
	hashSalt   = 16
)

// Hash returns the stored form of a secret, a different text each time.
func (s Secrets) Hash(secret string) string {
	salt := make([]byte, hashSalt)
	_, _ = rand.Read(salt) // never fails (crypto/rand)
	return hashScheme + base64.RawStdEncoding.EncodeToString(s.mac(salt, secret))
}

// Match compares a secret with its stored form, in constant time. If the stored form is broken or belongs to another
// key, no secret matches.
func (s Secrets) Match(stored, secret string) bool {
	text, ok := strings.CutPrefix(stored, hashScheme)
	if !ok {
		return false
	}
	want, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil || len(want) != hashSalt+sha256.Size {
		return false
	}
	return hmac.Equal(s.mac(want[:hashSalt:hashSalt], secret), want)
}

// mac returns the salt and the HMAC of salt and secret.
func (s Secrets) mac(salt []byte, secret string) []byte {
	h := hmac.New(sha256.New, s.key)
	_, _ = h.Write(salt) // it never fails
	_, _ = h.Write([]byte(secret))
	return h.Sum(salt)
}

// tokenMark begins every token of drover, so that secret scanners easily find a leaked token.
const tokenMark = "drovertok_"

// NewToken returns a user's token, which is shown once, and the hash to store.
func NewToken() (token, hash string) {
	token = tokenMark + rand.Text()
	return token, HashToken(token)
}

// codeLetters are the letters of a code: no vowels, so that no code is a word, and no letters that look alike.
const codeLetters = "BCDFGHJKLMNPQRSTVWXZ"

// NewCode returns a code of eight letters that a person can type, and the hash to store. A code has 34 random bits: it
// must be short-lived, and guesses must be limited.
func NewCode() (code, hash string) {
	var letters [8]byte
	for i := range letters {
		n, _ := rand.Int(rand.Reader, big.NewInt(int64(len(codeLetters)))) // never fails (crypto/rand)
		letters[i] = codeLetters[n.Int64()]
	}
	code = string(letters[:4]) + "-" + string(letters[4:])
	return code, HashCode(code)
}

// HashCode returns the stored form of a code, in whatever case and with whatever separators a person has typed it.
func HashCode(typed string) string {
	return HashToken("code " + strings.Map(func(r rune) rune {
		if r = unicode.ToUpper(r); r < 'A' || r > 'Z' {
			return -1
		}
		return r
	}, typed))
}

// IsToken reports whether a text has the form of drover's own tokens.
func IsToken(text string) bool { return strings.HasPrefix(text, tokenMark) }

// HashToken returns the stored form of a token. A token is 130 random bits, so it needs neither a salt nor a slow
// hash, and can be looked up by its hash.
func HashToken(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
