// Package ready checks whether a process that has just started can do its work: whether a port accepts, a URL
// answers, a command succeeds or a line appears in a log. It owns one attempt at a time. The caller decides how often
// and how long to try, and checks whether the process lives.
package ready

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"

	"drover/internal/agent/trail"
	"drover/internal/pattern"
	"drover/internal/spec"
)

// Env is what a check needs of its surroundings.
type Env struct {
	// Exec runs a command line and returns nil when it ended with status 0. It ends with its context.
	Exec func(ctx context.Context, line string) error
	// Output returns the output so far of the start command and its children; a long output is shortened.
	Output func() string
	// Log is the log file of the process; the zero value if there is none.
	Log Log
	// Visit opens that.
	Visit trail.Visit
	// Said reports whether the process has said that it is ready, at NOTIFY_SOCKET or its descriptor.
	Said func() bool
	// Earlier are the sockets that Answering has found before the start. Listeners returns those that listen now at a
	// TCP port of this host. Holder names a process that has one of the sockets open; it is empty if the process
	// itself has, or if that is unknown.
	Earlier   []uint64
	Listeners func(port uint16) []uint64
	Holder    func(sockets []uint64) string
}

// Check is the readiness of one start. It is used by one goroutine.
type Check struct {
	env  Env
	try  func(ctx context.Context) error
	line *pattern.Pattern
	tail *tail
	note string
}

// New returns the check of a spec. It never fails for a spec that asks (AsksReady).
func New(r spec.Ready, env Env) (*Check, error) {
	c := &Check{env: env}
	switch {
	case r.TCP != "":
		c.try = c.answered(r.TCP, func(ctx context.Context) (net.Conn, error) { return accepts(ctx, r.TCP) })
	case r.HTTP != "":
		c.try = c.answered(r.HTTP, func(ctx context.Context) (net.Conn, error) {
			return responds(ctx, r.HTTP, r.Insecure)
		})
	case r.Exec != "":
		c.try = func(ctx context.Context) error { return env.Exec(ctx, r.Exec) }
	case r.Notify:
		c.try = c.said("it has not said READY=1 at NOTIFY_SOCKET")
	case r.Descriptor() != 0:
		c.try = c.said(fmt.Sprintf("it has written no newline to descriptor %d", r.Descriptor()))
	case r.Log != "":
		line, err := pattern.Parse(r.Log)
		if err != nil {
			return nil, fmt.Errorf("the expression for a line of the log %w", err)
		}
		c.line, c.try = line, c.logged
		if env.Log.Path != "" {
			c.tail = &tail{log: env.Log, visit: env.Visit}
		}
	default:
		return nil, errors.New("cannot tell readiness: no way to do so is given")
	}
	return c, nil
}

// Try makes one attempt. It returns nil if the process is ready, else the reason why it does not seem to be. It blocks
// until it knows or ctx ends.
func (c *Check) Try(ctx context.Context) error { return c.try(ctx) }

// Note says after a success that another program has given the answer; empty if none has, as far as that is known.
func (c *Check) Note() string { return c.note }

// said asks what the process has said; problem describes its silence.
func (c *Check) said(problem string) func(context.Context) error {
	return func(context.Context) error {
		if c.env.Said() {
			return nil
		}
		return errors.New(problem)
	}
}

// accepts connects and closes the connection, which it returns.
func accepts(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, short(err)
	}
	return conn, conn.Close()
}

// maxHeader bounds the header of an answer, in bytes. Nothing reads the body.
const maxHeader = 64 << 10

// responds sends one request and accepts any status from 200 to 399. It uses no proxy and follows no redirect. It
// returns the connection, which is closed.
func responds(ctx context.Context, address string, insecure bool) (conn net.Conn, err error) {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(got httptrace.GotConnInfo) { conn = got.Conn },
	})
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", "drover-agent")
	client := http.Client{
		Transport: &http.Transport{
			DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxHeader,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: insecure}, //nolint:gosec // as the spec says
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		if problem, ok := errors.AsType[*url.Error](err); ok {
			err = problem.Err
		}
		return nil, short(err)
	}
	defer response.Body.Close()
	if response.StatusCode < http.StatusOK || response.StatusCode >= http.StatusBadRequest {
		return nil, fmt.Errorf("GET %s: %s", address, response.Status)
	}
	return conn, nil
}

// short replaces the net package's texts for a timeout with "no answer in time".
func short(err error) error {
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() ||
		errors.Is(err, context.DeadlineExceeded) {
		return errors.New("no answer in time")
	}
	return err
}

// logged looks for the line in the output and the log since the start.
func (c *Check) logged(context.Context) error {
	for line := range strings.Lines(c.env.Output()) {
		if c.line.Match([]byte(strings.TrimRight(line, "\r\n"))) {
			return nil
		}
	}
	if c.tail == nil {
		return fmt.Errorf("no line of the output matches %s", c.line)
	}
	found, err := c.tail.find(c.line)
	switch {
	case found:
		return nil
	case err != nil:
		return fmt.Errorf("no line of the output matches %s, and the log cannot be read: %w", c.line, err)
	}
	return fmt.Errorf("no line of the output or of %s matches %s", c.env.Log.Path, c.line)
}
