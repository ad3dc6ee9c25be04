// Package client calls a drover server through its own API, /api/v1. It owns the transport of a call: to a URL with
// credentials, or through the local socket of a server on the same host. It also owns the paging of lists and the
// conversion of rejections into errors. It decides nothing and keeps no state except connections. A program imports
// two packages: this one, and api/v1 for the types of requests and answers. The client imports nothing else of drover,
// so that any program may use it.
package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	v1 "drover/api/v1"
)

// Config holds the address of the server and the credentials of the caller. Exactly one of URL and Socket is set.
type Config struct {
	// URL is the address of the server, such as http://127.0.0.1:7350. The client keeps a path in it as a prefix.
	// Commas separate the addresses of several servers of one fleet: the client calls the first one that takes a
	// connection.
	URL string
	// Socket is the path of a server's local socket. It needs no credentials, because the server asks the kernel for
	// the caller.
	Socket string
	// AppCode and AppSecret are the credentials for URL.
	AppCode   string
	AppSecret string
	// User is the user for whom the app calls, and Token proves it. An app that may name users needs no token.
	User  string
	Token string
	// CA holds the certificates, as PEM, of the authorities that the certificate of URL must come from. Without CA they
	// are those of the system.
	CA []byte
	// Transport, if not nil, carries the calls instead of the network.
	Transport http.RoundTripper
	// Notice, if not nil, receives notes of the server about an answer, such as that the data is stale. It may receive
	// the same note with each answer.
	Notice func(text string)
}

// Client calls one server. Any goroutine may call its methods. Each method blocks until the server has answered, ctx
// ends, or the time for an answer is over: 30 s, 60 s for a call that begins an operation, or 5 min for a part of a
// package. A method returns a *v1.Problem if the server rejects the call, and an *UnreachableError if there was no
// answer.
type Client struct {
	base   string
	name   string
	user   string
	header string
	notice func(text string)
	http   *http.Client
}

// Limits of one call.
const (
	dialTime   = 5 * time.Second
	answerTime = 30 * time.Second
	submitTime = 60 * time.Second
	uploadTime = 5 * time.Minute // of a piece of a package, over a slow line
	maxReply   = 64 << 20
)

// errSlow is the cause if a server accepts a call and does not answer it.
var errSlow = errors.New("it did not answer in time")

// New returns a client. It does not connect yet.
func New(cfg Config) (*Client, error) {
	transport := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: dialTime}).DialContext,
		TLSHandshakeTimeout: dialTime,
		ForceAttemptHTTP2:   true,
		IdleConnTimeout:     30 * time.Second,
	}
	c := &Client{notice: cfg.Notice, http: &http.Client{Transport: transport, CheckRedirect: refuseRedirect}}
	if cfg.Socket != "" {
		transport.Proxy = nil
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return DialSocket(ctx, cfg.Socket)
		}
		c.base, c.name = "http://localhost", cfg.Socket
		return c, nil
	}
	all, err := addresses(cfg.URL)
	if err != nil {
		return nil, err
	}
	u := all[0]
	if len(cfg.CA) > 0 {
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(cfg.CA) {
			return nil, errors.New("the CA holds no certificate: expected PEM")
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	c.base, c.name, c.user = strings.TrimRight(u.String(), "/"), u.Host, cfg.User
	for _, other := range all[1:] {
		c.name += ", " + other.Host
	}
	credentials, err := json.Marshal(struct {
		Code   string `json:"bk_app_code"`
		Secret string `json:"bk_app_secret"`
		User   string `json:"bk_username,omitempty"`
		Token  string `json:"bk_token,omitempty"`
	}{cfg.AppCode, cfg.AppSecret, cfg.User, cfg.Token})
	if err != nil {
		return nil, fmt.Errorf("cannot encode credentials: %w", err)
	}
	c.header = string(credentials)
	if cfg.Transport != nil {
		c.http.Transport = cfg.Transport
	}
	if len(all) > 1 {
		c.http.Transport = &servers{network: c.http.Transport, all: all}
	}
	return c, nil
}

// addresses returns the addresses of the servers in a list.
func addresses(list string) (all []*url.URL, err error) {
	for one := range strings.SplitSeq(list, ",") {
		one = strings.TrimSpace(one)
		u, err := url.Parse(one)
		switch {
		case err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https"):
			return nil, fmt.Errorf("server address %q is not a URL: expected http://HOST:PORT or https://HOST:PORT", one)
		case u.User != nil || u.RawQuery != "" || u.Fragment != "":
			return nil, errors.New("server address holds more than scheme, host and path: credentials are given apart")
		case len(all) > 0 && strings.TrimRight(u.Path, "/") != strings.TrimRight(all[0].Path, "/"):
			return nil, fmt.Errorf("server address %q has another path than the first one: expected servers of one fleet", one)
		}
		all = append(all, u)
	}
	return all, nil
}

// Address is the address of the server as errors name it: HOST:PORT, or the path of a socket.
func (c *Client) Address() string { return c.name }

// Caller is the user for whom the client calls; empty if its Config does not tell.
func (c *Client) Caller() string { return c.user }

// refuseRedirect prevents a redirect from sending the credentials elsewhere.
func refuseRedirect(*http.Request, []*http.Request) error {
	return errors.New("the server answered with a redirect: expected the address of a drover server")
}

// maxSocketPath is the longest path of a socket that the kernel accepts.
const maxSocketPath = 107

// DialSocket connects to the socket of a server, within 5 seconds and until ctx ends. It accepts a path longer than the
// kernel does, and then reaches the socket through its directory.
func DialSocket(ctx context.Context, path string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: dialTime}
	if len(path) <= maxSocketPath {
		return dialer.DialContext(ctx, "unix", path)
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close() //nolint:errcheck // only its descriptor is used
	return dialer.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)))
}

