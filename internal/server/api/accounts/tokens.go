package accounts

import (
	"context"
	"net/http"
	"time"

	v1 "drover/api/v1"
	"drover/internal/server/access"
	"drover/internal/server/api/call"
	"drover/internal/server/edge"
	"drover/internal/server/store"
)

func viewToken(t store.Token) v1.Token {
	return v1.Token{
		ID: t.ID, Kind: string(t.Kind), User: t.User, Note: t.Note, CreatedAt: t.Created,
		SeenAt: call.OptionalTime(t.LastUse), ExpiresAt: call.OptionalTime(t.Expires),
	}
}

// maxTTL is the longest lifetime of a token that expires.
const maxTTL = 10 * 365 * 24 * time.Hour

// CreateToken gives a user a token. Only this reply shows the token.
func (h *Handler) CreateToken(ctx context.Context, c *call.Call) (call.Reply, error) {
	name := c.Subject("name")
	var req v1.TokenRequest
	if err := c.Decode(ctx, &req); err != nil {
		return call.Reply{}, err
	}
	if most := int64(maxTTL / time.Second); req.TTLSeconds < 0 || req.TTLSeconds > most {
		return call.Reply{}, call.Invalid("ttl_seconds", "is %d: expected 0 to %d", req.TTLSeconds, most)
	}
	token, hash := access.NewToken()
	t := store.Token{ID: newID(), Kind: store.APIToken, User: name, Hash: hash, Note: req.Note, Created: h.Now()}
	if req.TTLSeconds > 0 {
		t.Expires = t.Created.Add(time.Duration(req.TTLSeconds) * time.Second)
	}
	if err := h.Tokens.CreateToken(ctx, t); err != nil {
		return call.Reply{}, call.StoreProblem(err, "user", name)
	}
	v := viewToken(t)
	v.Token = token
	return call.Reply{Status: http.StatusCreated, Body: v}, nil
}

// mayManage rejects a caller that is neither an administrator nor the named user with proven credentials.
func mayManage(c *call.Call, name string) error {
	if p := c.Principal; p.Admin || p.Proven && p.User == name && p.App == access.PersonApp(name) {
		return nil
	}
	return call.Problemf(http.StatusForbidden, "%s is not an administrator, and may only see own tokens", c.Principal.Who())
}

// ListTokens lists all tokens of a user, without pages, because they are few.
func (h *Handler) ListTokens(ctx context.Context, c *call.Call) (call.Reply, error) {
	name := c.Subject("name")
	if err := c.Params.Done(); err != nil {
		return call.Reply{}, err
	}
	if err := mayManage(c, name); err != nil {
		return call.Reply{}, err
	}
	if _, err := h.Users.GetUser(ctx, name); err != nil {
		return call.Reply{}, call.StoreProblem(err, "user", name)
	}
	tokens, err := h.Tokens.ListTokens(ctx, name)
	if err != nil {
		return call.Reply{}, call.Failure("list the tokens", err)
	}
	return call.OK(call.PageOf(c, call.Viewed(tokens, viewToken), nil))
}

// DeleteToken removes a token. The token is invalid from then on.
func (h *Handler) DeleteToken(ctx context.Context, c *call.Call) (call.Reply, error) {
	name, id := c.Request.PathValue("name"), c.Request.PathValue("id")
	c.Audit.Target = edge.Clip(name + " " + id)
	if err := c.Params.Done(); err != nil {
		return call.Reply{}, err
	}
	if err := mayManage(c, name); err != nil {
		return call.Reply{}, err
	}
	if err := h.Tokens.DeleteToken(ctx, name, id); err != nil {
		return call.Reply{}, call.StoreProblem(err, "token", id)
	}
	return call.Reply{Status: http.StatusNoContent}, nil
}
