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

// registering returns the endpoint of a registration call: a task like any other, but one that is waited for, so that
// the reply holds the results.
func (s *server) registering(op process.Op) endpoint {
	return func(ctx context.Context, c *call) (payload, error) {
		ops, err := gse.ReadRegistration(c.params, op)
		if err != nil {
			return nil, badParameters(err)
		}
		return s.settled(ctx, c, ops)
	}
}

// settled submits operations and waits for their results, which are the reply. A key that has none in time is at 115,
// which tells the caller to ask again: whoever does gets the results of what is under way, and nothing is done twice.
func (s *server) settled(ctx context.Context, c *call, ops []gse.Operation, more ...any) (payload, error) {
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
		c.describe(ops, 0, task) // they are counted as they are read
	}
	wait, cancel := context.WithTimeout(ctx, registering)
	defer cancel()
	waited := s.Engine.Wait(wait, task)
	switch {
	case waited == nil && asked != "":
		err = s.Repeats.DropRepeat(ctx, matter)
	case waited != nil: // also for one that has hung up: he may be about to ask again
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

// askedBefore returns the task of a call that is repeated, empty where it is not.
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
	// Something else is asked now: what was asked before is not to be the answer to it later.
	if err := s.Repeats.DropRepeat(ctx, matter); err != nil {
		return "", failure("look for an earlier call", err)
	}
	return "", nil
}

// repeatOf names a registration call: whose it is and of what, and all that it asks for.
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

// digest returns a short text that stands for values.
func digest(values ...any) (string, error) {
	text, err := json.Marshal(values)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}
