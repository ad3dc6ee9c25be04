package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// A proxy presents a certificate of the server's authority, so that the pinned fingerprint is valid for it too; so does
// an external broker. The certificate names its role. Clients check the role if they must not accept a proxy as a
// server, or a proxy of another area.
const (
	ownScheme  = "drover"
	proxyHost  = "proxy"
	brokerHost = "broker"
)

const (
	// longestRequest is the longest certificate request, and the longest certificate in a Proof, in bytes. drover's own
	// take some hundred bytes.
	longestRequest = 4 << 10
	// longestChain is the largest number of certificates in a Proof.
	longestChain = 8
)

// CertifyProxy issues a certificate for a proxy of an area, to the key of a PKCS #10 request in DER; key is the proxy's
// public nkey. Of the request nothing else counts. It returns the certificate and its issuers in PEM, and fails where
// certificates were given.
func (m *Manager) CertifyProxy(request []byte, area int, key string) (string, error) {
	set := m.authorities.Load()
	if set == nil {
		return "", errors.New("cannot certify a proxy: the certificates come from another authority")
	}
	// The key is not trusted yet, and a verification with a long key of another kind takes hours.
	if len(request) > longestRequest {
		return "", fmt.Errorf("cannot certify a proxy: its request has %d bytes, expected at most %d", len(request),
			longestRequest)
	}
	csr, err := x509.ParseCertificateRequest(request)
	if err != nil {
		return "", fmt.Errorf("cannot certify a proxy: %w", err)
	}
	public, ok := csr.PublicKey.(*ecdsa.PublicKey)
	if !ok {
		return "", errors.New("cannot certify a proxy: its key is not of ECDSA")
	}
	if err := csr.CheckSignature(); err != nil {
		return "", fmt.Errorf("cannot certify a proxy: %w", err)
	}
	wanted := set.present.leaf("drover proxy", m.now())
	wanted.URIs = []*url.URL{{Scheme: ownScheme, Host: proxyHost, Path: "/" + strconv.Itoa(area) + "/" + key}}
	_, der, err := sign(wanted, set.present.cert, public, set.present.key)
	if err != nil {
		return "", err
	}
	chain := set.chain(der)
	return chain, nil
}

// ProxyKey returns the private key in a file (mode 0600), and makes both if the file is missing. Use it with
// CertifyProxy.
func ProxyKey(path string) (crypto.Signer, error) {
	key, err := readKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		key, err = makeKey(path)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot open key: %w", err)
	}
	return key, nil
}

// RequestCertificate returns the request for CertifyProxy, for a private key of ECDSA.
func RequestCertificate(key crypto.Signer) ([]byte, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return nil, fmt.Errorf("cannot ask for a certificate: %w", err)
	}
	return der, nil
}

// RenewalDue reports whether two thirds of a certificate's life have passed, or whether the present authority has
// changed. The present authority is the first one in ca, in PEM.
func RenewalDue(leaf *x509.Certificate, ca string, now time.Time) bool {
	if !now.Before(renewal(leaf)) {
		return true
	}
	block, _ := pem.Decode([]byte(ca))
	if block == nil {
		return false
	}
	present, err := x509.ParseCertificate(block.Bytes)
	return err == nil && leaf.CheckSignatureFrom(present) != nil
}

// ProxyArea returns the area of the proxy that a certificate names; proxy is false for a server's certificate.
func ProxyArea(leaf *x509.Certificate) (area int, proxy bool) {
	for _, uri := range leaf.URIs {
		if uri.Scheme != ownScheme || uri.Host != proxyHost {
			continue
		}
		first, _, _ := strings.Cut(strings.TrimPrefix(uri.Path, "/"), "/")
		area, err := strconv.Atoi(first)
		if err != nil {
			return -1, true
		}
		return area, true
	}
	return 0, false
}

// NoProxies makes the TLS of a client accept only servers, because the holder of a proxy's key must not impersonate the
// server.
func NoProxies(cfg *tls.Config) *tls.Config {
	return further(cfg, func(leaf *x509.Certificate) error {
		if area, proxy := ProxyArea(leaf); proxy {
			return fmt.Errorf("expected a server, but a proxy of area %d answered", area)
		}
		return nil
	})
}

// ProxiesOf has the TLS of a client believe servers, and the proxies of one area.
func ProxiesOf(area int, cfg *tls.Config) *tls.Config {
	return further(cfg, func(leaf *x509.Certificate) error {
		if its, proxy := ProxyArea(leaf); proxy && its != area {
			return fmt.Errorf("expected a proxy of area %d, but a proxy of area %d answered", area, its)
		}
		return nil
	})
}

// further adds a check of the certificate that the TLS of a client has accepted.
func further(cfg *tls.Config, check func(*x509.Certificate) error) *tls.Config {
	narrow := cfg.Clone()
	narrow.VerifyConnection = func(state tls.ConnectionState) error {
		if err := cfg.VerifyConnection(state); err != nil {
			return err
		}
		return check(state.PeerCertificates[0])
	}
	return narrow
}

// Proof is a signature by a server whose certificate leads to the authority. It accompanies data that another party
// forwards.
type Proof struct {
	Signature []byte `json:"signature"`
	// Chain is the server's certificate and its issuers, in DER.
	Chain [][]byte `json:"chain"`
}

// Prove signs data as this server.
func (m *Manager) Prove(data []byte) (Proof, error) {
	cert := m.shown.Load()
	key, ok := cert.PrivateKey.(crypto.Signer)
	if !ok {
		return Proof{}, errors.New("cannot sign: the key of the certificate signs nothing")
	}
	sum := sha256.Sum256(data)
	signature, err := key.Sign(rand.Reader, sum[:], crypto.SHA256)
	if err != nil {
		return Proof{}, fmt.Errorf("cannot sign: %w", err)
	}
	return Proof{Signature: signature, Chain: cert.Certificate}, nil
}

// Verify checks that a server of the authority with the fingerprint, and no proxy or broker, has signed data.
func (p Proof) Verify(fingerprint string, data []byte, now time.Time) error {
	if len(p.Chain) > longestChain {
		return fmt.Errorf("it comes with %d certificates, expected at most %d", len(p.Chain), longestChain)
	}
	chain := make([]*x509.Certificate, len(p.Chain))
	for i, der := range p.Chain {
		if len(der) > longestRequest { // a verification with a long key may take hours
			return fmt.Errorf("it comes with a certificate of %d bytes, expected at most %d", len(der), longestRequest)
		}
		var err error
		if chain[i], err = x509.ParseCertificate(der); err != nil {
			return fmt.Errorf("cannot read its certificate: %w", err)
		}
	}
	if err := verifyPinned(chain, strings.ToLower(fingerprint), now); err != nil {
		return err
	}
	if area, proxy := ProxyArea(chain[0]); proxy {
		return fmt.Errorf("signed by a proxy of area %d, not by a server", area)
	}
	key, ok := chain[0].PublicKey.(*ecdsa.PublicKey)
	sum := sha256.Sum256(data)
	if !ok || !ecdsa.VerifyASN1(key, sum[:], p.Signature) {
		return errors.New("its signature does not match")
	}
	return nil
}
