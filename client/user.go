package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// User is a person, or a program, for whom apps act.
type User struct {
	Name      string    `json:"name"`
	Note      string    `json:"note,omitempty"`
	Disabled  bool      `json:"disabled"`
	CreatedAt time.Time `json:"created_at"`
}

// UserChange holds the new values of a user; a nil field stays unchanged.
type UserChange struct {
	// Name is for a new user only.
	Name     string  `json:"name,omitempty"`
	Note     *string `json:"note,omitempty"`
	Disabled *bool   `json:"disabled,omitempty"`
}

// CreateUser creates a user.
func (c *Client) CreateUser(ctx context.Context, change UserChange) (User, error) {
	var u User
	err := c.do(ctx, http.MethodPost, "/users", nil, change, &u)
	return u, err
}

// Users lists users, ordered by name.
func (c *Client) Users(ctx context.Context) iter.Seq2[User, error] {
	return pages[User](ctx, c, "/users", url.Values{}, 0)
}

// User returns one user.
func (c *Client) User(ctx context.Context, name string) (User, error) {
	var u User
	err := c.get(ctx, "/users/"+segment(name), nil, &u)
	return u, err
}

// ChangeUser changes a user and returns it.
func (c *Client) ChangeUser(ctx context.Context, name string, change UserChange) (User, error) {
	var u User
	err := c.do(ctx, http.MethodPatch, "/users/"+segment(name), nil, change, &u)
	return u, err
}

// Token proves that a caller acts for a user.
type Token struct {
	ID        string     `json:"id"`
	User      string     `json:"user"`
	Note      string     `json:"note,omitempty"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	// Token is set only in the answer to the call that created it. The server cannot show it again.
	Token string `json:"token,omitempty"`
}

// CreateToken creates a token for a user; the answer holds it. It is valid for ttl, in whole seconds; 0 means no
// expiry.
func (c *Client) CreateToken(ctx context.Context, user, note string, ttl time.Duration) (Token, error) {
	var t Token
	body := struct {
		Note string `json:"note,omitempty"`
		TTL  int64  `json:"ttl_seconds,omitempty"`
	}{note, int64(ttl / time.Second)}
	err := c.do(ctx, http.MethodPost, "/users/"+segment(user)+"/tokens", nil, body, &t)
	return t, err
}

// Tokens lists the tokens of a user, oldest first.
func (c *Client) Tokens(ctx context.Context, user string) ([]Token, error) {
	var all page[Token] // there is but one
	err := c.get(ctx, "/users/"+segment(user)+"/tokens", nil, &all)
	return all.Items, err
}

// DeleteToken revokes a token of a user.
func (c *Client) DeleteToken(ctx context.Context, user, id string) error {
	return c.do(ctx, http.MethodDelete, "/users/"+segment(user)+"/tokens/"+segment(id), nil, nil, nil)
}
