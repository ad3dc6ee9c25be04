package install

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/internal/server/api/call"
	"drover/internal/server/edge"
	"drover/internal/server/keyring"
	"drover/internal/server/store"
)

// Keys has the keys by which agents trust the server, and counts the agents that trust the current keys.
type Keys struct {
	Ring Ring
	// Reached returns the number of agents that are online, and how many of them trust the latest keys of the ring.
	Reached func() (online, reached int)
	// Without returns the names of the other servers that do not hold a key.
	Without func(ctx context.Context, key string) ([]string, error)
	// Stopped returns the other servers that ran in the last days and do not run now.
	Stopped func(ctx context.Context) ([]store.Server, error)
}

// Ring replaces keys while agents run.
type Ring interface {
	State() keyring.State
	Announce(ctx context.Context, kind keyring.Kind) (keyring.State, error)
	Advance(ctx context.Context, kind keyring.Kind, keep time.Duration) (keyring.State, error)
	Withdraw(ctx context.Context, kind keyring.Kind) (keyring.State, error)
	Retire(ctx context.Context, kind keyring.Kind, id string) (keyring.State, error)
}

// The bounds of the time for which a former key is kept.
const (
	leastKeep = time.Minute
	mostKeep  = 10 * 366 * 24 * time.Hour
)

func (h *Handler) viewKeys(s keyring.State) v1.Keys {
	v := v1.Keys{Keys: []v1.Key{}}
	for _, kind := range keyring.Kinds() {
		for _, k := range s.Keys[kind] {
			v.Keys = append(v.Keys, v1.Key{
				Kind: string(kind), ID: k.ID, Stage: string(k.Stage), Since: k.Since, Until: call.OptionalTime(k.Until),
				Ends: call.OptionalTime(k.Ends),
			})
		}
	}
	v.Online, v.Reached = h.Keys.Reached()
	return v
}

// keysReply returns the reply with the keys, and with the stopped servers that lack some of them.
func (h *Handler) keysReply(ctx context.Context, s keyring.State) (call.Reply, error) {
	v := h.viewKeys(s)
	stopped, err := h.Keys.Stopped(ctx)
	if err != nil {
		return call.Reply{}, call.Failure("list the servers", err)
	}
	for _, server := range stopped {
		one := v1.StoppedServer{Name: edge.Clip(server.Name), LastSeenAt: server.Beat.UTC()}
		for _, kind := range keyring.Kinds() {
			if slices.ContainsFunc(s.Keys[kind], func(k keyring.Key) bool {
				return (k.Stage == keyring.Present || k.Stage == keyring.Next) && !slices.Contains(server.Keys, k.ID)
			}) {
				one.Lacks = append(one.Lacks, string(kind))
			}
		}
		if len(one.Lacks) > 0 {
			v.StoppedServers = append(v.StoppedServers, one)
		}
	}
	return call.OK(v)
}

// ListKeys shows the keys of the fleet, the number of agents that trust them, and the stopped servers that lack some of
// them.
func (h *Handler) ListKeys(ctx context.Context, c *call.Call) (call.Reply, error) {
	if err := c.Params.Done(); err != nil {
		return call.Reply{}, err
	}
	return h.keysReply(ctx, h.Keys.Ring.State())
}

