package probe

import (
	"context"
	"errors"
	"time"

	"drover/internal/process"
)

const (
	// askLimit is the longest wait of a caller. It leaves time to end one command that hangs.
	askLimit = patience + time.Second
	// askAgain is how long an answer counts, so that a caller that polls does not keep the host busy with commands.
	askAgain = 10 * time.Second
)

// Ask returns what the process says of itself now: an answer younger than ten seconds, or the answer of a command that
// is under way or begins at once. If several callers ask at the same time, they share the same answers. Ask blocks for
// at most six seconds, or until ctx ends, and then returns the previous answer, which may be nil. It needs Run to be
// running. It changes neither the schedule nor the count of failures, except that a success resets the count.
func (pr *Prober) Ask(ctx context.Context, id process.ID, s Subject) (health, version *process.Answer) {
	if !asks(s.Spec) {
		return nil, nil
	}
	limit := time.NewTimer(askLimit)
	defer limit.Stop()
	e := pr.want(id, s)
	for {
		pr.mu.Lock()
		told, over := e.changed, !e.wanted()
		if health, version = e.answers(); e.subject.Instance != s.Instance {
			health, version, over = nil, nil, true // another instance has replaced this one
		}
		pr.mu.Unlock()
		if over {
			return health, version
		}
		select {
		case <-told:
		case <-limit.C:
			return health, version
		case <-ctx.Done():
			return health, version
		}
	}
}

// want marks the commands of a process that have no fresh answer as wanted.
func (pr *Prober) want(id process.ID, s Subject) *entry {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	e := pr.entries[id]
	switch {
	case e != nil && e.watched && e.subject.Instance == s.Instance && e.subject.Revision >= s.Revision:
		// The entry is up to date: the caller may know an older spec than the schedule.
	case e == nil || !e.is(s):
		if e != nil && e.subject.Instance == s.Instance {
			s.StartedAt = e.subject.StartedAt
		}
		e = pr.subject(id, e, s)
	}
	now := pr.cfg.Clock()
	for i := range e.parts {
		p := &e.parts[i]
		if p.line != "" && (p.answer == nil || now-p.at >= askAgain) {
			p.wanted = true
		}
	}
	pr.arrange(e)
	return e
}

// Try runs a command line that only asks, as the user and in the directory of the spec. It returns nil if the command
// exits with status 0 within the limit; otherwise the error describes the result in one line. Try always ends the
// command with every process that it started. It blocks at most for the limit and the moment that this takes. If ctx
// ends first, the error is that of ctx. It does not need Run.
func (pr *Prober) Try(ctx context.Context, id process.ID, spec *process.Spec, line string, limit time.Duration) error {
	r := pr.question(ctx, id, spec, line, limit)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case r.failure != "":
		return errors.New(healthText(r))
	}
	return nil
}
