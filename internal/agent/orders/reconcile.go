package orders

import (
	"fmt"

	"drover/internal/agent/record"
	"drover/internal/agent/specstore"
	"drover/internal/wire"
)

// Introduced implements report.Orders.
func (i *Intake) Introduced(desired *wire.Desired) (again bool) {
	if desired == nil {
		return false
	}
	again, err := i.reconcile(desired)
	if err != nil {
		i.cfg.Log.Error("cannot apply the records of the server", "error", err)
		return false
	}
	return again
}

// reconcile applies the server's records.
func (i *Intake) reconcile(desired *wire.Desired) (again bool, err error) {
	all := make([]specstore.Desired, 0, len(desired.Processes))
	for _, p := range desired.Processes {
		rec := record.Record{
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
	older, err := i.cfg.Records.Reconcile(all, desired.Revision)
	if older > 0 {
		i.cfg.Log.Warn("disk was an old copy, updated it from the server", "processes", older)
	}
	// Stop if a part changed nothing: the agent would ask for it for ever.
	return desired.More && older > 0, err
}
