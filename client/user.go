package client

import (
	"context"
	"iter"
	"net/url"
	"strconv"
	"time"

	v1 "drover/api/v1"
)

// CreateUser creates a user.
func (c *Client) CreateUser(ctx context.Context, change v1.UserChange) (v1.User, error) {
	var u v1.User
	err := c.do(ctx, at(v1.RouteCreateUser), nil, change, &u)
	return u, err
}

// Users lists users, ordered by name.
func (c *Client) Users(ctx context.Context) iter.Seq2[v1.User, error] {
	return pages[v1.User](ctx, c, at(v1.RouteListUsers), url.Values{}, 0)
}

// User returns one user.
func (c *Client) User(ctx context.Context, name string) (v1.User, error) {
	var u v1.User
	err := c.do(ctx, at(v1.RouteGetUser, name), nil, nil, &u)
	return u, err
}

// ChangeUser changes a user and returns it.
func (c *Client) ChangeUser(ctx context.Context, name string, change v1.UserChange) (v1.User, error) {
	var u v1.User
	err := c.do(ctx, at(v1.RouteChangeUser, name), nil, change, &u)
	return u, err
}

// RightQuestion asks whether somebody may do an operation.
type RightQuestion struct {
	// User is a user; empty means the caller. Only an administrator may ask about others.
	User string
	// Operation is the name of an operation. Process is NAMESPACE/NAME; empty for an operation on hosts.
	Operation, Process string
	// Host is one host; empty means every host.
	Host string
	// Targets is the number of targets of the call; 0 means one.
	Targets int
}

// CheckRight says whether a user may do an operation, and by which rights.
func (c *Client) CheckRight(ctx context.Context, q RightQuestion) (v1.RightCheck, error) {
	query := url.Values{}
	set(query, "user", q.User)
	set(query, "operation", q.Operation)
	set(query, "process", q.Process)
	set(query, "host", q.Host)
	if q.Targets > 0 {
		query.Set("targets", strconv.Itoa(q.Targets))
	}
	var v v1.RightCheck
	err := c.do(ctx, at(v1.RouteCheckRight), query, nil, &v)
	return v, err
}

// CreateToken creates a token for a user; the answer holds it. It is valid for ttl, in whole seconds; 0 means no
// expiry.
func (c *Client) CreateToken(ctx context.Context, user, note string, ttl time.Duration) (v1.Token, error) {
	var t v1.Token
	body := v1.TokenRequest{Note: note, TTLSeconds: int64(ttl / time.Second)}
	err := c.do(ctx, at(v1.RouteCreateToken, user), nil, body, &t)
	return t, err
}

// Tokens lists the tokens of a user, oldest first.
func (c *Client) Tokens(ctx context.Context, user string) ([]v1.Token, error) {
	var all v1.Page[v1.Token] // there is but one
	err := c.do(ctx, at(v1.RouteListTokens, user), nil, nil, &all)
	return all.Items, err
}

// DeleteToken revokes a token of a user.
func (c *Client) DeleteToken(ctx context.Context, user, id string) error {
	return c.do(ctx, at(v1.RouteDeleteToken, user, id), nil, nil, nil)
}

// SignIn returns a link that signs a browser in, once and within ten minutes. An empty user is the caller.
func (c *Client) SignIn(ctx context.Context, user string) (v1.SignIn, error) {
	var s v1.SignIn
	err := c.do(ctx, at(v1.RouteCreateSignIn), nil, v1.SignInRequest{User: user}, &s)
	return s, err
}

// CreateDevice begins the sign-in of a command line, and needs no credentials. name tells the person who confirms the
// sign-in which command line it is; it has 1 to 200 bytes that can be shown.
func (c *Client) CreateDevice(ctx context.Context, name string) (v1.Device, error) {
	var d v1.Device
	err := c.do(ctx, at(v1.RouteCreateDevice), nil, v1.DeviceRequest{Name: name}, &d)
	return d, err
}

// DeviceState returns the state of a command line that a person is to sign in, by its token. The error has status 404
// if the person has rejected the sign-in, or if its time is over.
func (c *Client) DeviceState(ctx context.Context, token string) (v1.DeviceState, error) {
	var s v1.DeviceState
	err := c.do(ctx, at(v1.RouteDeviceState), nil, v1.DeviceStateRequest{Token: token}, &s)
	return s, err
}

// EndSignIn ends the token of the client, which a person has signed in.
func (c *Client) EndSignIn(ctx context.Context) error {
	return c.do(ctx, at(v1.RouteEndSignIn), nil, nil, nil)
}