// UnreachableError tells that there was no answer, or only one that says so (HTTP 502, 503 or 504, which is then a
// *v1.Problem in Err): the server may or may not have executed the call.
type UnreachableError struct {
	Server string
	Err    error
}

// Error returns the text for an operator.
func (e *UnreachableError) Error() string {
	if refusal, ok := errors.AsType[*v1.Problem](e.Err); ok {
		return fmt.Sprintf("the server at %s cannot answer: %v", e.Server, refusal)
	}
	cause := e.Err
	if wrapped, ok := errors.AsType[*url.Error](cause); ok { // its text repeats the method and the whole address
		cause = wrapped.Err
	}
	return fmt.Sprintf("cannot reach the server at %s: %v", e.Server, cause)
}

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// place is a method and a path.
type place struct{ method, path string }

// at returns the place of a route with values for the segments in braces.
func at(route string, values ...string) place {
	method, path, _ := strings.Cut(route, " ")
	for _, v := range values {
		before, rest, _ := strings.Cut(path, "{")
		_, after, _ := strings.Cut(rest, "}")
		path = before + segment(v) + after
	}
	return place{method, path}
}

// do sends one call and reads the answer into out. The body in and out may be nil.
func (c *Client) do(ctx context.Context, p place, query url.Values, in, out any) error {
	return c.within(ctx, answerTime, p, query, in, out)
}

// within is do with a time limit of its own for the answer.
func (c *Client) within(ctx context.Context, limit time.Duration, p place, query url.Values, in, out any) error {
	return c.tagged(ctx, limit, p, query, new(string), in, out)
}

// tagged is within for a resource with an ETag: it sends the tag as If-Match if it is not empty, and replaces it by the
// tag of the answer.
func (c *Client) tagged(ctx context.Context, limit time.Duration, p place, query url.Values, tag *string,
	in, out any,
) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	req, err := c.request(ctx, p, query, in)
	if err != nil {
		return err
	}
	if *tag != "" {
		req.Header.Set("If-Match", *tag)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return c.unreachable(ctx, err)
	}
	*tag = resp.Header.Get("ETag")
	defer resp.Body.Close() //nolint:errcheck // all of it was read, or nobody wants it
	if text := resp.Header.Get("X-Drover-Notice"); text != "" && c.notice != nil {
		c.notice(text)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxReply+1))
	switch {
	case err != nil:
		return c.unreachable(ctx, err)
	case len(data) > maxReply:
		return fmt.Errorf("reply of %s is over %d bytes", c.name, maxReply)
	case resp.StatusCode >= http.StatusBadRequest:
		return c.refusal(resp, data)
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("cannot read the reply of %s: %w", c.name, err)
	}
	return nil
}

