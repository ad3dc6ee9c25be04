package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	v1 "drover/api/v1"
	"drover/internal/reserve"
	"drover/internal/server/access"
	"drover/internal/server/store"
)

// firstAppCode is the default code of the first app.
const firstAppCode = "drover-admin"

// SignInLink returns a link that signs the operator of this machine in to the console, once and within ten minutes.
func (s *Server) SignInLink(ctx context.Context) (string, error) {
	who := access.LocalAdmin(uint32(os.Geteuid())) //nolint:gosec // an account is not negative
	link, err := s.api.Accounts.SignIn(ctx, &who, "")
	if err != nil {
		return "", fmt.Errorf("cannot make a link to the console: %w", err)
	}
	return link.URL, nil
}

// FirstApp creates the first app if there is none yet, with every right. It uses the given credentials, or generates
// them if code is empty, and returns them. If there was an app already, made is false and the secret is empty: the
// store keeps only the hash of a secret.
func (s *Server) FirstApp(ctx context.Context, code,
	secret string,
) (usedCode, usedSecret string, made bool, err error) {
	n, err := s.store.CountApps(ctx)
	if err != nil {
		return "", "", false, err
	}
	if n > 0 {
		return firstAppCode, "", false, nil
	}
	if code == "" {
		code, secret = firstAppCode, access.NewSecret()
	}
	now := time.Now()
	err = s.store.CreateApp(ctx, store.App{
		Code: code, Note: "made at the first start",
		Secrets:      []store.Secret{{ID: "first", Hash: s.secrets.Hash(secret), Created: now}},
		MayNameUsers: true, Admin: true,
		Created: now, Changed: now,
	})
	if errors.Is(err, store.ErrExists) { // another server started at the same time
		return firstAppCode, "", false, nil
	}
	if err != nil {
		return "", "", false, fmt.Errorf("cannot store the first app: %w", err)
	}
	return code, secret, true, nil
}

// state is the state of this server for the API.
func (s *Server) state() v1.Server {
	state := v1.Server{
		Version: s.cfg.Build, Now: s.clock.Wall(), Notes: s.notes(), Servers: s.cluster.Servers(),
		Certificates: []v1.Certificate{},
	}
	if err := s.Ready(); err != nil {
		state.Problem = err.Error()
	}
	state.Hosts, state.HostsOnline = s.directory.Count(s.clock.Now())
	for _, c := range s.certificates.List() {
		state.Certificates = append(state.Certificates, v1.Certificate{Name: c.Name, EndsAt: c.Ends})
	}
	if size, free, err := reserve.Disk(s.cfg.Dir); err == nil { // a readiness check tells any fault of the directory
		state.Disk = &v1.Space{Free: free, Size: size}
	}
	state.UnknownHosts = s.unknownHosts()
	return state
}

// mostUnknownHosts is how many unknown hosts the state of a server names.
const mostUnknownHosts = 100

// unknownHosts names the hosts that report in vain.
func (s *Server) unknownHosts() []v1.UnknownHost {
	agents := s.reports.Unknown()
	if len(agents) == 0 {
		return nil
	}
	addresses := s.brokers.AgentAddresses()
	hosts := make([]v1.UnknownHost, min(len(agents), mostUnknownHosts))
	for i := range hosts {
		a := &agents[i]
		hosts[i] = v1.UnknownHost{
			Key: a.Key, Cloud: a.Area, Address: addresses[a.Key], FirstSeenAt: a.First.UTC(), LastSeenAt: a.Last.UTC(),
		}
	}
	return hosts
}
