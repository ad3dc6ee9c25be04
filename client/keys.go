package client

import (
	"context"
	"net/http"
	"time"
)

// Key is a key by which agents trust the server. It holds no secret.
type Key struct {
	// Kind is manifest, ca or agent-signer. ID is the public key, or the fingerprint of an authority.
	Kind string `json:"kind"`
	ID   string `json:"id"`
	// Stage is next (agents trust it, and servers do not use it yet), present, or former (kept for agents that know no
	// later key).
	Stage string    `json:"stage"`
	Since time.Time `json:"since"`
	// Until is the time at which the server drops a former key. Ends is the expiry of an authority's certificate.
	Until *time.Time `json:"until,omitempty"`
	Ends  *time.Time `json:"ends,omitempty"`
}

// Keys holds all keys and their use.
type Keys struct {
	Keys []Key `json:"keys"`
	// Online is the number of online hosts, and Reached the number of these that trust these keys, as far as this
	// server knows.
	Online  int `json:"online"`
	Reached int `json:"reached"`
}

// Keys lists the keys.
func (c *Client) Keys(ctx context.Context) (Keys, error) {
	var k Keys
	err := c.get(ctx, "/keys", nil, &k)
	return k, err
}

// RotateKeys advances the rotation of a kind of keys by one step: it announces the next key to agents, or starts to use
// it. The server keeps the replaced key for the time keep; 0 means the default. With force it does not wait for online
// hosts that do not know the next key yet.
func (c *Client) RotateKeys(ctx context.Context, kind string, keep time.Duration, force bool) (Keys, error) {
	var k Keys
	body := struct {
		Keep  int64 `json:"keep_seconds,omitempty"`
		Force bool  `json:"force,omitempty"`
	}{int64(keep / time.Second), force}
	err := c.do(ctx, http.MethodPost, "/keys/"+segment(kind)+"/rotate", nil, body, &k)
	return k, err
}

// DropKey discards a next key, or retires a former key now.
func (c *Client) DropKey(ctx context.Context, kind, id string) error {
	return c.do(ctx, http.MethodDelete, "/keys/"+segment(kind)+"/"+segment(id), nil, nil, nil)
}
