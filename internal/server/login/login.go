// Package login asks a BlueKing login service for the user of a bk_token. It owns the short-lived cache of the
// answers. The rights of a user, and drover's own tokens, belong to other packages.
package login

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"drover/internal/server/gate"
)

const (
	// timeout is how long the service may take to answer.
	timeout = 3 * time.Second
	// remembered is how long a session stays cached, and so how long it outlives a logout.
	remembered = 60 * time.Second
	// mostRemembered bounds the cache; a full cache is cleared.
	mostRemembered = 10_000
	// maxReply is how much of a reply is read, in bytes.
	maxReply = 64 << 10
	// asking is how many requests to the service may run at once: a service that hangs must not hold every caller's
	// connection.
	asking = 32
)

// Client asks one login service. It may be used from any goroutine.
type Client struct {
	address *url.URL
	http    *http.Client
	slots   chan struct{}

	mu    sync.Mutex
	known map[[sha256.Size]byte]session // by hash, so that the tokens themselves are not kept
}

type session struct {
	user    string
	expires time.Time
}

// New returns a client of the service at an address such as https://paas.example.com/login, below which
// accounts/is_login/ is asked. It asks nothing yet.
func New(address string) (*Client, error) {
	u, err := parse(address)
	if err != nil {
		return nil, err
	}
	return &Client{
		address: u.JoinPath("accounts", "is_login/"),
		http: &http.Client{
			Timeout: timeout,
			// A redirect would send the token to another host.
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return errors.New("login service answered with a redirect")
			},
		},
		slots: make(chan struct{}, asking),
		known: map[[sha256.Size]byte]session{},
	}, nil
}

// parse reads the address of a login service.
func parse(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.RawQuery != "" ||
		u.Fragment != "" {
		return nil, fmt.Errorf("login-url %q: expected a URL such as https://paas.example.com/login", redacted(address))
	}
	return u, nil
}

// redacted removes the parts of an address that may hold a password.
func redacted(address string) string {
	if i := strings.LastIndexByte(address, '@'); i >= 0 {
		return "…" + address[i:]
	}
	return address
}

// User returns the user of a session token. It returns gate.ErrNoSession if the service says that no session has the
// token. It returns any other error, which does not quote the token, if the service did not answer. Only sessions are
// cached. It blocks for at most 3 s.
func (c *Client) User(ctx context.Context, token string) (string, error) {
	hash := sha256.Sum256([]byte(token))
	if user, ok := c.remembered(hash, time.Now()); ok {
		return user, nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		return "", errors.New("too many requests are in progress")
	}
	defer func() { <-c.slots }()
	user, err := c.ask(ctx, token)
	if err == nil {
		c.remember(hash, user, time.Now())
	}
	return user, err
}

// isLogin is the reply of accounts/is_login/, in all forms of the service so far.
type isLogin struct {
	Result *bool `json:"result"`
	Data   struct {
		Username string `json:"username"`
		BkUser   string `json:"bk_username"`
	} `json:"data"`
}

func (c *Client) ask(ctx context.Context, token string) (string, error) {
	u := *c.address
	u.RawQuery = url.Values{"bk_token": {token}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return "", errors.New("cannot make the request")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return "", withoutURL(err)
	}
	defer resp.Body.Close() //nolint:errcheck // the body was only read
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("login service answered with status %d", resp.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil {
		return "", fmt.Errorf("cannot read the answer of the login service: %w", withoutURL(err))
	}
	var reply isLogin
	if err := json.Unmarshal(body, &reply); err != nil || reply.Result == nil {
		return "", errors.New("login service answered in an unexpected form")
	}
	name := reply.Data.Username
	if name == "" {
		name = reply.Data.BkUser
	}
	if !*reply.Result {
		return "", gate.ErrNoSession
	}
	if name == "" {
		return "", errors.New("login service named no user")
	}
	return name, nil
}

// withoutURL removes the address, and with it the token, from an error.
func withoutURL(err error) error {
	if e := (*url.Error)(nil); errors.As(err, &e) {
		return e.Err
	}
	return err
}

func (c *Client) remembered(hash [sha256.Size]byte, now time.Time) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.known[hash]
	if !ok || !now.Before(s.expires) {
		return "", false
	}
	return s.user, true
}

func (c *Client) remember(hash [sha256.Size]byte, user string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= mostRemembered {
		clear(c.known)
	}
	c.known[hash] = session{user, now.Add(remembered)}
}
