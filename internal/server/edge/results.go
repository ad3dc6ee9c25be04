package edge

import (
	"context"

	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/store"
)

// DeniedError means that a call lacks rights.
type DeniedError struct{ Missing access.Missing }

// Error names the first missing right.
func (e *DeniedError) Error() string { return "no right to " + e.Missing.What() }

// Results calls fn for each item of a task, in their order. app is the app that must own the task; empty means any.
// host returns the host of an item for the check of rights.
//
// Results fails with a *DeniedError if the caller may not read one of the items, because rights may have been withdrawn
// since the task. For a caller that is not an administrator this is certain only after the last item: nothing of what
// fn receives may leave before Results returns. If fn fails, Results still checks the other items, and then returns the
// error of fn.
func (e *Config) Results(ctx context.Context, c *Call, task, app string, host func(store.ItemView) access.Host,
	fn func(store.ItemView) error,
) error {
	if c.Principal.Admin {
		return e.Tasks.TaskItems(ctx, task, app, fn)
	}
	var missing access.Missing
	var failed error
	reaches, query := access.NewReaches(c.Principal), access.OperationOf(process.Query)
	err := e.Tasks.TaskItems(ctx, task, app, func(v store.ItemView) error {
		if h := host(v); !reaches.MayRead(v.Op, v.Process.Namespace, h) {
			missing.Check(reaches.On(query, v.Process.Namespace), v.Process.String(), h)
		}
		if failed == nil && !missing.Any() {
			failed = fn(v)
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case missing.Any():
		return &DeniedError{missing}
	}
	return failed
}
