// Package certificates has the TLS certificates of a server that hosts on other machines reach: that of the fabric, and
// that of its API. Package pki makes and renews them.
package certificates

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"path/filepath"
	"time"

	"drover/internal/group"
	"drover/internal/pki"
)

// Config says which certificates a server has.
type Config struct {
	// Dir is the directory of the server's authority.
	Dir string
	// Names are host names and addresses by which callers and hosts reach the server.
	Names []string
	// CertFile and KeyFile are an external certificate of the API. Without them the API uses the certificate of the
	// fabric, which is of the server's own authority.
	CertFile, KeyFile string
	// InsecureHTTP has the API speak without TLS.
	InsecureHTTP bool
	Log          *slog.Logger
}

// Certificates are the certificates of a server. A nil *Certificates belongs to a server without TLS, which is on
// loopback.
type Certificates struct {
	// Fabric keeps the certificate of the fabric, and api that of the API; both are the same unless a certificate was
	// given.
	Fabric *pki.Manager
	api    *pki.Manager
	// trust verifies the fabric for the server itself.
	trust *pki.Trust
	cfg   Config
}

// Open opens the certificates, and makes those that are missing.
func Open(cfg Config) (*Certificates, error) {
	c := &Certificates{cfg: cfg}
	opened := pki.Config{Dir: cfg.Dir, Names: cfg.Names, Now: time.Now, Log: cfg.Log}
	var err error
	if c.Fabric, err = pki.Open(opened); err != nil {
		return nil, err
	}
	c.api = c.Fabric
	if cfg.CertFile != "" {
		opened.CertFile, opened.KeyFile = cfg.CertFile, cfg.KeyFile
		if c.api, err = pki.Open(opened); err != nil {
			return nil, err
		}
	}
	if c.trust, err = pki.NewTrust(c.Fabric.CA()); err != nil {
		return nil, err
	}
	for _, one := range c.List() {
		cfg.Log.Info("opened certificate", "certificate", one.Name, "ends", one.Ends)
	}
	if cfg.InsecureHTTP {
		cfg.Log.Warn("API has no TLS: secrets and tokens cross the network unencrypted")
	}
	return c, nil
}

// Run renews the certificates until ctx ends.
func (c *Certificates) Run(ctx context.Context) error {
	if c == nil {
		<-ctx.Done()
		return nil
	}
	parts := []group.Part{{Name: "certificates of the fabric", Run: c.Fabric.Run}}
	if c.api != c.Fabric {
		parts = append(parts, group.Part{Name: "certificates of the API", Run: c.api.Run})
	}
	return group.Run(ctx, parts...)
}

// APIHasTLS reports whether the API speaks TLS.
func (c *Certificates) APIHasTLS() bool { return c != nil && !c.cfg.InsecureHTTP }

// Listener wraps a listener of the API with TLS, if the API uses TLS. It offers HTTP/1.1 only, as without TLS, because
// deadlines and streams are tested on HTTP/1.1.
func (c *Certificates) Listener(l net.Listener) net.Listener {
	if !c.APIHasTLS() {
		return l
	}
	cfg := c.api.ServerTLS()
	cfg.NextProtos = []string{"http/1.1"}
	return tls.NewListener(l, cfg)
}

// FabricTLS returns the TLS configuration of the fabric's listener, and the one by which the server verifies the
// fabric; nil without TLS.
func (c *Certificates) FabricTLS() (shown, verified *tls.Config) {
	if c == nil {
		return nil, nil
	}
	return c.Fabric.ServerTLS(), pki.NoProxies(c.trust.TLS())
}

// CA returns the authorities that verify the fabric, in PEM; empty without TLS.
func (c *Certificates) CA() string {
	if c == nil {
		return ""
	}
	return c.Fabric.CA()
}

// AuthoritiesChanged makes the server trust the present authorities of the fabric.
func (c *Certificates) AuthoritiesChanged() error {
	if c == nil {
		return nil
	}
	return c.trust.Set(c.Fabric.CA())
}

// Fingerprint returns the fingerprint of the authority of the API. A client that joins through a proxy verifies that of
// the fabric instead: Fabric.Fingerprint.
func (c *Certificates) Fingerprint() string { return c.api.Fingerprint() }

// CAFile returns the file with which callers verify the API; empty if a certificate was given or there is no TLS.
func (c *Certificates) CAFile() string {
	if !c.APIHasTLS() || c.api != c.Fabric {
		return ""
	}
	return filepath.Join(c.cfg.Dir, pki.CAFile)
}

// List returns the certificates and their ends; none without TLS.
func (c *Certificates) List() []pki.Certificate {
	if c == nil {
		return nil
	}
	list := c.Fabric.Certificates()
	if c.api != c.Fabric {
		for _, one := range c.api.Certificates() {
			list = append(list, pki.Certificate{Name: "api", Ends: one.Ends})
		}
	}
	return list
}
