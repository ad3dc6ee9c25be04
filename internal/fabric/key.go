package fabric

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/nats-io/nkeys"

	"drover/internal/durable"
	"drover/internal/frame"
)

// maxKeyFile is far more than a seed needs.
const maxKeyFile = 1 << 10

// LoadOrCreateKey returns the key whose seed is in the file at path. If there is no file, it makes the key and the
// file (mode 0600). The directory must exist. When it returns without error, the complete file is on disk. A crash
// leaves no file or a complete file, and concurrent callers get the same key.
//
// It rejects a file with another kind of key, a file that is not regular, and a file that another user owns or can
// read. It never changes or replaces an existing file.
func LoadOrCreateKey(path string, kind nkeys.PrefixByte) (nkeys.KeyPair, error) {
	key, err := loadOrCreate(path, kind, func() (nkeys.KeyPair, error) { return loadKey(path, kind) })
	if err != nil {
		return nil, err
	}
	return CachedKey(key), nil
}

// loadOrCreate loads a key file, which it makes if there is none.
func loadOrCreate[T any](path string, kind nkeys.PrefixByte, load func() (T, error)) (T, error) {
	key, err := load()
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if err := createKey(path, kind); err != nil && !errors.Is(err, fs.ErrExist) {
		return key, fmt.Errorf("cannot create key file %s: %w", path, err)
	}
	return load()
}

// cachedKey is a pair that caches the key that nkeys derives from the seed for every signature; the derivation takes as
// long as the signature.
type cachedKey struct {
	nkeys.KeyPair
	public  string
	private ed25519.PrivateKey
}

// CachedKey returns a pair that signs faster than a pair of nkeys, and is otherwise equal. A pair without a private
// half is returned unchanged.
func CachedKey(pair nkeys.KeyPair) nkeys.KeyPair {
	if _, is := pair.(*cachedKey); is {
		return pair
	}
	public, err := pair.PublicKey()
	if err != nil {
		return pair
	}
	encoded, err := pair.PrivateKey()
	if err != nil {
		return pair
	}
	private, err := nkeys.Decode(nkeys.PrefixBytePrivate, encoded)
	if err != nil || len(private) != ed25519.PrivateKeySize {
		return pair
	}
	return &cachedKey{KeyPair: pair, public: public, private: private}
}

// PublicKey returns the encoded public half.
func (k *cachedKey) PublicKey() (string, error) { return k.public, nil }

// Sign signs the input.
func (k *cachedKey) Sign(input []byte) ([]byte, error) { return ed25519.Sign(k.private, input), nil }

// LoadOrCreateSealing returns the sealing keys of a member, by its public nkey, from the file at path. The file and its
// checks are as LoadOrCreateKey says, but the file changes when the keys do.
func LoadOrCreateSealing(path, member string) (*frame.Keys, error) {
	text, err := loadOrCreate(path, nkeys.PrefixByteCurve, func() ([]byte, error) { return readKeyFile(path) })
	if err != nil {
		return nil, err
	}
	defer clear(text)
	keys, err := frame.NewKeys(member, text, func(text []byte) error { return durable.Replace(path, text, 0o600) })
	if err != nil {
		return nil, fmt.Errorf("cannot use key file %s: %w", path, err)
	}
	return keys, nil
}

// readKeyFile returns the content of a key file.
func readKeyFile(path string) ([]byte, error) {
	// O_NONBLOCK: open(2) must not wait for the other end of a FIFO.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot read key file: %w", err)
	}
	defer f.Close()
	if err := checkKeyFile(f); err != nil {
		return nil, fmt.Errorf("cannot use key file %s: %w", path, err)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
	if err != nil {
		return nil, fmt.Errorf("cannot read key file: %w", err)
	}
	return text, nil
}

func loadKey(path string, kind nkeys.PrefixByte) (nkeys.KeyPair, error) {
	text, err := readKeyFile(path)
	if err != nil {
		return nil, err
	}
	defer clear(text)
	seed := bytes.TrimSpace(text)
	// No error quotes the content.
	key, err := nkeys.FromSeed(seed)
	if err != nil {
		return nil, fmt.Errorf("cannot use key file %s: expected an nkey seed", path)
	}
	got, _, err := nkeys.DecodeSeed(seed)
	if err != nil {
		return nil, fmt.Errorf("cannot use key file %s: expected an nkey seed", path)
	}
	if got != kind {
		return nil, fmt.Errorf("cannot use key file %s: it holds a key of kind %s, expected %s", path, got, kind)
	}
	return key, nil
}

func checkKeyFile(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("not a regular file")
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return fmt.Errorf(
			"its mode %#o lets other users read it: make sure that nobody has read it, then set mode 0600", perm)
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok && int(s.Uid) != os.Geteuid() {
		return fmt.Errorf("its owner is uid %d: expected uid %d", s.Uid, os.Geteuid())
	}
	return nil
}

// createKey writes a new seed; if a file has appeared meanwhile, that file wins.
func createKey(path string, kind nkeys.PrefixByte) error {
	key, err := nkeys.CreatePair(kind)
	if err != nil {
		return err
	}
	defer key.Wipe()
	seed, err := key.Seed()
	if err != nil {
		return err
	}
	defer clear(seed)
	text := append(bytes.Clone(seed), '\n')
	defer clear(text)
	return durable.Create(path, text, 0o600)
}
