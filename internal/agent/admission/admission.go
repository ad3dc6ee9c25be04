// Package admission asks a server to let this host join. It owns the facts that the agent sends, and which answers it
// accepts. Package joining carries the request. The agent owns its key, and stores the answer.
package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"drover/internal/agent"
	"drover/internal/agent/uplink"
	"drover/internal/joining"
	"drover/internal/pki"
	"drover/internal/wire"
)

// Config says where to join, and as whom.
type Config struct {
	// Dir is the agent's own directory, as agent.Config has it.
	Dir string
	// Server is the URL of the server's API.
	Server string
	// Token is the token that 'drover token create' printed.
	Token string
	// IP is the address by which callers name the host; empty means the address of this host on the route to the
	// server. ID is an optional stable id of the host.
	IP, ID string
	// InsecureHTTP allows a URL without TLS that is not on loopback.
	InsecureHTTP bool
	Build        string
}

// Join makes the agent's keys if there are none, asks the server to admit the agent, and stores the enrolment. A host
// that has joined before keeps its key, and the server recognises it. If Join fails, it changes nothing, except that
// there is a key. No error contains the token.
func Join(ctx context.Context, cfg Config) (wire.Enrolment, error) {
	token, unusable := wire.ParseJoinToken(cfg.Token)
	if unusable != nil {
		unusable = fmt.Errorf("cannot use the token: %w", unusable)
	}
	server, err := joining.ServerURL(cfg.Server, cfg.InsecureHTTP)
	if err := errors.Join(err, unusable, wire.NameFaults(cfg.IP, cfg.ID)); err != nil {
		return wire.Enrolment{}, err
	}
	if cfg.IP == "" {
		if cfg.IP, err = joining.AddressTowards(ctx, server); err != nil {
			return wire.Enrolment{}, err
		}
	}
	key, err := agent.OwnKey(cfg.Dir)
	if err != nil {
		return wire.Enrolment{}, err
	}
	sealing, err := agent.SealingKeys(cfg.Dir, key)
	if err != nil {
		return wire.Enrolment{}, err
	}
	r := request(cfg, token)
	r.Sealing, _, _ = sealing.Newest()
	body, err := wire.SealJoin(r, key)
	if err != nil {
		return wire.Enrolment{}, err
	}
	data, err := joining.Ask(ctx, server, token.Fingerprint, body)
	if err != nil {
		return wire.Enrolment{}, err
	}
	var e wire.Enrolment
	if err := json.Unmarshal(data, &e); err != nil {
		return wire.Enrolment{}, fmt.Errorf("cannot read the answer of %s: is it a drover server?", server.Host)
	}
	if err := check(e, server.Scheme == "https"); err != nil {
		return wire.Enrolment{}, fmt.Errorf("cannot use the server's answer: %w", err)
	}
	return e, uplink.SaveEnrolment(cfg.Dir, e)
}

func request(cfg Config, token wire.JoinToken) wire.JoinRequest {
	name, _ := os.Hostname() // it is for display only
	return wire.JoinRequest{
		Token: token.ID, Secret: token.Secret, At: time.Now().UTC(), IP: cfg.IP, ID: cfg.ID, Name: name,
		Build: cfg.Build, Host: agent.Machine(),
	}
}

// check rejects an answer that the agent could not work with, or that would make it connect without TLS.
func check(e wire.Enrolment, verified bool) error {
	if len(e.URLs) == 0 || e.JWT == "" || e.Fleet == "" || len(e.ManifestKeys) == 0 || len(e.SealingKeys) == 0 {
		return errors.New("it is incomplete")
	}
	if e.CA != "" {
		if _, err := pki.Trusting(e.CA); err != nil {
			return err
		}
	}
	for _, address := range e.URLs {
		if verified && (e.CA == "" || !strings.HasPrefix(address, "tls://")) {
			return fmt.Errorf("its fabric at %s has no TLS", address)
		}
	}
	return nil
}
