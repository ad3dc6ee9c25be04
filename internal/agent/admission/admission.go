// Package admission asks a server to let this host join. It owns the one call that is made before the agent has an identity: whom it
// trusts, what it tells, and what a refusal means to the person at the host. The agent's key and what is kept of the answer are the
// agent's.
package admission

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"drover/internal/agent"
	"drover/internal/pki"
	"drover/internal/wire"
)

const (
	callTime = 30 * time.Second
	maxReply = 1 << 20
)

// Config says where to join, and as whom.
type Config struct {
	// Dir is the agent's own directory, as agent.Config has it.
	Dir string
	// Server is the URL of the server's API.
	Server string
	// Token is what 'drover token create' has printed.
	Token string
	// IP is what callers name the host by; empty: the address that leads to the server. ID is a stable id beside it, and may be empty.
	IP, ID string
	// InsecureHTTP allows a URL without TLS that is not on loopback.
	InsecureHTTP bool
	Build        string
}

// DeniedError says that the server does not let this host in, and why.
type DeniedError struct {
	Status int
	Text   string
}

// Error returns the text.
func (e *DeniedError) Error() string { return e.Text }

// UnreachableError says that there was no answer.
type UnreachableError struct {
	Server string
	Err    error
}

// Error returns the text.
func (e *UnreachableError) Error() string {
	return fmt.Sprintf("cannot reach the server at %s: %v", e.Server, e.Err)
}

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// Join makes the agent's key, unless it has one, has the server let it in and keeps what it was given. A host that has joined before
// keeps its key, and is known again. Nothing is changed when it fails, but that there is a key. No error holds the token.
func Join(ctx context.Context, cfg Config) (wire.Enrolment, error) {
	token, err := wire.ParseJoinToken(cfg.Token)
	if err != nil {
		return wire.Enrolment{}, fmt.Errorf("cannot use the token: %w", err)
	}
	server, err := serverURL(cfg.Server, cfg.InsecureHTTP)
	if err != nil {
		return wire.Enrolment{}, err
	}
	if cfg.IP == "" {
		if cfg.IP, err = addressTowards(ctx, server); err != nil {
			return wire.Enrolment{}, err
		}
	}
	key, err := agent.OwnKey(cfg.Dir)
	if err != nil {
		return wire.Enrolment{}, err
	}
	body, err := wire.SealJoin(request(cfg, token), key)
	if err != nil {
		return wire.Enrolment{}, err
	}
	e, err := call(ctx, server, token.Fingerprint, body)
	if err != nil {
		return wire.Enrolment{}, err
	}
	if err := check(e, server.Scheme == "https"); err != nil {
		return wire.Enrolment{}, fmt.Errorf("cannot use the server's answer: %w", err)
	}
	return e, agent.SaveEnrolment(cfg.Dir, e)
}

// serverURL reads the address of a server.
func serverURL(text string, insecure bool) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("--server %q: expected https://HOST:PORT", text)
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if loopback := err == nil && ip.IsLoopback() || u.Hostname() == "localhost"; u.Scheme == "http" && !loopback && !insecure {
		return nil, fmt.Errorf("--server %q is without TLS: anybody on the way could take the token and command this host; use https, or --insecure-http on a network that you trust", text)
	}
	return u, nil
}

// addressTowards returns the address of this host on the way to a server. Nothing is sent.
func addressTowards(ctx context.Context, server *url.URL) (string, error) {
	port := server.Port()
	if port == "" {
		port = server.Scheme
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "udp", net.JoinHostPort(server.Hostname(), port))
	if err != nil {
		return "", &UnreachableError{Server: server.Host, Err: err}
	}
	defer conn.Close() //nolint:errcheck // nothing was sent
	address, ok := conn.LocalAddr().(*net.UDPAddr)
	if !ok {
		return "", errors.New("cannot tell this host's address: give it with --ip")
	}
	return address.AddrPort().Addr().Unmap().WithZone("").String(), nil
}

func request(cfg Config, token wire.JoinToken) wire.JoinRequest {
	name, _ := os.Hostname() // it is only shown
	return wire.JoinRequest{
		Token: token.ID, Secret: token.Secret, At: time.Now().UTC(), IP: cfg.IP, ID: cfg.ID, Name: name, Build: cfg.Build, Host: agent.Machine(),
	}
}

// call sends the request to the server whose certificate has the fingerprint, and to no other.
func call(ctx context.Context, server *url.URL, fingerprint string, body []byte) (wire.Enrolment, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: pki.Pinned(fingerprint), DisableKeepAlives: true}
	client := http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return errors.New("it answered with a redirect: expected the address of a drover server")
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(server.String(), "/")+wire.JoinPath, bytes.NewReader(body))
	if err != nil {
		return wire.Enrolment{}, fmt.Errorf("cannot make request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return wire.Enrolment{}, unreached(server, err)
	}
	defer resp.Body.Close() //nolint:errcheck // all of it was read, or nobody wants it
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil {
		return wire.Enrolment{}, unreached(server, err)
	}
	if resp.StatusCode != http.StatusOK {
		return wire.Enrolment{}, denied(server, resp, data)
	}
	var e wire.Enrolment
	if err := json.Unmarshal(data, &e); err != nil {
		return wire.Enrolment{}, fmt.Errorf("cannot read the answer of %s: is it a drover server?", server.Host)
	}
	return e, nil
}

// unreached says why there was no answer, and what to do.
func unreached(server *url.URL, err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok { // its text repeats the method and the whole address
		err = wrapped.Err
	}
	if pin, ok := errors.AsType[*pki.PinError](err); ok {
		return &DeniedError{Text: fmt.Sprintf("cannot verify the server at %s: %v; is this the server that made the token?", server.Host, pin)}
	}
	if clock, ok := errors.AsType[*pki.ClockError](err); ok {
		return &DeniedError{Text: fmt.Sprintf("cannot verify the server at %s: %v", server.Host, clock)}
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok || strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") {
		err = errors.New("it speaks no TLS there: is it the address of the API (--http of the server)?")
	} else if server.Scheme == "http" && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)) {
		err = fmt.Errorf("%w (if it speaks TLS there, use https)", err)
	}
	return &UnreachableError{Server: server.Host, Err: err}
}

// denied makes an error of a refusal. Another server than drover may have answered.
func denied(server *url.URL, resp *http.Response, data []byte) error {
	var problem struct {
		Title  string `json:"title"`
		Detail string `json:"detail"`
	}
	switch {
	case json.Unmarshal(data, &problem) == nil && problem.Detail != "":
		return &DeniedError{Status: resp.StatusCode, Text: problem.Detail}
	case server.Scheme == "http" && bytes.Contains(data, []byte("HTTP request to an HTTPS server")):
		return &UnreachableError{Server: server.Host, Err: errors.New("it speaks TLS there: use https")}
	default:
		return &DeniedError{Status: resp.StatusCode, Text: fmt.Sprintf("%s answered %s: is it a drover server?", server.Host, resp.Status)}
	}
}

// check refuses an answer that the agent could not work with, or that would have it speak without TLS.
func check(e wire.Enrolment, verified bool) error {
	if len(e.URLs) == 0 || e.JWT == "" || len(e.ManifestKeys) == 0 {
		return errors.New("it is not whole")
	}
	if e.CA != "" {
		if _, err := pki.Trusting(e.CA); err != nil {
			return err
		}
	}
	for _, address := range e.URLs {
		if verified && (e.CA == "" || !strings.HasPrefix(address, "tls://")) {
			return fmt.Errorf("its fabric at %s is without TLS", address)
		}
	}
	return nil
}
