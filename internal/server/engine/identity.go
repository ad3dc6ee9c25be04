package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"drover/internal/server/fleet"
	"drover/internal/server/store"
	"drover/internal/wire"
)

// IdentityHooks are the questions and notices of an engine about the identity of agents.
type IdentityHooks struct {
	// Trust records the keys that an agent trusts. It returns the sealed manifest that updates them; nil if the agent
	// has the latest.
	Trust func(ctx context.Context, agent string, held wire.TrustHeld) []byte
	// Sealing records an agent's new sealing key (Report.Sealing).
	Sealing func(ctx context.Context, agent string, signed []byte)
	// Cloned is called when a second host uses the key of an agent.
	Cloned func(ctx context.Context, agent string, rival fleet.Rival)
}

// errOtherHost rejects a report if the agent's key belongs to another host, as far as the server knows.
var errOtherHost = errors.New("another host uses the same key")

// ownsKey reports whether a report comes from the host that owns the agent's key, as far as the server knows. If not,
// ownsKey fills in ack.
func (c *collector) ownsKey(ctx context.Context, agent string, r *wire.Report, sealed, now time.Time,
	ack *wire.ReportAck,
) bool {
	by := fleet.Claimant{Place: r.Place, Session: r.Session, Introduces: r.Hello != nil, Sealed: sealed}
	if by.Introduces {
		by.Name = shortWord(r.Hello.Name)
		if c.directory.Elsewhere(agent, by.Place, now) && c.isReplayed(ctx, agent, by.Session, ack) {
			return false
		}
	}
	claim, rival, news := c.directory.Claim(agent, by, now)
	if news {
		c.log.ErrorContext(ctx, "two hosts use the key of one agent, rejecting the second host", "agent", agent,
			"second", rival.Name)
		c.identity.Cloned(ctx, agent, rival)
	}
	switch {
	case claim == fleet.Granted:
		return true
	case isHeartbeat(r): // its introduction tells the hosts apart
		ack.Hello = true
		return false
	}
	if c.directory.Rare(agent) {
		c.ping(ctx, agent)
	}
	ack.Error, ack.Stranger = errOtherHost.Error(), &wire.Stranger{
		Reason: "another host has used the key of this agent a moment ago: this one is taken for it if that one is not heard for some seconds",
	}
	if claim == fleet.Denied {
		ack.Stranger = &wire.Stranger{
			Clone: true,
			Reason: "another host uses the key of this agent at the same time: this disk is a copy; " +
				"stop the agent here and have it join as a host of its own: drover-agent join --new-identity",
		}
	}
	return false
}

// errOldReport rejects a report that does not show that its host is online now. Somebody has kept it, the agent does
// not know the clock of the servers, or that clock has changed. The answer has the present time.
var errOldReport = errors.New("the report was sealed too long ago, or by another clock")

// isHeartbeat reports whether a report holds nothing to store.
func isHeartbeat(r *wire.Report) bool {
	return r.Hello == nil && r.Load == nil &&
		len(r.Progress)+len(r.Observed)+len(r.Events)+len(r.Open) == 0
}

// isReplayed reports whether the session of an introduction is earlier than the session of the agent's last one, and if
// so fills in ack. In that case someone has replayed the introduction, or the host's clock is behind. If the store
// fails, isReplayed returns true.
func (c *collector) isReplayed(ctx context.Context, agent, session string, ack *wire.ReportAck) bool {
	last, err := c.store.LastSession(ctx, agent)
	switch {
	case err != nil:
		ack.Error = err.Error()
	case session < last:
		ack.Session, ack.Error = last, store.ErrEarlierSession.Error()
	default:
		return false
	}
	c.log.WarnContext(ctx, "rejected introduction of agent", "agent", agent, "session", session, "last", last,
		"error", ack.Error)
	return true
}

// unreadable records for operators that an agent speaks a version that this server does not know.
func (c *collector) unreadable(ctx context.Context, agent string) {
	text := fmt.Sprintf(
		"has a later version of the protocol than this server, which has version %d: upgrade the servers before the agents", wire.Version)
	if c.directory.Remark(agent, text) {
		c.log.ErrorContext(ctx, "rejected agent of a later version", "agent", agent, "version", wire.Version)
	}
}
