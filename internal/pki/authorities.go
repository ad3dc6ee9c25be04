package pki

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"drover/internal/durable"
)

// Authority is one of a server's own authorities.
type Authority struct {
	Fingerprint string
	// PEM is its certificate.
	PEM  string
	Ends time.Time
}

// Roles says what each authority is for.
type Roles struct {
	// Present is the fingerprint of the one that issues.
	Present string
	// Former are the fingerprints of those that issued before. As long as their keys are in the directory, what is
	// issued is believed by those who trust one of them alone.
	Former []string
	// Trusted are the certificates in PEM of all that peers are told to trust.
	Trusted []string
}

// authorities are those of a server at one time.
type authorities struct {
	present *ca
	trusted []*x509.Certificate // the present one first
	behind  [][]byte            // what is shown behind a certificate, in DER
}

func authorityOf(cert *x509.Certificate) Authority {
	return Authority{Fingerprint: fingerprint(cert), PEM: encode(cert.Raw), Ends: cert.NotAfter}
}

// chain returns a certificate and what is shown behind it, in PEM.
func (a *authorities) chain(der []byte) string {
	var all strings.Builder
	all.WriteString(encode(der))
	for _, issuer := range a.behind {
		all.WriteString(encode(issuer))
	}
	return all.String()
}

func encode(der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: pemCert, Bytes: der}))
}

// openAuthorities reads the authorities of a directory (mode 0700), or makes the first one there, which has the role
// that it must have: the one in CAFile is the present one. A key is written before its certificate: one that was lost
// is made anew, and its fingerprint stays.
func openAuthorities(dir string, now time.Time) (*authorities, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	held, err := readAuthorities(dir)
	if err != nil {
		return nil, err
	}
	keyPath, certPath := filepath.Join(dir, caKeyFile), filepath.Join(dir, CAFile)
	cert, err := readCert(certPath)
	if errors.Is(err, fs.ErrNotExist) {
		cert, err = firstAuthority(dir, now)
		if err == nil {
			held, err = readAuthorities(dir)
		}
	}
	if err != nil {
		return nil, err
	}
	present, ok := held[fingerprint(cert)]
	if !ok {
		if _, err := os.Lstat(keyPath); err == nil {
			return nil, fmt.Errorf("%s is not the certificate of the key in %s", certPath, keyPath)
		}
		return nil,
			fmt.Errorf(
				"%s exists, but %s is missing: restore the key from a backup, or remove the certificate and join every agent again", certPath, keyPath)
	}
	if now.After(cert.NotAfter) {
		return nil,
			fmt.Errorf(
				"%s expired on %s: remove it; the server then makes a certificate for the same key, which agents trust already", certPath, day(cert.NotAfter))
	}
	return &authorities{present: present, trusted: []*x509.Certificate{cert}, behind: [][]byte{cert.Raw}}, nil
}

// firstAuthority makes what is missing of CAFile and its key.
func firstAuthority(dir string, now time.Time) (*x509.Certificate, error) {
	keyPath := filepath.Join(dir, caKeyFile)
	key, err := readKey(keyPath)
	if errors.Is(err, fs.ErrNotExist) {
		key, err = makeKey(keyPath)
	}
	if err != nil {
		return nil, err
	}
	return makeCA(filepath.Join(dir, CAFile), key, now)
}

// readAuthorities reads all pairs of a key and its certificate, by fingerprint, whatever their files are called.
func readAuthorities(dir string) (map[string]*ca, error) {
	keys := map[string]*ecdsa.PrivateKey{}
	paths, err := filepath.Glob(filepath.Join(dir, "ca*.key"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		key, err := readKey(path)
		if err != nil {
			return nil, err
		}
		id, err := keyID(key)
		if err != nil {
			return nil, err
		}
		keys[id] = key
	}
	if paths, err = filepath.Glob(filepath.Join(dir, "ca*.pem")); err != nil {
		return nil, err
	}
	held := map[string]*ca{}
	for _, path := range paths {
		cert, err := readCert(path)
		if err != nil {
			return nil, err
		}
		if key := keys[fingerprint(cert)]; key != nil {
			held[fingerprint(cert)] = &ca{key, cert}
		}
	}
	return held, nil
}

// nameOf is the name of an authority's files while it is not the present one, without their ending.
func nameOf(fingerprint string) string { return "ca-" + fingerprint[:16] }

// NewAuthority makes another authority in the directory and returns it. It is for nothing until it is given a role by
// Use. It fails where certificates were given.
func (k *Keeper) NewAuthority() (Authority, error) {
	if !k.own {
		return Authority{}, errors.New("cannot make an authority: the certificates come from another authority")
	}
	temporary := filepath.Join(k.dir, "ca-new.key")
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) { // of an attempt that was cut short
		return Authority{}, fmt.Errorf("cannot make an authority: %w", err)
	}
	key, err := makeKey(temporary)
	if err != nil {
		return Authority{}, fmt.Errorf("cannot make an authority: %w", err)
	}
	id, err := keyID(key)
	if err != nil {
		return Authority{}, err
	}
	path := filepath.Join(k.dir, nameOf(id))
	if err := os.Rename(temporary, path+".key"); err != nil {
		return Authority{}, fmt.Errorf("cannot make an authority: %w", err)
	}
	cert, err := makeCA(path+".pem", key, k.now())
	if err != nil {
		return Authority{}, fmt.Errorf("cannot make an authority: %w", err)
	}
	return authorityOf(cert), nil
}

