package orders

import (
	"errors"
	"fmt"

	"drover/internal/agent/specstore"
)

// Introduced implements report.Orders.
func (i *Intake) Introduced(sealed []byte) (again bool) {
	if len(sealed) == 0 {
		return false
	}
	again, err := i.reconcile(sealed)
	if err != nil {
		i.cfg.Log.Error("cannot apply the records of the server", "error", err)
		return false
	}
	return again
}

// reconcile applies the server's records. Like Take, it accepts only a signed and fresh message for this agent.
func (i *Intake) reconcile(sealed []byte) (again bool, err error) {
	m, err := i.cfg.Link.OpenManifest(sealed)
	if err == nil {
		err = i.freshness.admit(m.Issued, i.cfg.Wall())
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
	older, err := i.cfg.Records.Reconcile(all, m.Desired.Revision)
	if older > 0 {
		i.cfg.Log.Warn("disk was an old copy, updated it from the server", "processes", older)
	}
	// Stop if a part changed nothing: the agent would ask for it for ever.
	return m.Desired.More && older > 0, err
}
