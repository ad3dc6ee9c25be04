// Package joining carries the only request that a program sends before it has an identity: the request of an agent or
// a proxy to join. It owns which servers such a request may reach, and how a refusal reads to an operator. The
// callers own the request's contents and the use of the answer.
package joining

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"drover/internal/clip"
	"drover/internal/idle"
	"drover/internal/pki"
	"drover/internal/wire"
)

const (
	callTime = 30 * time.Second
	maxReply = 1 << 20
	// retryTime is how long after its beginning Ask still repeats a request. firstPause is the least pause before the
	// first repetition, and doubles with each further one.
	retryTime  = 30 * time.Second
	firstPause = 100 * time.Millisecond
)

// DeniedError means that the server rejects this host; Text has the reason.
type DeniedError struct {
	Status int
	Text   string
}

// Error returns the text.
func (e *DeniedError) Error() string { return e.Text }

// Forbidden reports whether the rejection is about rights: the token, or the server that got it. Otherwise the same
// request may succeed later, or under another name.
func (e *DeniedError) Forbidden() bool {
	switch e.Status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusConflict, http.StatusTooManyRequests,
		http.StatusInternalServerError,
		http.StatusServiceUnavailable:
		return false
	default:
		return true
	}
}

// UnreachableError means that there was no answer.
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

// ServerURL reads the address of a server.
func ServerURL(text string, insecure bool) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || u.RawQuery != "" ||
		u.Fragment != "" {
		return nil, fmt.Errorf("--server %q: expected https://HOST:PORT", text)
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if loopback := err == nil && ip.IsLoopback() || u.Hostname() == "localhost"; u.Scheme == "http" && !loopback &&
		!insecure {
		return nil,
			fmt.Errorf(
				"--server %q has no TLS: anybody on the network could steal the token and control this host; use https, or --insecure-http on a network that you trust", text)
	}
	return u, nil
}

// AddressTowards returns the address of this host on the way to a server. Nothing is sent.
func AddressTowards(ctx context.Context, server *url.URL) (string, error) {
	port := server.Port()
	if port == "" {
		port = server.Scheme
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "udp", net.JoinHostPort(server.Hostname(), port))
	if err != nil {
		return "", &UnreachableError{Server: server.Host, Err: err}
	}
	defer conn.Close() //nolint:errcheck // the connection sent nothing
	address, ok := conn.LocalAddr().(*net.UDPAddr)
	if !ok {
		return "", errors.New("cannot find this host's address: give it with --ip")
	}
	return address.AddrPort().Addr().Unmap().WithZone("").String(), nil
}

// Ask sends a sealed request only to the server whose certificate leads to the fingerprint, or to one of its proxies,
// and returns the answer. An answer through a proxy is valid only if the server has signed it. If a server is not
// available and says when to ask again, Ask repeats the request, for 30 s. It blocks for a minute at most. Its errors
// have the types above, except the error for an untrusted answer.
func Ask(ctx context.Context, server *url.URL, fingerprint string, body []byte) ([]byte, error) {
	begun := time.Now()
	for least := firstPause; ; least *= 2 {
		data, wanted, again, err := ask(ctx, server, fingerprint, body)
		pause := max(wanted, least)
		pause += rand.N(pause / 2) //nolint:gosec // no secret: hosts that join together must not ask together again
		if !again || time.Since(begun)+pause > retryTime || !idle.Sleep(ctx, pause) {
			return data, err
		}
	}
}

// ask sends a request once. again says that the server wants the request later, after the given pause.
func ask(ctx context.Context, server *url.URL, fingerprint string, body []byte) (
	data []byte, pause time.Duration, again bool, err error,
) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: pki.Pinned(fingerprint),
		DisableKeepAlives: true,
	}
	client := http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return errors.New("the server answered with a redirect: expected the address of a drover server")
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(server.String(), "/")+wire.JoinPath,
		bytes.NewReader(body))
	if err != nil {
		return nil, 0, false, fmt.Errorf("cannot make request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return nil, 0, false, unreached(server, err)
	}
	defer resp.Body.Close() //nolint:errcheck // the rest of the body is not needed
	data, err = io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil {
		return nil, 0, false, unreached(server, err)
	}
	if resp.StatusCode != http.StatusOK {
		pause, again = retryAfter(resp)
		return nil, pause, again, denied(server, resp, data)
	}
	return data, 0, false, proven(resp, fingerprint, body, data)
}