// Use gives the authorities their roles: from then on the present one issues, and peers are told to trust all. Another
// certificate is shown at once where another authority is the present one. It fails, and changes nothing, where the
// present one or its key is not in the directory, or where certificates were given.
func (k *Keeper) Use(r Roles) error {
	before := k.authorities.Load()
	if before == nil {
		return errors.New("cannot use an authority: the certificates come from another authority")
	}
	held, err := readAuthorities(k.dir)
	if err != nil {
		return fmt.Errorf("cannot use an authority: %w", err)
	}
	present, ok := held[r.Present]
	if !ok {
		return fmt.Errorf("cannot use the authority with the fingerprint %s: its key or certificate is not in %s",
			r.Present, k.dir)
	}
	next, err := arrange(r, present, held, k.now())
	if err != nil {
		return fmt.Errorf("cannot use an authority: %w", err)
	}
	if err := makePresent(k.dir, r.Present); err != nil {
		return fmt.Errorf("cannot use an authority: %w", err)
	}
	shown, err := present.issue(k.names, k.now())
	if err != nil {
		return err
	}
	k.authorities.Store(next)
	shown.Certificate = append(shown.Certificate, next.behind...)
	k.shown.Store(shown)
	return nil
}

// arrange works out what is trusted and shown.
func arrange(r Roles, present *ca, held map[string]*ca, now time.Time) (*authorities, error) {
	next := &authorities{
		present: present, trusted: []*x509.Certificate{present.cert},
		behind: [][]byte{present.cert.Raw},
	}
	for _, text := range r.Trusted {
		block, _ := pem.Decode([]byte(text))
		if block == nil {
			return nil, errors.New("a trusted certificate is not in PEM")
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		if fingerprint(cert) != r.Present {
			next.trusted = append(next.trusted, cert)
		}
	}
	for _, id := range r.Former {
		former, ok := held[id]
		if !ok || id == r.Present {
			continue // those who trust it alone cannot be reached from here
		}
		der, err := former.vouch(present, now)
		if err != nil {
			return nil, err
		}
		next.behind = append(next.behind, der, former.cert.Raw)
	}
	return next, nil
}

// makePresent has CAFile and its key be those of the present authority. What is there goes by its own name from then
// on. Wherever it is cut short, each key and certificate is in the directory under some name.
func makePresent(dir, id string) error {
	for _, file := range []struct {
		name, ending string
		read         func(path string) (string, error)
	}{
		{caKeyFile, ".key", func(path string) (string, error) {
			key, err := readKey(path)
			if err != nil {
				return "", err
			}
			return keyID(key)
		}},
		{CAFile, ".pem", func(path string) (string, error) {
			cert, err := readCert(path)
			if err != nil {
				return "", err
			}
			return fingerprint(cert), nil
		}},
	} {
		path := filepath.Join(dir, file.name)
		now, err := file.read(path)
		if err != nil {
			return err
		}
		if now == id {
			continue
		}
		if err := os.Link(path, filepath.Join(dir, nameOf(now)+file.ending)); err != nil &&
			!errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := os.Rename(filepath.Join(dir, nameOf(id)+file.ending), path); err != nil {
			return err
		}
	}
	return durable.SyncDir(dir)
}

// Drop removes an authority that has no role any more. One that is not there is no error; the present one is.
func (k *Keeper) Drop(fingerprint string) error {
	set := k.authorities.Load()
	if set == nil || fingerprint == k.Fingerprint() || len(fingerprint) != fingerprintLength ||
		strings.ContainsRune(fingerprint, filepath.Separator) {
		return fmt.Errorf("cannot drop the authority with the fingerprint %q", fingerprint)
	}
	for _, ending := range []string{".key", ".pem"} {
		if err := os.Remove(filepath.Join(k.dir, nameOf(fingerprint)+ending)); err != nil &&
			!errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot drop an authority: %w", err)
		}
	}
	return nil
}

// Held returns the fingerprints of the authorities whose keys are in the directory, in no order.
func (k *Keeper) Held() (fingerprints []string) {
	held, err := readAuthorities(k.dir)
	if err != nil {
		return nil // whoever uses them says so
	}
	for id := range held {
		fingerprints = append(fingerprints, id)
	}
	return fingerprints
}

// Authority returns the present authority. It is for a server's own ones only.
func (k *Keeper) Authority() Authority { return authorityOf(k.authorities.Load().present.cert) }
