// Package reports receives the reports of agents: it opens the sealed ones, admits as many as the server can bear,
// rejects those of agents that are not in the register, and seals the answers. The engine handles the report itself.
package reports

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"drover/internal/frame"
	"drover/internal/server/fleet"
	"drover/internal/server/pairs"
	"drover/internal/server/repeats"
	"drover/internal/wire"
)

// Workers is how many reports are handled at the same time: many agents report at once, and each report waits for a
// commit.
const Workers = 2 * waitInTurn

// unregistered is logged for each such report; package repeats limits it.
const unregistered = repeats.UnregisteredAgent

// Config is what a Receiver needs.
type Config struct {
	// Pairs has the keys of the agents.
	Pairs     *pairs.Pairs
	Directory *fleet.Directory
	// Registered says that agents must be in the register of the database. Without it the server has one agent, which
	// its own program has enrolled.
	Registered bool
	// Handle stores a report that an agent has sealed at a time, and returns the answer.
	Handle func(ctx context.Context, agent string, report []byte, sealed time.Time) (answer []byte)
	// Handled is called with the size of each handled report, in bytes, and the time that it took.
	Handled func(size int, took time.Duration)
	// Now is the clock of the fleet, and Wall the time for people.
	Now, Wall func() time.Time
	Log       *slog.Logger
}

// Receiver answers reports. It is safe for concurrent use.
type Receiver struct {
	cfg     Config
	limiter *limiter
	// unregistered has the agents whose reports cannot be opened, because the register does not have them.
	unregistered fleet.Unregistered
}

// New returns a receiver.
func New(cfg Config) *Receiver { return &Receiver{cfg: cfg, limiter: newLimiter()} }

// Answer implements fabric.Handler for the reports of agents. It returns nil for a report that gets no answer.
func (r *Receiver) Answer(ctx context.Context, subject string, data []byte) []byte {
	area, agent, err := wire.ReportAgent(subject)
	if err != nil {
		r.cfg.Log.WarnContext(ctx, "rejected report", "error", err)
		return nil
	}
	size := len(data)
	pair, head, report, err := r.open(ctx, agent, data)
	if errors.Is(err, pairs.ErrUnknownMember) {
		r.unregistered.Reported(area, agent, r.cfg.Wall())
	}
	if err != nil {
		r.cfg.Log.WarnContext(ctx, "rejected report", "agent", agent, "error", err)
		return pairs.Hint(err)
	}
	a, known := r.cfg.Directory.ByKey(agent)
	over, ok := r.limiter.admit(ctx, agent, known && a.Cloud == area, report)
	if !ok {
		r.cfg.Log.WarnContext(ctx, "dropped report: too many reports are in progress", "agent", agent)
		return nil
	}
	defer over()
	reply, rejected := r.reject(ctx, area, agent)
	if !rejected {
		begun := time.Now()
		reply = r.cfg.Handle(ctx, agent, report, head.Time)
		r.cfg.Handled(size, time.Since(begun))
	}
	if reply, _, err = pair.Seal(frame.Ack, r.cfg.Now(), head.Nonce, reply); err != nil {
		r.cfg.Log.ErrorContext(ctx, "cannot seal answer to a report", "agent", agent, "error", err)
		return nil
	}
	return reply
}

// open opens the report of an agent. The answer is sealed with the same pair.
func (r *Receiver) open(ctx context.Context, agent string, data []byte) (
	pair *frame.Pair, head frame.Head, report []byte, err error,
) {
	if head, err = frame.Read(data); err != nil {
		return nil, head, nil, err
	}
	if pair, err = r.cfg.Pairs.For(ctx, agent, head.Pair); err != nil {
		return nil, head, nil, err
	}
	head, report, err = pair.Open(frame.Report, data, frame.Nonce{})
	return pair, head, report, err
}

// reject answers the report of an agent that is not in the register: it was just removed, or the database is older than
// the agent's joining. The agent must not return under names that it chooses, nor continue in an area that it has left.
func (r *Receiver) reject(ctx context.Context, area int, agent string) (reply []byte, rejected bool) {
	if !r.cfg.Registered {
		return nil, false
	}
	a, known, err := r.cfg.Directory.Find(ctx, agent)
	if known && a.Cloud == area {
		return nil, false
	}
	ack := wire.ReportAck{Version: wire.Version, Error: "this server does not know the agent: have it join again"}
	if err != nil {
		ack.Error = "this server cannot find out whether the agent has joined: " + err.Error()
	}
	r.cfg.Log.WarnContext(ctx, unregistered, "agent", agent, "error", err)
	reply, err = json.Marshal(ack)
	if err != nil { // not reached: a plain struct always encodes
		return nil, true
	}
	return reply, true
}

// Unknown returns the agents whose reports cannot be opened because the register does not have them. It leaves out
// agents that have joined since their last report.
func (r *Receiver) Unknown() []fleet.UnregisteredAgent {
	var unknown []fleet.UnregisteredAgent
	for _, a := range r.unregistered.List(r.cfg.Wall()) {
		if _, joined := r.cfg.Directory.ByKey(a.Key); joined {
			r.unregistered.Joined(a.Key)
			continue
		}
		unknown = append(unknown, a)
	}
	return unknown
}
