package edge

import (
	"context"

	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/store"
)

// DeniedError tells that a call lacks rights.
type DeniedError struct{ Missing access.Missing }

// Error names the first missing right.
func (e *DeniedError) Error() string { return "no right to " + e.Missing.What() }

// Results calls fn for each item of a task, in their order. It fails with a *DeniedError before it calls fn if the
// caller may not read one of the items: rights may have been withdrawn since the task. App is the app that must own the task;
// empty means any. Host returns the host of an item as rights see it.
func (e *Config) Results(ctx context.Context, c *Call, task, app string, host func(store.ItemView) access.Host,
	fn func(store.ItemView) error,
) error {
	if !c.Principal.Admin {
		if err := e.mayRead(ctx, c, task, app, host); err != nil {
			return err
		}
	}
	return e.Tasks.TaskItems(ctx, task, app, fn)
}

// mayRead fails unless the caller may still do, or query, everything that a task did.
func (e *Config) mayRead(ctx context.Context, c *Call, task, app string, host func(store.ItemView) access.Host) error {
	var missing access.Missing
	reaches, query := access.NewReaches(c.Principal), access.OperationOf(process.Query)
	err := e.Tasks.TaskItems(ctx, task, app, func(v store.ItemView) error {
		if h := host(v); !reaches.MayRead(v.Op, v.Process.Namespace, h) {
			missing.Check(reaches.On(query, v.Process.Namespace), query, v.Process.String(), h)
		}
		return nil
	})
	if err == nil && missing.Any() {
		err = &DeniedError{missing}
	}
	return err
}
