package apiv1

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"drover/internal/server/access"
	"drover/internal/server/store"
)

// userView is a user.
type userView struct {
	Name      string    `json:"name"`
	Note      string    `json:"note,omitempty"`
	Disabled  bool      `json:"disabled"`
	CreatedAt time.Time `json:"created_at"`
}

func viewUser(u store.User) userView {
	return userView{Name: u.Name, Note: u.Note, Disabled: u.Disabled, CreatedAt: u.Created}
}

// userRequest is the body of a new user and of a change, where only what is given counts.
type userRequest struct {
	Name     string  `json:"name"`
	Note     *string `json:"note"`
	Disabled *bool   `json:"disabled"`
}

func (r *userRequest) change(u *store.User) {
	set(&u.Note, r.Note)
	set(&u.Disabled, r.Disabled)
}

func (h *Handler) createUser(ctx context.Context, c *call) (reply, error) {
	var req userRequest
	if err := c.decode(ctx, &req); err != nil {
		return reply{}, err
	}
	c.audit.Target = clip(req.Name)
	if err := checkName("name", req.Name, access.MaxUser); err != nil {
		return reply{}, err
	}
	u := store.User{Name: req.Name, Created: h.Now()}
	req.change(&u)
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
	var req userRequest
	if err := c.decode(ctx, &req); err != nil {
		return reply{}, err
	}
	if req.Name != "" && req.Name != name {
		return reply{}, invalid("name", "cannot be changed")
	}
	u, err := h.Users.ChangeUser(ctx, name, func(u *store.User) error {
		req.change(u)
		return nil
	})
	if err != nil {
		return reply{}, stored(err, "user", name)
	}
	return ok(viewUser(u))
}

// tokenView tells of a token what is no secret.
type tokenView struct {
	ID        string     `json:"id"`
	User      string     `json:"user"`
	Note      string     `json:"note,omitempty"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	// Token is shown once, in the answer to the call that made it.
	Token string `json:"token,omitempty"`
}

func viewToken(t store.Token) tokenView {
	return tokenView{ID: t.ID, User: t.User, Note: t.Note, CreatedAt: t.Created, ExpiresAt: given(t.Expires)}
}

// tokenRequest is the body of a new token.
type tokenRequest struct {
	Note string `json:"note"`
	// TTLSeconds is how long it counts; 0 is for ever.
	TTLSeconds int64 `json:"ttl_seconds"`
}

// maxTTL is how long a token that ends at all may count.
const maxTTL = 10 * 365 * 24 * time.Hour

// createToken gives a user a token, which is shown this once.
func (h *Handler) createToken(ctx context.Context, c *call) (reply, error) {
	name := c.subject("name")
	var req tokenRequest
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

// listTokens lists all tokens of a user: they are few.
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
	c.audit.Target = clip(name + " " + id)
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	if err := h.Tokens.DeleteToken(ctx, name, id); err != nil {
		return reply{}, stored(err, "token", id)
	}
	return reply{status: http.StatusNoContent}, nil
}
