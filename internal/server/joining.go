package server

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"log/slog"
	"net"
	"path/filepath"
	"time"

	"drover/internal/group"
	"drover/internal/pki"
	"drover/internal/server/api/install"
	"drover/internal/server/enrol"
	"drover/internal/server/metrics"
	"drover/internal/server/store"
	"drover/internal/wire"
)

// Fleet is how agents on other machines reach a server.
type Fleet struct {
	// Advertise are the addresses, host:port, to which agents connect; the default is the address of the fabric.
	Advertise []string
	// Names are host names and addresses by which callers and hosts reach the server.
	Names []string
	// CertFile and KeyFile are an external certificate of the API. Without them the API uses a certificate of the
	// server's own authority, as the fabric always does.
	CertFile, KeyFile string
	// Proxies is the address at which proxies connect to the embedded fabric, host:port; empty means none.
	// AdvertiseProxies are the addresses by which proxies reach it; the default is Proxies, or the hosts of Advertise
	// with its port.
	Proxies          string
	AdvertiseProxies []string
	// InsecureHTTP has the API speak without TLS. The fabric has it all the same.
	InsecureHTTP bool
}

// joining holds the parts for agents on other machines.
type joining struct {
	fleet Fleet
	// fabric keeps the certificate of the fabric, and api the certificate of the API; both are the same unless
	// certificates were given.
	fabric, api *pki.Keeper
	// trust verifies the fabric for the server itself.
	trust    *pki.Trust
	enroller *enrol.Enroller
	proxies  *proxies
}

// openJoining opens the parts for the listeners. It returns nil for a server that no agents join.
func openJoining(cfg Config) (*joining, error) {
	if cfg.Fleet == nil {
		return nil, nil //nolint:nilnil // nil is a missing part
	}
	j := &joining{fleet: *cfg.Fleet}
	common := pki.Config{Dir: filepath.Join(cfg.Dir, "pki"), Names: cfg.Fleet.Names, Now: time.Now, Log: cfg.Log}
	var err error
	if j.fabric, err = pki.Open(common); err != nil {
		return nil, err
	}
	j.api = j.fabric
	if cfg.Fleet.CertFile != "" {
		common.CertFile, common.KeyFile = cfg.Fleet.CertFile, cfg.Fleet.KeyFile
		if j.api, err = pki.Open(common); err != nil {
			return nil, err
		}
	}
	if j.trust, err = pki.NewTrust(j.fabric.CA()); err != nil {
		return nil, err
	}
	j.logTrust(cfg.Log)
	return j, nil
}

// run renews the certificates, until ctx ends.
func (j *joining) run(ctx context.Context) error {
	if j == nil {
		<-ctx.Done()
		return nil
	}
	parts := []group.Part{{Name: "certificates of the fabric", Run: j.fabric.Run}}
	if j.api != j.fabric {
		parts = append(parts, group.Part{Name: "certificates of the API", Run: j.api.Run})
	}
	return group.Run(ctx, parts...)
}

// listener wraps a listener of the API with TLS, if the API uses TLS. It offers HTTP/1.1 only, as without TLS, because
// deadlines and streams are tested on HTTP/1.1.
func (j *joining) listener(l net.Listener) net.Listener {
	if j == nil || j.fleet.InsecureHTTP {
		return l
	}
	cfg := j.api.ServerTLS()
	cfg.NextProtos = []string{"http/1.1"}
	return tls.NewListener(l, cfg)
}

// brokerTLS returns the TLS configuration of the fabric's listener, and the one by which the server verifies it; nil
// without TLS.
func (j *joining) brokerTLS() (shown, verified *tls.Config) {
	if j == nil {
		return nil, nil
	}
	return j.fabric.ServerTLS(), pki.NoProxies(j.trust.TLS())
}

// openEnroller creates the part that admits hosts.
func (s *Server) openEnroller(ctx context.Context) error {
	if s.joining == nil {
		return nil
	}
	s.joining.proxies = newProxies(s)
	if err := s.joining.proxies.load(ctx); err != nil {
		return err
	}
	s.joining.enroller = enrol.New(enrol.Config{
		Store: s.store, Directory: s.directory, Broker: notifyingBroker{s.broker, s.joining.proxies},
		Issue:       s.trust.enrolment,
		Proxies:     s.joining.proxies,
		Fingerprint: s.joining.fingerprint, Happened: s.engine.EventsStored, Now: s.clock.Wall,
	})
	return nil
}

// leaves returns the address to which proxies connect; empty if there is none.
func (j *joining) leaves() string {
	if j == nil {
		return ""
	}
	return j.fleet.Proxies
}

// fingerprint returns the fingerprint of the authority that a joining client verifies. Hosts of an area with a proxy
// always join through a certificate of the server's own authority, whatever certificate the API has.
func (j *joining) fingerprint(t store.JoinToken) string {
	if t.Role == store.RoleAgent && j.proxies.serves(t.Cloud) {
		return j.fabric.Fingerprint()
	}
	return j.api.Fingerprint()
}

// joiningAPI returns the part of the API for joining.
func (s *Server) joiningAPI() install.Joining {
	offered := install.Joining{Store: s.store}
	if s.joining != nil {
		offered.Enroller, offered.Proxies = s.joining.enroller, s.joining.proxies
	}
	return offered
}

// areaOf returns the area of an agent, which may have just joined through another server.
func (s *Server) areaOf(ctx context.Context, agent string) (area int, known bool, err error) {
	a, known, err := s.directory.Find(ctx, agent)
	return a.Cloud, known, err
}

// stranger answers the report of an agent that is not in the register: it was just removed, or the database is older
// than the agent's joining. The agent must not return under names that it chooses, nor continue in an area that it has
// left.
func (s *Server) stranger(ctx context.Context, area int, agent string) (reply []byte, refused bool) {
	if s.joining == nil {
		return nil, false
	}
	joined, known, err := s.areaOf(ctx, agent)
	if known && joined == area {
		return nil, false
	}
	ack := wire.ReportAck{Version: wire.Version, Error: "this server does not know the agent: have it join again"}
	if err != nil {
		ack.Error = "this server cannot find out whether the agent has joined: " + err.Error()
	}
	s.cfg.Log.WarnContext(ctx, strangerMessage, "agent", agent, "error", err)
	reply, err = json.Marshal(ack)
	if err != nil { // not reached: a plain struct always encodes
		return nil, true
	}
	return reply, true
}

// certificates returns the ends of certificates for /metrics.
func (j *joining) certificates() []metrics.Certificate {
	if j == nil {
		return nil
	}
	var list []metrics.Certificate
	for _, c := range j.fabric.Certificates() {
		list = append(list, metrics.Certificate{Name: c.Name, Ends: c.Ends})
	}
	if j.api != j.fabric {
		for _, c := range j.api.Certificates() {
			list = append(list, metrics.Certificate{Name: "api", Ends: c.Ends})
		}
	}
	return list
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
	j := s.joining
	if j == nil {
		return Trust{}
	}
	t := Trust{Fingerprint: j.api.Fingerprint()}
	if j.api == j.fabric && !j.fleet.InsecureHTTP {
		t.CAFile = filepath.Join(s.cfg.Dir, "pki", pki.CAFile)
	}
	return t
}

// logTrust logs the opened parts once.
func (j *joining) logTrust(log *slog.Logger) {
	for _, c := range j.certificates() {
		log.Info("opened certificate", "certificate", c.Name, "ends", c.Ends)
	}
	if j.fleet.InsecureHTTP {
		log.Warn("API has no TLS: secrets and tokens cross the network unencrypted")
	}
}