// retryAfter returns the time after which a server that is not available wants the request again. ok is false if the
// server does not say so, or names a time beyond retryTime.
func retryAfter(resp *http.Response) (pause time.Duration, ok bool) {
	seconds, err := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 16)
	pause = time.Duration(seconds) * time.Second
	return pause, err == nil && pause <= retryTime && resp.StatusCode == http.StatusServiceUnavailable
}

// unreached returns an error that says why there was no answer and what to do.
func unreached(server *url.URL, err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok { // its text repeats the method and the whole address
		err = wrapped.Err
	}
	if pin, ok := errors.AsType[*pki.PinError](err); ok {
		return &DeniedError{
			Text: fmt.Sprintf("cannot verify the server at %s: %v; is this the server that made the token?",
				server.Host, pin),
		}
	}
	if clock, ok := errors.AsType[*pki.ClockError](err); ok {
		return &DeniedError{Text: fmt.Sprintf("cannot verify the server at %s: %v", server.Host, clock)}
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok ||
		strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") {
		err = errors.New("no TLS at this address: is it the address of the API (--http of the server)?")
	} else if server.Scheme == "http" && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)) {
		err = fmt.Errorf("%w (if the server has TLS, use https)", err)
	}
	return &UnreachableError{Server: server.Host, Err: err}
}

// denied makes an error of a rejection. The answer may come from a server other than drover's.
func denied(server *url.URL, resp *http.Response, data []byte) error {
	var problem struct {
		Title  string `json:"title"`
		Detail string `json:"detail"`
	}
	switch {
	case json.Unmarshal(data, &problem) == nil && problem.Detail != "":
		return &DeniedError{Status: resp.StatusCode, Text: shown(problem.Detail)}
	case server.Scheme == "http" && bytes.Contains(data, []byte("HTTP request to an HTTPS server")):
		return &UnreachableError{Server: server.Host, Err: errors.New("the server has TLS: use https")}
	default:
		return &DeniedError{Status: resp.StatusCode, Text: fmt.Sprintf("%s answered %s: is it a drover server?",
			server.Host, shown(resp.Status))}
	}
}

// longestShown is how much of a rejection is shown, in bytes.
const longestShown = 2 << 10

// shown removes the parts of an answer that are unsafe on a terminal, because the answer may come from a compromised
// proxy.
func shown(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, clip.Marked(text, longestShown, "…"))
}

// proven rejects an answer through a proxy that the server has not signed. Otherwise a proxy could make a host obey its
// own keys.
func proven(resp *http.Response, fingerprint string, request, answer []byte) error {
	if resp.TLS == nil {
		return nil
	}
	if _, proxy := pki.ProxyArea(resp.TLS.PeerCertificates[0]); !proxy {
		return nil
	}
	var proof pki.Proof
	if json.Unmarshal([]byte(resp.Header.Get(wire.ProofHeader)), &proof) != nil {
		return errors.New("cannot trust the answer: it came through a proxy, and no server signed it")
	}
	if err := proof.Verify(fingerprint, wire.Proven(request, answer), time.Now()); err != nil {
		return fmt.Errorf("cannot trust the answer that came through a proxy: %w", err)
	}
	return nil
}

// Lines are the commands that make a host with the package of the agent join. The URL of the server and the token are
// words of a shell.
func Lines(server, token string) []string {
	return []string{
		"dpkg -i drover-agent_*.deb",
		"echo " + token + " | drover-agent join --server " + server + " --token - --data-dir /var/lib/drover-agent",
		"systemctl enable --now drover-agent",
	}
}
