package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"drover/internal/idle"

	"drover/internal/agent/specstore"
	"drover/internal/wire"
)

// How long an agent that has just started holds back what its disk tells it to begin: until there is a link, and then
// until the server has said what it knows.
const (
	waitForLink   = 5 * time.Second
	waitForAnswer = 3 * time.Second
	// waitForKeyHolder is how long it does after the server has said that another host has used the same key a moment
	// ago. The server takes less time to find out whether that one is still there.
	waitForKeyHolder = 30 * time.Second
)

// confirmation is the wait for the server's word on what is on the disk. It happens once in the life of an agent.
type confirmation struct {
	// done is closed when nobody waits any longer.
	done      chan struct{}
	linked    chan struct{}
	confirmed chan struct{}
	// rejected tells what the server says of an agent that it does not take for the one whose key it has.
	rejected chan wire.Stranger
	once     sync.Once
	log      *slog.Logger
}

func newConfirmation(log *slog.Logger) *confirmation {
	return &confirmation{
		done: make(chan struct{}), linked: make(chan struct{}, 1), confirmed: make(chan struct{}),
		rejected: make(chan wire.Stranger, 1), log: log,
	}
}

// noteLink notes that there is a link. It does not block.
func (c *confirmation) noteLink() { idle.Wake(c.linked) }

// noteRejection notes that the server does not take this agent for the one whose key it has. It does not block.
func (c *confirmation) noteRejection(s wire.Stranger) {
	select {
	case c.rejected <- s:
	default: // it is told again soon
	}
}

// confirm notes that the server has spoken, and that all it said has been handed on.
func (c *confirmation) confirm() { c.once.Do(func() { close(c.confirmed) }) }

// run waits, and then until ctx ends.
func (c *confirmation) run(ctx context.Context) error {
	limit := time.NewTimer(waitForLink)
	defer limit.Stop()
	linked := c.linked
	for waiting := true; waiting; {
		select {
		case <-linked:
			limit.Reset(waitForAnswer)
			linked = nil
		case <-c.confirmed:
			waiting = false
		case s := <-c.rejected:
			linked = nil // it has come over a link
			limit.Reset(waitForKeyHolder)
			if s.Clone {
				limit.Stop() // whatever its disk says is another host's
			}
		case <-limit.C:
			c.log.Warn("server did not confirm the records on this disk, continuing without confirmation")
			waiting = false
		case <-ctx.Done():
			return nil
		}
	}
	close(c.done)
	<-ctx.Done()
	return nil
}

// introductionAnswered takes in the server's answer to an introduction, and returns whether there is more of it.
func (a *Agent) introductionAnswered(sealed []byte) (again bool) {
	if len(sealed) > 0 {
		var err error
		if again, err = a.reconcile(sealed); err != nil {
			a.cfg.Log.Error("cannot apply the records of the server", "error", err)
			again = false
		}
	}
	a.acceptance.accept()
	if !again {
		a.confirmation.confirm()
	}
	return again
}

// reconcile brings the disk up to what the server knows. It obeys as orderIntake does: only what is signed, fresh and
// meant for it.
func (a *Agent) reconcile(sealed []byte) (again bool, err error) {
	m, err := a.trust.open(sealed)
	if err == nil {
		err = a.intake.freshness.admit(m.Issued, a.wall())
	}
	if err != nil {
		return false, fmt.Errorf("answer refused: %w", err)
	}
	if m.Desired == nil {
		return false, errors.New("answer refused: it does not mention this disk")
	}
	all := make([]specstore.Desired, 0, len(m.Desired.Processes))
	for _, p := range m.Desired.Processes {
		rec := specstore.Record{
			ID: p.Process, Hosted: p.Hosted, Want: p.Want, RegisteredAt: p.RegisteredAt,
			Revision: p.Revision,
		}
		switch {
		case p.Spec != nil:
			rec.Spec = *p.Spec
		case !p.Gone:
			return false, fmt.Errorf("answer refused: it has no spec of %s", p.Process)
		}
		all = append(all, specstore.Desired{Record: rec, Gone: p.Gone})
	}
	older, err := a.super.Reconcile(all, m.Desired.Revision)
	if older > 0 {
		a.cfg.Log.Warn("disk was an old copy, updated it from the server", "processes", older)
	}
	// One that has changed nothing would be repeated for ever.
	return m.Desired.More && older > 0, err
}
