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

// Roles assigns the authorities their roles.
type Roles struct {
	// Present is the fingerprint of the issuing authority.
	Present string
	// Former are the fingerprints of the earlier issuers. While their keys are in the directory, peers that trust only
	// one of them also accept new certificates.
	Former []string
	// Trusted are the certificates, in PEM, of all authorities that peers should trust.
	Trusted []string
}

// authorities are a server's authorities at one time.
type authorities struct {
	present *ca
	trusted []*x509.Certificate // the present one first
	behind  [][]byte            // the issuers to present after a certificate, in DER
}

func authorityOf(cert *x509.Certificate) Authority {
	return Authority{Fingerprint: fingerprint(cert), PEM: encode(cert.Raw), Ends: cert.NotAfter}
}

// chain returns a certificate and its issuers, in PEM.
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

// openAuthorities reads the authorities of a directory (mode 0700), or makes the first one. The authority in CAFile is
// the present one. Each key is written before its certificate. So a lost certificate can be made again with the same
// fingerprint.
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

// firstAuthority makes CAFile or its key if it is missing.
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

// readAuthorities reads all pairs of a key and its certificate, by fingerprint, whatever the names of their files.
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

// nameOf returns the file name, without its ending, of an authority that is not the present one.
func nameOf(fingerprint string) string { return "ca-" + fingerprint[:16] }

// NewAuthority makes another authority in the directory and returns it. It has no role until Use assigns one.
// NewAuthority fails if external certificates were given.
func (m *Manager) NewAuthority() (Authority, error) {
	if !m.own {
		return Authority{}, errors.New("cannot make an authority: the certificates come from another authority")
	}
	temporary := filepath.Join(m.dir, "ca-new.key")
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) { // left by an interrupted attempt
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
	path := filepath.Join(m.dir, nameOf(id))
	if err := os.Rename(temporary, path+".key"); err != nil {
		return Authority{}, fmt.Errorf("cannot make an authority: %w", err)
	}
	cert, err := makeCA(path+".pem", key, m.now())
	if err != nil {
		return Authority{}, fmt.Errorf("cannot make an authority: %w", err)
	}
	return authorityOf(cert), nil
}

// Use assigns the authorities their roles: from then on the present one issues, and peers should trust all. If the
// present authority changes, Use presents a new certificate at once. It fails and changes nothing if the present
// authority or its key is not in the directory, or if external certificates were given.
func (m *Manager) Use(r Roles) error {
	before := m.authorities.Load()
	if before == nil {
		return errors.New("cannot use an authority: the certificates come from another authority")
	}
	held, err := readAuthorities(m.dir)
	if err != nil {
		return fmt.Errorf("cannot use an authority: %w", err)
	}
	present, ok := held[r.Present]
	if !ok {
		return fmt.Errorf("cannot use the authority with the fingerprint %s: its key or certificate is not in %s",
			r.Present, m.dir)
	}
	next, err := arrange(r, present, held, m.now())
	if err != nil {
		return fmt.Errorf("cannot use an authority: %w", err)
	}
	if err := makePresent(m.dir, r.Present); err != nil {
		return fmt.Errorf("cannot use an authority: %w", err)
	}
	shown, err := present.issue(m.names, m.now())
	if err != nil {
		return err
	}
	m.authorities.Store(next)
	shown.Certificate = append(shown.Certificate, next.behind...)
	m.shown.Store(shown)
	return nil
}

// arrange computes the trusted and the presented certificates.
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
			continue // no certificate for peers that trust only this one
		}
		der, err := former.vouch(present, now)
		if err != nil {
			return nil, err
		}
		next.behind = append(next.behind, der, former.cert.Raw)
	}
	return next, nil
}

// makePresent makes CAFile and its key those of the present authority, and renames the previous files to their own
// name. If it is interrupted, every key and certificate is still in the directory under some name.
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

// Drop removes an authority without a role. A missing authority is not an error; the present one is.
func (m *Manager) Drop(fingerprint string) error {
	set := m.authorities.Load()
	if set == nil || fingerprint == m.Fingerprint() || len(fingerprint) != fingerprintLength ||
		strings.ContainsRune(fingerprint, filepath.Separator) {
		return fmt.Errorf("cannot drop the authority with the fingerprint %q", fingerprint)
	}
	for _, ending := range []string{".key", ".pem"} {
		if err := os.Remove(filepath.Join(m.dir, nameOf(fingerprint)+ending)); err != nil &&
			!errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot drop an authority: %w", err)
		}
	}
	return nil
}

// Held returns the fingerprints of the authorities whose keys are in the directory, in no order.
func (m *Manager) Held() (fingerprints []string) {
	held, err := readAuthorities(m.dir)
	if err != nil {
		return nil // the caller that needs them returns the error
	}
	for id := range held {
		fingerprints = append(fingerprints, id)
	}
	return fingerprints
}

// Authority returns the present authority. Call it only if the server has its own authorities.
func (m *Manager) Authority() Authority { return authorityOf(m.authorities.Load().present.cert) }
