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
	"drover/internal/server/apiv1"
	"drover/internal/server/enrol"
	"drover/internal/server/metrics"
	"drover/internal/server/store"
	"drover/internal/wire"
)

// Fleet is how agents on other machines reach a server.
type Fleet struct {
	// Advertise are the addresses, host:port, that agents connect to; without any it is that of the fabric.
	Advertise []string
	// Names are host names and addresses by which callers and hosts reach the server.
	Names []string
	// CertFile and KeyFile are certificates of the API that somebody else has issued; without them it shows one of the
	// server's own authority, as the fabric always does.
	CertFile, KeyFile string
	// Proxies is where proxies connect to the embedded fabric, host:port; empty where none do. AdvertiseProxies are the
	// addresses by which they reach it; without any it is that one, or the hosts of Advertise with its port.
	Proxies          string
	AdvertiseProxies []string
	// InsecureHTTP has the API speak without TLS. The fabric has it all the same.
	InsecureHTTP bool
}

// joining is what a server has that agents on other machines join.
type joining struct {
	fleet Fleet
	// fabric keeps the certificate of the fabric, api that of the API: the same one unless certificates were given.
	fabric, api *pki.Keeper
	// trust is how the server itself verifies its fabric.
	trust    *pki.Trust
	enroller *enrol.Enroller
	proxies  *proxies
}

// openJoining opens what the listeners need. It returns nil for a server that nobody joins.
func openJoining(cfg Config) (*joining, error) {
	if cfg.Fleet == nil {
		return nil, nil //nolint:nilnil // a part that is not there
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

// run keeps the certificates, until ctx ends.
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

// listener has the API speak TLS, where it does. HTTP/1.1 is spoken as without it: deadlines and streams are proven on
// that.
func (j *joining) listener(l net.Listener) net.Listener {
	if j == nil || j.fleet.InsecureHTTP {
		return l
	}
	cfg := j.api.ServerTLS()
	cfg.NextProtos = []string{"http/1.1"}
	return tls.NewListener(l, cfg)
}

// brokerTLS returns what the fabric's listener shows, and how the server verifies it; nil without TLS.
func (j *joining) brokerTLS() (shown, verified *tls.Config) {
	if j == nil {
		return nil, nil
	}
	return j.fabric.ServerTLS(), pki.NoProxies(j.trust.TLS())
}

// openEnroller makes the part that lets hosts join.
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
		Fingerprint: s.joining.fingerprint, Now: s.clock.Wall,
	})
	return nil
}

// leaves is where proxies connect; empty for nowhere.
func (j *joining) leaves() string {
	if j == nil {
		return ""
	}
	return j.fleet.Proxies
}

// fingerprint is that of the authority by which whoever joins with a token knows whom to believe. What hosts of an area
// with a proxy join through is of the server's own authority, whatever the API shows.
func (j *joining) fingerprint(t store.JoinToken) string {
	if t.Role == store.RoleAgent && j.proxies.serves(t.Cloud) {
		return j.fabric.Fingerprint()
	}
	return j.api.Fingerprint()
}

// joiningAPI is what the API offers of it.
func (s *Server) joiningAPI() apiv1.Joining {
	offered := apiv1.Joining{Store: s.store}
	if s.joining != nil {
		offered.Enroller, offered.Proxies = s.joining.enroller, s.joining.proxies
	}
	return offered
}

// areaOf returns the area that an agent has joined, perhaps a moment ago and at another server.
func (s *Server) areaOf(ctx context.Context, agent string) (area int, known bool, err error) {
	a, known, err := s.directory.Find(ctx, agent)
	return a.Cloud, known, err
}

// stranger answers the report of an agent that is not in the register: it was removed a moment ago, or the database is
// older than the agent's joining. It must not come in again under names that it chooses, nor go on in an area that it
// has left.
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
	if err != nil { // a struct of a number and two texts
		return nil, true
	}
	return reply, true
}

// certificates tells /metrics when certificates end.
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

// Trust is what an operator is told of a server's certificates.
type Trust struct {
	// CAFile is the certificate that callers verify the API by; empty where it was given or there is no TLS.
	CAFile string
	// Fingerprint is what tokens hold.
	Fingerprint string
}

// Trust returns what those who connect have to trust.
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

// logTrust says once what has been opened.
func (j *joining) logTrust(log *slog.Logger) {
	for _, c := range j.certificates() {
		log.Info("opened certificate", "certificate", c.Name, "ends", c.Ends)
	}
	if j.fleet.InsecureHTTP {
		log.Warn("API has no TLS: secrets and tokens cross the network unencrypted")
	}
}
