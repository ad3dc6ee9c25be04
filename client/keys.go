package client

import (
	"context"
	"net/http"
	"time"
)

// Key is one by which agents trust the server. It holds no secret.
type Key struct {
	// Kind is manifest, ca or agent-signer; ID the public key, or the fingerprint of an authority.
	Kind string `json:"kind"`
	ID   string `json:"id"`
	// Stage is next (agents are told of it, and it is not used yet), present, or former (kept for agents that know no
	// later one).
	Stage string    `json:"stage"`
	Since time.Time `json:"since"`
	// Until is when a former key is dropped, Ends when the certificate of an authority ends.
	Until *time.Time `json:"until,omitempty"`
	Ends  *time.Time `json:"ends,omitempty"`
}

// Keys are all of them.
type Keys struct {
	Keys []Key `json:"keys"`
	// Online is how many hosts are there, Reached how many of these go by these keys, as far as this server has heard.
	Online  int `json:"online"`
	Reached int `json:"reached"`
}

// Keys lists the keys.
func (c *Client) Keys(ctx context.Context) (Keys, error) {
	var k Keys
	err := c.get(ctx, "/keys", nil, &k)
	return k, err
}

// RotateKeys goes one step further with the keys of a kind: it makes the next key known to agents, or takes it into
// use. The key that is replaced is kept for so long, 0 for the default. Force does not wait for hosts that are online
// and have not heard of the next key.
func (c *Client) RotateKeys(ctx context.Context, kind string, keep time.Duration, force bool) (Keys, error) {
	var k Keys
	body := struct {
		Keep  int64 `json:"keep_seconds,omitempty"`
		Force bool  `json:"force,omitempty"`
	}{int64(keep / time.Second), force}
	err := c.do(ctx, http.MethodPost, "/keys/"+segment(kind)+"/rotate", nil, body, &k)
	return k, err
}

// DropKey gives up a next key, or drops a former one now.
func (c *Client) DropKey(ctx context.Context, kind, id string) error {
	return c.do(ctx, http.MethodDelete, "/keys/"+segment(kind)+"/"+segment(id), nil, nil, nil)
}
