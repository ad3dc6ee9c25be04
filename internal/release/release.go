// Package release describes a program of the agent that the owner of the hosts has signed, so that no server can give
// hosts another one. It decides which program fits a host. It reads no files and owns no clock.
package release

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Format is the layout of the files that agents of this version keep. An agent rejects files with a higher format.
const Format = 1

// Bounds of packages, in bytes but for MaxVersion, which is in characters.
const (
	// PieceSize is the size of each piece of a program but the last one.
	PieceSize = 256 << 10
	// MaxSize is the largest program, and MaxSigned the longest signed text.
	MaxSize    = 64 << 20
	MaxSigned  = 64 << 10
	MaxVersion = 64
)

// OS is the only operating system of agents.
const OS = "linux"

// Package describes a program.
type Package struct {
	Version string `json:"version"`
	OS      string `json:"os"`
	Arch    string `json:"arch"` // as Go names it: amd64 or arm64
	// Format is the layout of files that the program writes; it reads that and every earlier one.
	Format int `json:"format"`
	// Size is in bytes; SHA256 is the sum of the program in hexadecimal, and Pieces are those of its pieces.
	Size   int64    `json:"size"`
	SHA256 string   `json:"sha256"`
	Pieces []string `json:"pieces"`
	// Signed is when the owner signed it, in Unix seconds. A host takes nothing that was signed before what it runs.
	Signed int64 `json:"signed"`
	// Downgrade tells that the owner wants hosts with a later version to take it.
	Downgrade bool `json:"downgrade,omitempty"`
}

// Describe returns the description of a program, without the time of its signature.
func Describe(version, arch string, format int, program []byte) Package {
	p := Package{
		Version: version, OS: OS, Arch: arch, Format: format, Size: int64(len(program)), SHA256: sum(program),
	}
	for piece := range slices.Chunk(program, PieceSize) {
		p.Pieces = append(p.Pieces, sum(piece))
	}
	return p
}

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}

// Holds reports whether data is the piece of this number, from 0.
func (p *Package) Holds(piece int, data []byte) bool {
	return piece >= 0 && piece < len(p.Pieces) && sum(data) == p.Pieces[piece]
}

// Check reports every fault of a description.
func (p *Package) Check() error {
	var faults []error
	fail := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if err := CheckVersion(p.Version); err != nil {
		faults = append(faults, err)
	}
	if p.OS != OS {
		fail("os is %.20q: expected %s", p.OS, OS)
	}
	if !slices.Contains(Archs(), p.Arch) {
		fail("arch is %.20q: expected %s", p.Arch, strings.Join(Archs(), " or "))
	}
	if p.Format < 1 {
		fail("format is %d: expected 1 or more", p.Format)
	}
	if p.Size < 1 || p.Size > MaxSize {
		fail("size is %d: expected 1 to %d", p.Size, MaxSize)
	} else if want := int((p.Size + PieceSize - 1) / PieceSize); len(p.Pieces) != want {
		fail("pieces are %d: expected %d", len(p.Pieces), want)
	}
	for _, s := range append([]string{p.SHA256}, p.Pieces...) {
		if len(s) != hex.EncodedLen(sha256.Size) || strings.Trim(s, "0123456789abcdef") != "" {
			fail("a sum is %.80q: expected SHA-256 in hexadecimal", s)
			break
		}
	}
	if p.Signed <= 0 {
		fail("signed is %d: expected a time in Unix seconds", p.Signed)
	}
	return errors.Join(faults...)
}

// Archs lists the architectures of agents.
func Archs() []string { return []string{"amd64", "arm64"} }

// CheckVersion returns nil for a version: a digit, then letters, digits and the characters .+~-_, at most MaxVersion.
func CheckVersion(text string) error {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	if text == "" || len(text) > MaxVersion || text[0] < '0' || text[0] > '9' || strings.Trim(text, letters+".+~-_") != "" {
		return fmt.Errorf("version is %.80q: expected a digit, then letters, digits and .+~-_, at most %d", text, MaxVersion)
	}
	return nil
}

