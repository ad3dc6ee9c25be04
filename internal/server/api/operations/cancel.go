package operations

import (
	"context"
	"errors"
	"net/http"

	v1 "drover/api/v1"
	"drover/internal/server/api/call"
	"drover/internal/server/store"
)

// Cancels ends operations before they begin.
type Cancels interface {
	// Cancel ends the items of a task that were never sent, and asks the agents about the others. It returns
	// store.ErrNotFound for an unknown task and for a task of another app (an empty app matches any).
	Cancel(ctx context.Context, id, app string) (store.CancelCounts, error)
}

// Cancel ends the targets of a task that have not begun.
func (h *Handler) Cancel(ctx context.Context, c *call.Call) (call.Reply, error) {
	id := c.Subject("id")
	if err := c.Params.Done(); err != nil {
		return call.Reply{}, err
	}
	cancelled, err := h.Cancels.Cancel(ctx, id, c.App())
	if err != nil {
		return call.Reply{}, h.onlyOwnTask(ctx, c, id, err)
	}
	c.Audit.Targets = cancelled.Ended + cancelled.Asked
	t, err := h.Listing.GetTask(ctx, id, c.App())
	if err != nil {
		return call.Reply{}, call.StoreProblem(err, "operation", id)
	}
	return call.OK(v1.Cancellation{
		Cancelled: cancelled.Ended, Asked: cancelled.Asked, Begun: cancelled.Begun, Operation: ViewTask(t),
	})
}

// onlyOwnTask turns an error of Cancel into a problem. If another app began the task and the caller may see the task,
// the problem says who may cancel it.
func (h *Handler) onlyOwnTask(ctx context.Context, c *call.Call, id string, err error) error {
	if errors.Is(err, store.ErrNotFound) && c.Principal.Proven {
		if app, failed := h.taskApp(ctx, c, id); failed == nil {
			if t, failed := h.Listing.GetTask(ctx, id, app); failed == nil {
				return call.Problemf(http.StatusForbidden,
					"%[1]s began operation %[2]s: only %[1]s or an administrator may cancel it", beganBy(t.App, t.User), id)
			}
		}
	}
	return call.StoreProblem(err, "operation", id)
}
