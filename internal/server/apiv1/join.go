package apiv1

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"

	"drover/internal/server/edge"
	"drover/internal/server/enrol"
)

// maxJoin is the largest request to join.
const maxJoin = 16 << 10

// join lets a host in that shows a token. It is the one call without an app: the token is all the right that there is.
func (h *Handler) join(ctx context.Context, c *call) (reply, error) {
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	if h.Joining.Enroller == nil {
		return reply{}, noEnroller()
	}
	data, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, maxJoin))
	if err != nil {
		return reply{}, decodeProblem(err)
	}
	from := enrol.Origin{Remote: c.Audit.Remote}
	if relay, ok := ctx.Value(relayKey{}).(enrol.Relay); ok {
		from.Relay = &relay
	}
	enrolment, attempt, err := h.Joining.Enroller.Join(ctx, data, from)
	c.Audit.Detail, _ = json.Marshal(attempt) // a struct of texts and numbers
	c.Audit.Target = attempt.Key
	if attempt.Cloud != nil {
		c.Audit.Target = edge.Clip(fmt.Sprintf("%d:%s %s", *attempt.Cloud, attempt.IP, attempt.Key))
	}
	if refusal, ok := errors.AsType[*enrol.Refusal](err); ok {
		p := problemf(joinStatus(refusal.Reason), "%s", refusal.Text)
		p.retryAfter = int(math.Ceil(refusal.Retry.Seconds()))
		return reply{}, p
	}
	if err != nil {
		return reply{}, failure("let the host join", err)
	}
	c.Audit.Allowed = true
	return ok(enrolment)
}

// relayKey is the context key of the proxy that passes a call on.
type relayKey struct{}

// WithRelay marks a call as one that a proxy passes on, whom the fabric has vouched for.
func WithRelay(ctx context.Context, by enrol.Relay) context.Context {
	return context.WithValue(ctx, relayKey{}, by)
}

func joinStatus(r enrol.Reason) int {
	switch r {
	case enrol.Malformed:
		return http.StatusBadRequest
	case enrol.Unfit:
		return http.StatusUnprocessableEntity
	case enrol.Taken:
		return http.StatusConflict
	case enrol.TooOften:
		return http.StatusTooManyRequests
	case enrol.NotYet:
		return http.StatusServiceUnavailable
	default:
		return http.StatusForbidden
	}
}

// removeAgent takes a host out, by its key or any of its names. What runs there goes on.
func (h *Handler) removeAgent(ctx context.Context, c *call) (reply, error) {
	id := c.subject("id")
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	if h.Joining.Enroller == nil {
		return reply{}, noEnroller()
	}
	a, known := h.Directory.ByKey(id)
	if !known {
		a, known = h.Directory.LookupID(id)
	}
	if !known {
		return reply{}, problemf(http.StatusNotFound, "there is no host %q", edge.Clip(id))
	}
	c.Audit.Target = edge.Clip(addressOf(a) + " " + a.Key)
	if err := h.Joining.Enroller.Remove(ctx, a.Key); err != nil {
		return reply{}, stored(err, "host", id)
	}
	return reply{status: http.StatusNoContent}, nil
}