// RotateKeys advances a key rotation by one step: it announces the next key to agents, or starts to use it.
func (h *Handler) RotateKeys(ctx context.Context, c *call.Call) (call.Reply, error) {
	kind := keyring.Kind(c.Subject("kind"))
	if err := c.Params.Done(); err != nil {
		return call.Reply{}, err
	}
	var req v1.RotateRequest
	if err := c.Decode(ctx, &req); err != nil {
		return call.Reply{}, err
	}
	c.Audit.Detail, _ = json.Marshal(req) // it was decoded from JSON
	keep := time.Duration(req.KeepSeconds) * time.Second
	if req.KeepSeconds != 0 && (req.KeepSeconds < int64(leastKeep/time.Second) ||
		req.KeepSeconds > int64(mostKeep/time.Second)) {
		return call.Reply{}, call.Invalid("keep_seconds", "is %d: expected %d to %d, or 0 for the default",
			req.KeepSeconds, int64(leastKeep/time.Second), int64(mostKeep/time.Second))
	}
	if keep == 0 {
		keep = keyring.Keep
	}
	s, err := h.Keys.Ring.Announce(ctx, kind)
	if errors.Is(err, keyring.ErrUnderWay) {
		s, err = h.advanceKeys(ctx, kind, keep, req.Force)
	}
	if err != nil {
		return call.Reply{}, keysProblem(err, kind)
	}
	return h.keysReply(ctx, s)
}

// advanceKeys starts to use the next key. It fails if an online agent or a server does not know that key, unless the
// caller forces it.
func (h *Handler) advanceKeys(ctx context.Context, kind keyring.Kind, keep time.Duration,
	force bool,
) (keyring.State, error) {
	if v := h.viewKeys(h.Keys.Ring.State()); v.Reached < v.Online && !force {
		return keyring.State{},
			call.Problemf(http.StatusConflict,
				"%d of %d online hosts have not received the next key yet: try again in some seconds, or force the rotation", v.Online-v.Reached, v.Online)
	}
	for _, k := range h.Keys.Ring.State().Keys[kind] {
		if k.Stage != keyring.Next || force {
			continue
		}
		others, err := h.Keys.Without(ctx, k.ID)
		if err != nil {
			return keyring.State{}, err
		}
		if len(others) > 0 {
			return keyring.State{},
				call.Problemf(http.StatusConflict,
					"the next key is not on server %s: bring it there ('drover server keys export' here, "+
						"'drover server keys import' there), or force the rotation; a server without the next key continues with an older key", edge.Clip(strings.Join(others, ", ")))
		}
	}
	return h.Keys.Ring.Advance(ctx, kind, keep)
}

// DropKey discards a next key, or drops a former key.
func (h *Handler) DropKey(ctx context.Context, c *call.Call) (call.Reply, error) {
	kind, id := keyring.Kind(c.Subject("kind")), c.Request.PathValue("id")
	if err := c.Params.Done(); err != nil {
		return call.Reply{}, err
	}
	c.Audit.Target = edge.Clip(string(kind) + " " + id)
	for _, k := range h.Keys.Ring.State().Keys[kind] {
		if k.ID != id {
			continue
		}
		var err error
		switch k.Stage {
		case keyring.Next:
			_, err = h.Keys.Ring.Withdraw(ctx, kind)
		case keyring.Former:
			_, err = h.Keys.Ring.Retire(ctx, kind, id)
		case keyring.Present:
			err = call.Problemf(http.StatusConflict, "%s is the present key: rotate it first", id)
		}
		if err != nil {
			return call.Reply{}, keysProblem(err, kind)
		}
		return call.Reply{Status: http.StatusNoContent}, nil
	}
	return call.Reply{}, call.Problemf(http.StatusNotFound, "there is no %s key %q",
		edge.Clip(string(kind)), edge.Clip(id))
}

func keysProblem(err error, kind keyring.Kind) error {
	if p, ok := errors.AsType[*call.Problem](err); ok {
		return p
	}
	switch {
	case errors.Is(err, keyring.ErrNoKind):
		return call.Problemf(http.StatusNotFound,
			"unknown kind of key %q: expected manifest, sealing, ca, agent-signer, proxy-signer or server-signer; drover dev has no ca", edge.Clip(string(kind)))
	case errors.Is(err, keyring.ErrNotHeld), errors.Is(err, keyring.ErrNoNext), errors.Is(err, keyring.ErrNoSuch),
		errors.Is(err, keyring.ErrChanged):
		return call.Problemf(http.StatusConflict, "%v", err)
	}
	return call.Failure("change the keys", err)
}
