package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"drover/internal/server/fleet"
	"drover/internal/server/store"
	"drover/internal/wire"
)

// Enrol lets the agent of this machine join, without a token: it is written into the register with its sealing key, and
// gets its token for the fabric.
func (s *Server) Enrol(ctx context.Context, publicKey, sealing string, cloud int, ip, id string) (
	wire.Enrolment, error,
) {
	known, ok := s.directory.ByKey(publicKey)
	if !ok {
		known = store.Agent{Key: publicKey, Created: time.Now()}
	}
	known.Cloud, known.IP, known.ID, known.Sealing = cloud, ip, id, sealing
	if err := s.directory.Join(ctx, known, time.Now()); err != nil {
		return wire.Enrolment{}, err
	}
	return s.trust.Enrolment(known)
}

// Introduced returns nil once the agent has introduced itself to this server, so that answers about the agent come from
// its own reports.
func (s *Server) Introduced(agent string) error {
	if !s.directory.Introduction(agent) {
		return errors.New("the agent has not introduced itself yet")
	}
	return nil
}

// areaOf returns the area of an agent, which may have just joined through another server.
func (s *Server) areaOf(ctx context.Context, agent string) (area int, known bool, err error) {
	a, known, err := s.directory.Find(ctx, agent)
	return a.Cloud, known, err
}

// sealingOf returns the sealing keys of an agent, which may have just joined through another server.
func (s *Server) sealingOf(ctx context.Context, agent string) (key string, known bool, err error) {
	a, known, err := s.directory.Find(ctx, agent)
	return a.Sealing, known, err
}

// reseal takes another sealing key of an agent, which the agent itself has signed. Nobody else can make an agent's key
// change, and no old change counts.
func (s *Server) reseal(ctx context.Context, agent string, signed []byte) {
	c, err := s.pairs.OpenSealing(signed, agent, s.clock.Now())
	if err == nil {
		err = s.directory.Reseal(ctx, agent, func(keys string) (string, error) {
			return s.pairs.Replaced(keys, c.Key, c.Since)
		})
	}
	if err != nil {
		s.cfg.Log.WarnContext(ctx, "cannot take new sealing key of an agent", "agent", agent, "error", err)
	}
}

// cloned records that a second host uses the key of an agent.
func (s *Server) cloned(ctx context.Context, agent string, rival fleet.Rival) {
	a, _ := s.directory.ByKey(agent)
	detail, _ := json.Marshal(map[string]string{"agent": agent, "second": rival.Name}) // two strings always encode
	row := store.AuditRow{
		At: s.clock.Wall(), Action: "hosts.copy", Target: fmt.Sprintf("%d:%s", a.Cloud, a.IP), Targets: 1,
		Detail: detail, Message: "two hosts use the key of one agent: the second one was refused",
	}
	if err := s.audit.PutAudit(ctx, row); err != nil {
		s.cfg.Log.ErrorContext(ctx, "cannot store the record of a copied agent", "error", err)
	}
}
