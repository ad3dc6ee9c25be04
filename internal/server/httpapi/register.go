package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"

	"drover/internal/gse"
	"drover/internal/process"
	"drover/internal/server/edge"
	"drover/internal/server/store"
)

// registering returns the endpoint of a registration call: a task like any other, but the reply waits for the results
// and holds them.
func (s *server) registering(op process.Op) endpoint {
	return func(ctx context.Context, c *call) (payload, error) {
		ops, err := gse.ReadRegistration(c.params, op)
		if err != nil {
			return nil, badParameters(err)
		}
		return s.submitAndWait(ctx, c, ops)
	}
}

// submitAndWait submits operations, waits for their results and replies with them. A key without a result in time has
// code 115, which tells the caller to repeat the call. The repeat returns the results of the running operations, and
// executes nothing twice.
func (s *server) submitAndWait(ctx context.Context, c *call, ops []gse.Operation, more ...any) (payload, error) {
	matter, what, err := repeatOf(c, ops, more)
	if err != nil {
		return nil, err
	}
	asked, err := s.askedBefore(ctx, c, matter, what)
	if err != nil {
		return nil, err
	}
	task := asked
	if task == "" {
		if task, err = s.submit(ctx, c, ops); err != nil {
			return nil, err
		}
	} else {
		c.describe(ops, 0, task) // entries counts the targets
	}
	wait, cancel := context.WithTimeout(ctx, registering)
	defer cancel()
	waited := s.Engine.Wait(wait, task)
	switch {
	case waited == nil && asked != "":
		err = s.Repeats.DropRepeat(ctx, matter)
	case waited != nil: // also for a caller that has hung up, because it may repeat the call
		put, cancel := context.WithTimeout(context.WithoutCancel(ctx), edge.AuditTime)
		defer cancel()
		err = s.Repeats.PutRepeat(put, store.Repeat{Of: matter, What: what, Task: task, At: s.Now()},
			s.Now().Add(-repeating))
	}
	if waited != nil && wait.Err() == nil {
		err = waited
	}
	if err != nil {
		return nil, failure("wait for the result", err)
	}
	return func(w *jsonWriter) error {
		w.raw("{")
		err := s.entries(ctx, c, task, w, gse.RegistrationResult)
		w.raw("}")
		return err
	}, nil
}

// askedBefore returns the task of a repeated call; empty if the call is new.
func (s *server) askedBefore(ctx context.Context, c *call, matter, what string) (string, error) {
	r, err := s.Repeats.FindRepeat(ctx, matter)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return "", nil
	case err != nil:
		return "", failure("look for an earlier call", err)
	}
	if r.What == what && s.Now().Sub(r.At) < repeating {
		err := s.Tasks.TaskItems(ctx, r.Task, c.Principal.App, func(store.ItemView) error { return nil })
		if err == nil {
			return r.Task, nil
		}
		if !errors.Is(err, store.ErrNotFound) {
			return "", failure("look for an earlier call", err)
		}
	}
	// This is another request. A later call must not get the results of the earlier request.
	if err := s.Repeats.DropRepeat(ctx, matter); err != nil {
		return "", failure("look for an earlier call", err)
	}
	return "", nil
}

// repeatOf identifies a registration call: matter by its caller and subject, what by the whole request.
func repeatOf(c *call, ops []gse.Operation, more []any) (matter, what string, err error) {
	matter, err = digest(c.Principal.App, ops[0].ID, ops[0].Targets)
	if err == nil {
		what, err = digest(c.route.name, ops, more)
	}
	if err != nil {
		return "", "", failure("look for an earlier call", err)
	}
	return matter, what, nil
}

// digest returns a hash of values.
func digest(values ...any) (string, error) {
	text, err := json.Marshal(values)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}
