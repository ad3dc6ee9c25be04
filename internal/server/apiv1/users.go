package apiv1

import (
	"context"
	"net/http"
	"net/url"
	"time"

	v1 "drover/api/v1"
	"drover/internal/server/access"
	"drover/internal/server/edge"
	"drover/internal/server/store"
)

func viewUser(u store.User) v1.User {
	return v1.User{Name: u.Name, Note: u.Note, Disabled: u.Disabled, CreatedAt: u.Created}
}

func applyUser(r *v1.UserChange, u *store.User) {
	set(&u.Note, r.Note)
	set(&u.Disabled, r.Disabled)
}

func (h *Handler) createUser(ctx context.Context, c *call) (reply, error) {
	var req v1.UserChange
	if err := c.decode(ctx, &req); err != nil {
		return reply{}, err
	}
	c.Audit.Target = edge.Clip(req.Name)
	if err := checkName("name", req.Name, access.MaxUser); err != nil {
		return reply{}, err
	}
	u := store.User{Name: req.Name, Created: h.Now()}
	applyUser(&req, &u)
	if err := h.Users.CreateUser(ctx, u); err != nil {
		return reply{}, stored(err, "user", u.Name)
	}
	return reply{status: http.StatusCreated, body: viewUser(u), location: "/users/" + url.PathEscape(u.Name)}, nil
}

func (h *Handler) listUsers(ctx context.Context, c *call) (reply, error) {
	var after string
	limit, err := c.params.page(&after)
	if err != nil {
		return reply{}, err
	}
	users, err := h.Users.ListUsers(ctx, after, limit)
	if err != nil {
		return reply{}, failure("list the users", err)
	}
	return ok(pageOfRows(c, users, limit, viewUser, func(u store.User) any { return u.Name }))
}

func (h *Handler) getUser(ctx context.Context, c *call) (reply, error) {
	name := c.subject("name")
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	u, err := h.Users.GetUser(ctx, name)
	if err != nil {
		return reply{}, stored(err, "user", name)
	}
	return ok(viewUser(u))
}

func (h *Handler) changeUser(ctx context.Context, c *call) (reply, error) {
	name := c.subject("name")
	var req v1.UserChange
	if err := c.decode(ctx, &req); err != nil {
		return reply{}, err
	}
	if req.Name != "" && req.Name != name {
		return reply{}, invalid("name", "cannot be changed")
	}
	u, err := h.Users.ChangeUser(ctx, name, func(u *store.User) error {
		applyUser(&req, u)
		return nil
	})
	if err != nil {
		return reply{}, stored(err, "user", name)
	}
	return ok(viewUser(u))
}

func viewToken(t store.Token) v1.Token {
	return v1.Token{ID: t.ID, User: t.User, Note: t.Note, CreatedAt: t.Created, ExpiresAt: given(t.Expires)}
}

// maxTTL is the longest lifetime of a token that expires.
const maxTTL = 10 * 365 * 24 * time.Hour

// createToken gives a user a token. Only this reply shows it.
func (h *Handler) createToken(ctx context.Context, c *call) (reply, error) {
	name := c.subject("name")
	var req v1.TokenRequest
	if err := c.decode(ctx, &req); err != nil {
		return reply{}, err
	}
	if most := int64(maxTTL / time.Second); req.TTLSeconds < 0 || req.TTLSeconds > most {
		return reply{}, invalid("ttl_seconds", "is %d: expected 0 to %d", req.TTLSeconds, most)
	}
	token, hash := access.NewToken()
	t := store.Token{ID: newID(), User: name, Hash: hash, Note: req.Note, Created: h.Now()}
	if req.TTLSeconds > 0 {
		t.Expires = t.Created.Add(time.Duration(req.TTLSeconds) * time.Second)
	}
	if err := h.Tokens.CreateToken(ctx, t); err != nil {
		return reply{}, stored(err, "user", name)
	}
	v := viewToken(t)
	v.Token = token
	return reply{status: http.StatusCreated, body: v}, nil
}

// listTokens lists all tokens of a user, without pages, because they are few.
func (h *Handler) listTokens(ctx context.Context, c *call) (reply, error) {
	name := c.subject("name")
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	if _, err := h.Users.GetUser(ctx, name); err != nil {
		return reply{}, stored(err, "user", name)
	}
	tokens, err := h.Tokens.ListTokens(ctx, name)
	if err != nil {
		return reply{}, failure("list the tokens", err)
	}
	return ok(pageOf(c, viewed(tokens, viewToken), nil))
}

func (h *Handler) deleteToken(ctx context.Context, c *call) (reply, error) {
	name, id := c.r.PathValue("name"), c.r.PathValue("id")
	c.Audit.Target = edge.Clip(name + " " + id)
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	if err := h.Tokens.DeleteToken(ctx, name, id); err != nil {
		return reply{}, stored(err, "token", id)
	}
	return reply{status: http.StatusNoContent}, nil
}
