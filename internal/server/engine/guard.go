package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"drover/internal/server/fleet"
	"drover/internal/wire"
)

// Guard is what an engine asks and tells of who reports.
type Guard struct {
	// Trust returns the sealed manifest by which an agent is to renew what it trusts; nil where it has the latest.
	Trust func(ctx context.Context, agent string, held wire.TrustHeld) []byte
	// Cloned hears that a second host uses the key of an agent.
	Cloned func(ctx context.Context, agent string, rival fleet.Rival)
}

// errStranger refuses the report of a host that the key does not belong to, as far as is known.
var errStranger = errors.New("another host uses the same key")

// identify refuses a report that comes from another host than the one that the agent's key belongs to.
func (c *collector) identify(ctx context.Context, agent string, r *wire.Report, now time.Time) *wire.Stranger {
	name := ""
	if r.Hello != nil {
		name = r.Hello.Name
	}
	claim, rival, news := c.directory.Claim(agent, r.Place, name, r.Hello != nil, now)
	switch claim {
	case fleet.Unsettled:
		return &wire.Stranger{Reason: "another host has used the key of this agent a moment ago: this one is taken for it once that one has not been heard for some seconds"}
	case fleet.Denied:
		if news {
			c.log.ErrorContext(ctx, "two hosts use the key of one agent, the second one is refused", "agent", agent, "second", rival.Name)
			c.guard.Cloned(ctx, agent, rival)
		}
		return &wire.Stranger{Clone: true, Reason: "another host uses the key of this agent at the same time: this disk is a copy; " +
			"stop the agent here and have it join as a host of its own: drover-agent join --new-identity"}
	case fleet.Granted:
	}
	return nil
}

// unreadable notes for people that an agent speaks a version that this server does not know.
func (c *collector) unreadable(ctx context.Context, agent string) {
	text := fmt.Sprintf("speaks a later version of the protocol than this server, which speaks %d: upgrade the servers before the agents", wire.Version)
	if c.directory.Remark(agent, text) {
		c.log.ErrorContext(ctx, "agent of a later version was refused", "agent", agent, "version", wire.Version)
	}
}
