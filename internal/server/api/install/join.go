package install

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"time"

	"drover/internal/process"
	"drover/internal/server/api/call"
	"drover/internal/server/api/hosts"
	"drover/internal/server/edge"
	"drover/internal/server/enrol"
	"drover/internal/server/store"
)

// Joining lets hosts join and leave. Enroller is nil if no host may join: in drover dev.
type Joining struct {
	Store    JoinTokens
	Enroller Enroller
	// Proxies is nil if Enroller is nil.
	Proxies hosts.Proxies
}

// Enroller joins and removes hosts.
type Enroller interface {
	NewToken(ctx context.Context, t store.JoinToken, ttl time.Duration) (made store.JoinToken, text string, err error)
	Join(ctx context.Context, data []byte, from enrol.Origin) (answer any, attempt enrol.Attempt, err error)
	Remove(ctx context.Context, key string, by process.Actor) error
	RemoveProxy(ctx context.Context, key string) error
}

// noEnroller returns the problem of a server without an Enroller, as in drover dev.
func noEnroller() error {
	return call.Problemf(http.StatusConflict, "this is drover dev, which other hosts cannot join: run 'drover server'")
}

// maxJoin is the largest request to join, in bytes.
const maxJoin = 16 << 10

// Join joins a host or a proxy that has a token. The call needs no credentials of a caller, because the token proves
// enough.
func (h *Handler) Join(ctx context.Context, c *call.Call) (call.Reply, error) {
	if err := c.Params.Done(); err != nil {
		return call.Reply{}, err
	}
	if h.Joining.Enroller == nil {
		return call.Reply{}, noEnroller()
	}
	data, err := io.ReadAll(http.MaxBytesReader(c.Response, c.Request.Body, maxJoin))
	if err != nil {
		return call.Reply{}, call.DecodeProblem(err)
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
		p := call.Problemf(joinStatus(refusal.Reason), "%s", refusal.Text)
		p.RetryAfter = int(math.Ceil(refusal.Retry.Seconds()))
		return call.Reply{}, p
	}
	if err != nil {
		return call.Reply{}, call.Failure("let the host join", err)
	}
	c.Audit.Allowed = true
	return call.OK(enrolment)
}

// relayKey is the context key of the proxy that forwards a call.
type relayKey struct{}

// WithRelay marks a call that a proxy forwards. The fabric has authenticated the proxy.
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
