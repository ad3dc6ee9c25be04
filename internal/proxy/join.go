package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"drover/internal/joining"
	"drover/internal/pki"
	"drover/internal/wire"
)

// JoinConfig says which server a proxy joins, and with which data.
type JoinConfig struct {
	// Dir is the proxy's own directory.
	Dir string
	// Server is the URL of the server's API; Token is the token that 'drover token create --role proxy' printed.
	Server, Token string
	// Name is the proxy's name for people. Advertise is the host:port at which the agents of its area reach its
	// fabric.
	Name, Advertise string
	Build           string
}

// Join makes the proxy's keys if there are none, asks the server to admit the proxy, and stores the enrolment. A proxy
// that has joined before keeps its keys. If Join fails, it changes nothing, except that there are keys. No error
// contains the token; errors are those of joining.Ask and errors in the arguments.
func Join(ctx context.Context, cfg JoinConfig) (wire.ProxyEnrolment, error) {
	token, err := wire.ParseJoinToken(cfg.Token)
	if err != nil {
		return wire.ProxyEnrolment{}, fmt.Errorf("cannot use the token: %w", err)
	}
	server, err := joining.ServerURL(cfg.Server, false)
	if err != nil {
		return wire.ProxyEnrolment{}, err
	}
	id, err := ownIdentity(cfg.Dir)
	if err != nil {
		return wire.ProxyEnrolment{}, err
	}
	csr, err := pki.RequestCertificate(id.tls)
	if err != nil {
		return wire.ProxyEnrolment{}, err
	}
	sealing, _, _ := id.sealing.Newest()
	body, err := wire.SealJoin(wire.JoinRequest{
		Token: token.ID, Secret: token.Secret, Sealing: sealing, At: time.Now().UTC(), Build: cfg.Build,
		Proxy: &wire.ProxyFacts{Name: cfg.Name, Advertise: cfg.Advertise, Certificate: csr},
	}, id.key)
	if err != nil {
		return wire.ProxyEnrolment{}, err
	}
	data, err := joining.Ask(ctx, server, token.Fingerprint, body)
	if err != nil {
		return wire.ProxyEnrolment{}, err
	}
	var e wire.ProxyEnrolment
	if err := json.Unmarshal(data, &e); err != nil {
		return wire.ProxyEnrolment{}, fmt.Errorf("cannot read the answer of %s: is it a drover server?", server.Host)
	}
	if err := check(e); err != nil {
		return wire.ProxyEnrolment{}, err
	}
	if _, err := id.certificate(e); err != nil {
		return wire.ProxyEnrolment{}, err
	}
	return e, save(cfg.Dir, e)
}