// ErrForged says that no key that counts has signed a package.
var ErrForged = errors.New("no release key that counts here has signed it")

// domain begins the signed text, so that the signature is valid for nothing else.
const domain = "drover release 1\n"

// Seal returns the signed text of a package: a line with its description, and a line with the key and the signature.
func Seal(p Package, key ed25519.PrivateKey, at time.Time) ([]byte, error) {
	p.Signed = at.Unix()
	if err := p.Check(); err != nil {
		return nil, fmt.Errorf("cannot sign package: %w", err)
	}
	text, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("cannot sign package: %w", err)
	}
	public, _ := key.Public().(ed25519.PublicKey)
	made := ed25519.Sign(key, append([]byte(domain), text...))
	return fmt.Appendf(nil, "%s\n%s %s\n", text, KeyText(public), hex.EncodeToString(made)), nil
}

// Open verifies a signed text by the keys, in the form of KeyText. It returns ErrForged if none of the keys made the
// signature. If keys is nil, the key that the text names counts: that proves only that the text is whole.
func Open(signed []byte, keys []string) (p Package, key string, err error) {
	if len(signed) > MaxSigned {
		return p, "", fmt.Errorf("the signed text has %d bytes: expected at most %d", len(signed), MaxSigned)
	}
	text, rest, _ := bytes.Cut(signed, []byte("\n"))
	key, made, found := strings.Cut(strings.TrimSuffix(string(rest), "\n"), " ")
	if !found {
		return p, "", errors.New("the signed text is not that of a package: expected two lines")
	}
	public, err := ParseKey(key)
	if err != nil {
		return p, "", err
	}
	signature, err := hex.DecodeString(made)
	if err != nil || len(signature) != ed25519.SignatureSize ||
		!ed25519.Verify(public, append([]byte(domain), text...), signature) {
		return p, "", errors.New("the signature does not match the package")
	}
	if keys != nil && !slices.Contains(keys, key) {
		return p, "", fmt.Errorf("it is signed by %s: %w", key, ErrForged)
	}
	if err := json.Unmarshal(text, &p); err != nil {
		return p, "", fmt.Errorf("cannot read package: %w", err)
	}
	return p, key, p.Check()
}

// keyPrefix begins a public key, and seedPrefix a private one.
const (
	keyPrefix  = "drk1-"
	seedPrefix = "drover-release-key-1-"
)

// KeyText returns a public key as people write it.
func KeyText(key ed25519.PublicKey) string { return keyPrefix + hex.EncodeToString(key) }

// ParseKey reads the text of a public key.
func ParseKey(text string) (ed25519.PublicKey, error) {
	rest, ok := strings.CutPrefix(text, keyPrefix)
	key, err := hex.DecodeString(rest)
	if !ok || err != nil || len(key) != ed25519.PublicKeySize || hex.EncodeToString(key) != rest {
		return nil, fmt.Errorf("release key %.80q: expected %s and %d hexadecimal digits", text, keyPrefix,
			2*ed25519.PublicKeySize)
	}
	return key, nil
}

// SeedText returns the content of the file of a private key.
func SeedText(key ed25519.PrivateKey) []byte {
	return fmt.Appendf(nil, "%s%s\n", seedPrefix, hex.EncodeToString(key.Seed()))
}

// ParseSeed reads the content of the file of a private key. Its errors do not show the content.
func ParseSeed(text []byte) (ed25519.PrivateKey, error) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(string(text)), seedPrefix)
	seed, err := hex.DecodeString(rest)
	if !ok || err != nil || len(seed) != ed25519.SeedSize {
		return nil, errors.New("the file is not a private release key of drover packages keygen")
	}
	return ed25519.NewKeyFromSeed(seed), nil
}
