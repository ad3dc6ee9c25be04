package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"
)

// nodeLife is the validity of the certificate of an external broker. Its operator renews it by hand or by a timer.
const nodeLife = 365 * 24 * time.Hour

// IssueNode makes a certificate and its key, in PEM, for a broker to which clients and other brokers connect by the
// names. The certificate marks a broker, so that joining clients do not mistake it for a server. Its issuers follow it.
// IssueNode fails if external certificates were given.
func (m *Manager) IssueNode(names []string) (cert, key []byte, err error) {
	set := m.authorities.Load()
	if set == nil {
		return nil, nil, errors.New("cannot certify a broker: the certificates come from another authority")
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot certify a broker: %w", err)
	}
	now := m.now()
	wanted := set.present.leaf("drover broker", now)
	if ends := now.Add(nodeLife); ends.Before(set.present.cert.NotAfter) {
		wanted.NotAfter = ends
	}
	wanted.URIs = []*url.URL{{Scheme: ownScheme, Host: brokerHost}}
	wanted.ExtKeyUsage = append(wanted.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	name(wanted, names)
	_, der, err := sign(wanted, set.present.cert, &private.PublicKey, set.present.key)
	if err != nil {
		return nil, nil, err
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot certify a broker: %w", err)
	}
	chain := set.chain(der)
	return []byte(chain), pem.EncodeToMemory(&pem.Block{Type: pemKey, Bytes: encoded}), nil
}

func isBroker(leaf *x509.Certificate) bool {
	return slices.ContainsFunc(leaf.URIs, func(uri *url.URL) bool {
		return uri.Scheme == ownScheme &&
			uri.Host == brokerHost
	})
}
