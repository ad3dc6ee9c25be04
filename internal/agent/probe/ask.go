package probe

import (
	"context"
	"errors"
	"time"

	"drover/internal/process"
)

const (
	// askLimit is how long whoever asks waits at most. It leaves time for one command that hangs to be ended.
	askLimit = patience + time.Second
	// askAgain is how long an answer counts: whoever polls must not keep a host busy with questions.
	askAgain = 10 * time.Second
)

// Ask returns what the process says of itself now: an answer younger than ten seconds, or that of a question which is
// under way or begins at once. Of several who ask at the same time one has the commands run and the others wait for the
// same answers. It blocks for six seconds at most, or until ctx ends, and then returns what was known before; nil where
// that is nothing. It needs Run to be running. What it finds out changes neither the schedule nor the count of
// failures, but for an end of those.
func (k *Keeper) Ask(ctx context.Context, id process.ID, s Subject) (health, version *process.Answer) {
	if !asks(s.Spec) {
		return nil, nil
	}
	limit := time.NewTimer(askLimit)
	defer limit.Stop()
	e := k.want(id, s)
	for {
		k.mu.Lock()
		told, over := e.changed, !e.wanted()
		if health, version = e.answers(); e.subject.Instance != s.Instance {
			health, version, over = nil, nil, true // another one has taken its place
		}
		k.mu.Unlock()
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

// want marks what of a process has no fresh answer as wanted.
func (k *Keeper) want(id process.ID, s Subject) *entry {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.entries[id]
	switch {
	case e != nil && e.watched && e.subject.Instance == s.Instance && e.subject.Revision >= s.Revision:
		// It is asked as it is to be: whoever asks may know an older spec than the schedule.
	case e == nil || !e.is(s):
		if e != nil && e.subject.Instance == s.Instance {
			s.StartedAt = e.subject.StartedAt
		}
		e = k.subject(id, e, s)
	}
	now := k.cfg.Clock()
	for i := range e.parts {
		p := &e.parts[i]
		if p.line != "" && (p.answer == nil || now-p.at >= askAgain) {
			p.wanted = true
		}
	}
	k.arrange(e)
	return e
}

// Try runs a command line that only asks, as the user and in the directory of the spec, and returns nil when it ends
// with status 0 within the limit; the error says what came of it otherwise, in one line. It blocks at most that long
// and the moment it takes to end the command with all that it has started, which is done in any case. When ctx ends
// first the error is that of ctx. It does not need Run.
func (k *Keeper) Try(ctx context.Context, id process.ID, spec *process.Spec, line string, limit time.Duration) error {
	r := k.question(ctx, id, spec, line, limit)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case r.failure != "":
		return errors.New(healthText(r))
	}
	return nil
}
