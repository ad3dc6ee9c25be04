package httpapi

import (
	"context"
	"errors"
	"fmt"

	"drover/internal/gse"
	"drover/internal/process"
)

// registering returns the endpoint of a registration call: a task like any other, but one that is waited for, so that the
// reply holds the results.
func (s *server) registering(op process.Op) endpoint {
	return func(ctx context.Context, c *call) (payload, error) {
		ops, err := gse.ReadRegistration(c.params, op)
		if err != nil {
			return nil, badParameters(err)
		}
		return s.settled(ctx, c, ops)
	}
}

// settled submits operations and waits for their results, which are the reply.
func (s *server) settled(ctx context.Context, c *call, ops []gse.Operation) (payload, error) {
	task, err := s.submit(ctx, c, ops)
	if err != nil {
		return nil, err
	}
	wait, cancel := context.WithTimeout(ctx, registering)
	defer cancel()
	if err := s.Engine.Wait(wait, task); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return nil, failure("wait for the result", err)
	}
	unfinished := fmt.Sprintf("no result within %v, the call goes on as task %s", registering, task)
	return func(w *jsonWriter) error {
		w.raw("{")
		err := s.entries(ctx, c, task, w, func(it gse.Item) gse.Entry { return gse.RegistrationResult(it, unfinished) })
		w.raw("}")
		return err
	}, nil
}
