package server

import (
	"context"
	"path/filepath"
	"time"

	"drover/internal/server/bus"
	"drover/internal/server/certificates"
	"drover/internal/server/keyring"
	"drover/internal/server/store"
)

// openKeys opens the keys by which agents trust this server, and the certificates of a server that hosts on other
// machines reach.
func (s *Server) openKeys() (err error) {
	cfg := keyring.Config{Dir: s.cfg.Dir, Now: time.Now, Log: s.cfg.Log}
	if f := s.cfg.Fleet; f != nil {
		s.certificates, err = certificates.Open(certificates.Config{
			Dir: filepath.Join(s.cfg.Dir, "pki"), Names: f.Names, CertFile: f.CertFile, KeyFile: f.KeyFile,
			InsecureHTTP: f.InsecureHTTP, Log: s.cfg.Log,
		})
		if err != nil {
			return err
		}
		cfg.Authorities = s.certificates.Fabric
	}
	s.keys, err = keyring.Open(cfg)
	return err
}

// openTickets opens the keys of TLS sessions with the embedded broker; there are none without TLS.
func (s *Server) openTickets(ctx context.Context) (err error) {
	if s.certificates == nil {
		return nil
	}
	s.tickets, err = keyring.OpenTickets(ctx, keyring.TicketConfig{
		Facts: s.store, Secrets: func() ([][]byte, error) { return s.keys.Secrets("keys of session tickets") },
		Revision: func() int { return s.keys.State().Revision },
		Now:      s.clock.Now, Log: s.cfg.Log,
	})
	return err
}

// shareKeys synchronizes the keys with all servers on the database.
func (s *Server) shareKeys(ctx context.Context) error {
	s.keys.OnChange(s.keysChanged)
	return s.keys.Join(ctx, s.store)
}

// keysChanged makes all that this server signs, issues and verifies use the changed keys.
func (s *Server) keysChanged() {
	defer s.trust.Changed()
	s.pairs.Changed()
	s.tickets.Changed()
	s.bus.Changed(bus.Keys)
	if err := s.brokers.KeysChanged(); err != nil {
		s.cfg.Log.Error("cannot update the credential signers of the fabric", "error", err)
	}
	if err := s.certificates.AuthoritiesChanged(); err != nil {
		s.cfg.Log.Error("cannot update the certificate authorities of the fabric", "error", err)
	}
	s.proxies.KeysChanged()
	s.cfg.Log.Info("keys changed", "revision", s.keys.State().Revision)
}

// fingerprint returns the fingerprint of the authority that a joining client verifies. Hosts of an area with a proxy
// always join through a certificate of the server's own authority, whatever certificate the API has.
func (s *Server) fingerprint(t store.JoinToken) string {
	if t.Role == store.RoleAgent && s.proxies.Serves(t.Cloud) {
		return s.certificates.Fabric.Fingerprint()
	}
	return s.certificates.Fingerprint()
}

// Trust describes a server's certificates to an operator.
type Trust struct {
	// CAFile is the certificate by which callers verify the API; empty if a certificate was given or there is no TLS.
	CAFile string
	// Fingerprint is the fingerprint in tokens.
	Fingerprint string
}

// Trust returns what clients of the server must trust.
func (s *Server) Trust() Trust {
	if s.certificates == nil {
		return Trust{}
	}
	return Trust{Fingerprint: s.certificates.Fingerprint(), CAFile: s.certificates.CAFile()}
}
