package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// JoinToken lets hosts join.
type JoinToken struct {
	ID string `json:"id"`
	// State is open, spent, expired or revoked.
	State string `json:"state"`
	// Role is the kind of program that joins with it: agent or proxy.
	Role      string            `json:"role"`
	Cloud     int               `json:"cloud"`
	Labels    map[string]string `json:"labels"`
	Business  int64             `json:"business,omitempty"`
	Note      string            `json:"note,omitempty"`
	Uses      int               `json:"uses"`
	Used      int               `json:"used"`
	CreatedAt time.Time         `json:"created_at"`
	ExpiresAt time.Time         `json:"expires_at"`
	RevokedAt *time.Time        `json:"revoked_at,omitempty"`
	// Token is set only in the answer to the call that created it. The server cannot show it again.
	Token string `json:"token,omitempty"`
}

// NewJoinToken holds the values of a new token.
type NewJoinToken struct {
	// Role is the kind of program that joins with it: agent (the default) or proxy.
	Role string
	// Cloud is the area that hosts join; every host that joins gets Labels and Business.
	Cloud    int
	Labels   map[string]string
	Business int64
	Note     string
	// Uses is the number of hosts that may join with it, 1 to 100,000.
	Uses int
	// TTL is its lifetime, in whole seconds, at most 366 days.
	TTL time.Duration
}

// CreateJoinToken creates a join token; the answer holds it.
func (c *Client) CreateJoinToken(ctx context.Context, t NewJoinToken) (JoinToken, error) {
	var made JoinToken
	body := struct {
		Role     string            `json:"role,omitempty"`
		Cloud    int               `json:"cloud"`
		Labels   map[string]string `json:"labels,omitempty"`
		Business int64             `json:"business,omitempty"`
		Note     string            `json:"note,omitempty"`
		Uses     int               `json:"uses"`
		TTL      int64             `json:"ttl_seconds"`
	}{t.Role, t.Cloud, t.Labels, t.Business, t.Note, t.Uses, int64(t.TTL / time.Second)}
	err := c.do(ctx, http.MethodPost, "/tokens", nil, body, &made)
	return made, err
}

// JoinTokens lists the join tokens, newest first.
func (c *Client) JoinTokens(ctx context.Context) iter.Seq2[JoinToken, error] {
	return pages[JoinToken](ctx, c, "/tokens", url.Values{}, 0)
}

// JoinToken returns one join token, without its secret.
func (c *Client) JoinToken(ctx context.Context, id string) (JoinToken, error) {
	var t JoinToken
	err := c.get(ctx, "/tokens/"+segment(id), nil, &t)
	return t, err
}

// RevokeJoinToken revokes a join token. Hosts that joined with it stay.
func (c *Client) RevokeJoinToken(ctx context.Context, id string) error {
	return c.do(ctx, http.MethodDelete, "/tokens/"+segment(id), nil, nil, nil)
}

// RemoveAgent removes a host by its id, cloud:ip or key: the server disconnects it at once and rejects it if it
// reconnects.
func (c *Client) RemoveAgent(ctx context.Context, host string) error {
	return c.do(ctx, http.MethodDelete, "/agents/"+segment(host), nil, nil, nil)
}