// unreachable wraps the error of a call without an answer, and says if its time was over.
func (c *Client) unreachable(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = errSlow
	}
	return &UnreachableError{Server: c.name, Err: err}
}

// request makes a call.
func (c *Client) request(ctx context.Context, p place, query url.Values, in any) (*http.Request, error) {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("cannot encode request: %w", err)
		}
		body = bytes.NewReader(data)
	}
	target := c.base + p.path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, p.method, target, body)
	if err != nil {
		return nil, fmt.Errorf("cannot make request: %w", err)
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.header != "" {
		req.Header.Set("X-Bkapi-Authorization", c.header)
	}
	return req, nil
}

// refusal converts a rejecting reply to an error. Another program than drover may have answered.
func (c *Client) refusal(resp *http.Response, data []byte) error {
	e := &v1.Problem{}
	if err := json.Unmarshal(data, e); err != nil || e.Title == "" {
		e = &v1.Problem{
			Title:  resp.Status,
			Detail: fmt.Sprintf("%s answered %s: is it a drover server?", c.name, resp.Status),
		}
	}
	e.Status = resp.StatusCode
	switch e.Status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return &UnreachableError{Server: c.name, Err: e}
	}
	return e
}

// pages yields a list until its end, up to limit items (0: no limit), or until the first error, which it yields last.
func pages[T any](ctx context.Context, c *Client, p place, query url.Values, limit int) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		left := limit
		for {
			size := maxPage
			if limit > 0 {
				size = min(left, maxPage)
			}
			query.Set("limit", strconv.Itoa(size))
			var part v1.Page[T]
			if err := c.do(ctx, p, query, nil, &part); err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range part.Items {
				if !yield(item, nil) {
					return
				}
				if left--; limit > 0 && left == 0 {
					return
				}
			}
			if part.NextCursor == "" {
				return
			}
			query.Set("cursor", part.NextCursor)
		}
	}
}

// Page is one page of a list. NextCursor leads to the next page; it is empty on the last page.
type Page[T any] = v1.Page[T]

// page asks for one page of a list.
func page[T any](ctx context.Context, c *Client, p place, query url.Values, limit int, cursor string) (
	Page[T], error,
) {
	query.Set("limit", strconv.Itoa(limit))
	set(query, "cursor", cursor)
	var part Page[T]
	err := c.do(ctx, p, query, nil, &part)
	return part, err
}

// maxPage is the largest page of a server.
const maxPage = 1000

// Collect reads a list to its end. If that fails, it returns only the error.
func Collect[T any](list iter.Seq2[T, error]) ([]T, error) {
	var all []T
	for item, err := range list {
		if err != nil {
			return nil, err
		}
		all = append(all, item)
	}
	return all, nil
}

// segment escapes one segment of a path. A segment of dots alone would otherwise mean a parent directory.
func segment(s string) string {
	if strings.Trim(s, ".") == "" {
		return strings.ReplaceAll(s, ".", "%2E")
	}
	return url.PathEscape(s)
}

// set adds a parameter that is not empty.
func set(query url.Values, name string, values ...string) {
	for _, v := range values {
		if v != "" {
			query.Add(name, v)
		}
	}
}

// servers sends each call to one of several servers of a fleet: to the one that took the last call, or else to the next
// one that takes a connection. A call that a server may have received goes to no other one.
type servers struct {
	network http.RoundTripper
	all     []*url.URL
	// present is the place of the server that took the last call.
	present atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (s *servers) RoundTrip(req *http.Request) (resp *http.Response, err error) {
	first := int(s.present.Load())
	for n := range s.all {
		place := (first + n) % len(s.all)
		try := req.Clone(req.Context())
		try.URL.Scheme, try.URL.Host, try.Host = s.all[place].Scheme, s.all[place].Host, ""
		if n > 0 && req.GetBody != nil {
			if try.Body, err = req.GetBody(); err != nil {
				return nil, err
			}
		}
		resp, err = s.network.RoundTrip(try)
		if failure, ok := errors.AsType[*net.OpError](err); ok && failure.Op == "dial" && req.Context().Err() == nil {
			continue
		}
		s.present.Store(int64(place))
		return resp, err
	}
	return resp, err
}
