package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/netip"
	"os"
	"time"

	"drover/internal/durable"
)

// CAFile is the name of the certificate of an authority, in its directory.
const CAFile = "ca.pem"

const (
	caLife   = 10 * 365 * 24 * time.Hour
	leafLife = 90 * 24 * time.Hour
	// backdated makes certificates valid for peers whose clocks are behind.
	backdated = 24 * time.Hour

	caKeyFile = "ca.key"

	pemKey  = "PRIVATE KEY"
	pemCert = "CERTIFICATE"
)

// ca is an authority with its key.
type ca struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func readKey(path string) (*ecdsa.PrivateKey, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 {
		return nil,
			fmt.Errorf("%s is not a regular file with mode 0600: make sure that nobody has read it, then set mode 0600",
				path)
	}
	block, err := readPEM(path, pemKey)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block)
	if err != nil {
		return nil, fmt.Errorf("%s holds no private key", path) // the parser's error may quote the key
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s: expected an ECDSA key", path)
	}
	return key, nil
}

func makeKey(path string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, writePEM(path, pemKey, der)
}

func readCert(path string) (*x509.Certificate, error) {
	der, err := readPEM(path, pemCert)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", path, err)
	}
	return cert, nil
}

func makeCA(path string, key *ecdsa.PrivateKey, now time.Time) (*x509.Certificate, error) {
	id, err := keyID(key)
	if err != nil {
		return nil, err
	}
	cert, der, err := sign(&x509.Certificate{
		Subject:   pkix.Name{CommonName: "drover CA " + id[:8]},
		NotBefore: now.Add(-backdated), NotAfter: now.Add(caLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLen: 1, // it may certify its successor
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}, nil, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	return cert, writePEM(path, pemCert, der)
}

// keyID returns the fingerprint of a public key.
func keyID(key *ecdsa.PrivateKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:]), nil
}

// issue makes a certificate for a server with the names. Its key is in memory only.
func (c *ca) issue(names []string, now time.Time) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	wanted := c.leaf("drover server", now)
	name(wanted, names)
	leaf, der, err := sign(wanted, c.cert, &key.PublicKey, c.key)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}

// name makes a certificate valid for host names and IP addresses.
func name(wanted *x509.Certificate, names []string) {
	for _, name := range names {
		if ip, err := netip.ParseAddr(name); err == nil {
			wanted.IPAddresses = append(wanted.IPAddresses, ip.Unmap().AsSlice())
		} else {
			wanted.DNSNames = append(wanted.DNSNames, name)
		}
	}
}

// vouch signs the key of another authority, so that peers that trust only c accept the certificates of the other.
func (c *ca) vouch(other *ca, now time.Time) ([]byte, error) {
	wanted := &x509.Certificate{
		Subject:   other.cert.Subject,
		NotBefore: now.Add(-backdated), NotAfter: other.cert.NotAfter,
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	if wanted.NotAfter.After(c.cert.NotAfter) {
		wanted.NotAfter = c.cert.NotAfter
	}
	_, der, err := sign(wanted, c.cert, &other.key.PublicKey, c.key)
	return der, err
}

// leaf returns the template of a certificate for a listener. It ends with the authority at the latest.
func (c *ca) leaf(name string, now time.Time) *x509.Certificate {
	wanted := &x509.Certificate{
		Subject:   pkix.Name{CommonName: name},
		NotBefore: now.Add(-backdated), NotAfter: now.Add(leafLife),
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if wanted.NotAfter.After(c.cert.NotAfter) {
		wanted.NotAfter = c.cert.NotAfter
	}
	return wanted
}

// sign makes a certificate for the key of its subject; without an issuer the certificate signs itself.
func sign(wanted, issuer *x509.Certificate, subject *ecdsa.PublicKey,
	signer *ecdsa.PrivateKey,
) (*x509.Certificate, []byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, err
	}
	wanted.SerialNumber = serial
	if issuer == nil {
		issuer = wanted
	}
	der, err := x509.CreateCertificate(rand.Reader, wanted, issuer, subject, signer)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot sign certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	return cert, der, err
}

func readPEM(path, kind string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil || block.Type != kind {
		return nil, fmt.Errorf("%s holds no %s in PEM", path, kind)
	}
	return block.Bytes, nil
}

// writePEM writes a new file of mode 0600, completely or not at all. It never replaces a file.
func writePEM(path, kind string, der []byte) error {
	if err := durable.Create(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	return nil
}

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }
