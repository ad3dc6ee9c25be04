package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// timeout is how long an attacker holds on to a call.
const timeout = 60 * time.Second

// way is something that an attacker does again and again.
type way struct {
	name string
	do   func(ctx context.Context) error
}

// repeat does one of the ways after another.
func repeat(ctx context.Context, random *rand.Rand, done *tally, ways []way) {
	for ctx.Err() == nil {
		w := ways[random.IntN(len(ways))]
		err := func() error {
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			return w.do(ctx)
		}()
		if err != nil {
			done.add(w.name + " that failed")
			continue
		}
		done.add(w.name)
	}
}

// client makes HTTP calls from an address of its own.
type client struct {
	http *http.Client
	url  string
	auth string
}

func newClient(p plan, from string, auth string) *client {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 10 * time.Second}
	return &client{&http.Client{Transport: &http.Transport{
		TLSClientConfig: careless(),
		DialContext:     dialer.DialContext,
	}}, p.URL, auth}
}

func authorization(app, secret string) string {
	return fmt.Sprintf(`{"bk_app_code":%q,"bk_app_secret":%q,"bk_username":"x"}`, app, secret)
}

// call makes a call and reads the answer.
func (c *client) call(ctx context.Context, method, path string, body io.Reader) error {
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, body)
	if err != nil {
		return err
	}
	if c.auth != "" {
		req.Header.Set("X-Bkapi-Authorization", c.auth)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

const (
	gse     = "/api/c/compapi/v2/gse/"
	own     = "/api/v1/"
	atATime = 16 // calls of the app
)

// app has an app that may read one namespace.
func app(ctx context.Context, p plan, done *tally) (begin func(), err error) {
	c := newClient(p, "127.67.0.1", authorization(p.App, p.Secret))
	empties := []byte(`{"op_type":2,"meta":{"namespace":"mine","name":"x"},"hosts":[{"ip":"1"}` +
		strings.Repeat(",{}", 20_000_000) + `]}`)
	ids := []byte(`{"op_type":2,"meta":{"namespace":"mine","name":"x"},"agent_id_list":["1"` +
		strings.Repeat(",1", 30_000_000) + `]}`)
	targets := []byte(`{"op":"query","targets":[{}` + strings.Repeat(",{}", 5_000_000) + `]}`)
	hosts := make([]string, 30_000)
	for i := range hosts {
		hosts[i] = fmt.Sprintf("0:10.%d.%d.%d", i>>16, i>>8&255, i&255)
	}
	many, err := json.Marshal(map[string]any{
		"op_type": 2, "meta": map[string]string{"namespace": "mine", "name": "x"},
		"agent_id_list": hosts, "spec": map[string]any{},
	})
	if err != nil {
		return nil, err
	}
	post := func(path string, body []byte) func(context.Context) error {
		return func(ctx context.Context) error { return c.call(ctx, http.MethodPost, path, bytes.NewReader(body)) }
	}
	get := func(path string) func(context.Context) error {
		return func(ctx context.Context) error { return c.call(ctx, http.MethodGet, path, nil) }
	}
	pattern := url.QueryEscape(strings.Repeat("*a?", 600))
	costly := url.QueryEscape(strings.Repeat(".{0,1000}", 110))
	processes := map[string]any{}
	for i := range 6 {
		processes[fmt.Sprint("p", i)] = map[string]any{
			"hosts": []string{"*"}, "run": "true", "ready": map[string]string{"log": strings.Repeat(".{0,1000}", 1000)},
		}
	}
	file, err := json.Marshal(map[string]any{"namespace": "mine", "processes": processes})
	if err != nil {
		return nil, err
	}
	ways := []way{
		{"60 MB of empty hosts", post(gse+"operate_proc_v2/", empties)},
		{"60 MB of numbers", post(gse+"operate_proc_v2/", ids)},
		{"16 MB of targets", post(own+"tasks", targets)},
		{"queries of 30,000 hosts", post(gse+"operate_proc_v2/", many)},
		{"states of 30,000 hosts", post(gse+"get_proc_status_v2/", many)},
		{"lists by patterns", get(own + "processes?limit=1000&host=" + pattern + "&name=" + pattern)},
		{"events by patterns", get(own + "events?limit=1000&name=" + pattern)},
		{"expressions without the right", get(own + "processes/good/good-0/logs?grep=" + costly)},
		{"expressions", get(own + "processes/mine/x/logs?grep=" + costly)},
		{"files with expressions", func(ctx context.Context) error {
			return c.call(ctx, http.MethodPut, own+"namespaces/mine?dry_run=true", bytes.NewReader(file))
		}},
		{"agents", get(own + "hosts?limit=1000")},
		{"results of others", get(own + "tasks/" + url.PathEscape(p.Task) + "/results")},
		{"waits", get(own + "tasks/" + url.PathEscape(p.Task) + "?wait=60")},
		{
			"queries",
			post(own+"tasks", []byte(`{"op":"query","targets":[{"namespace":"mine","name":"x","hosts":["`+p.Host+
				`"]}]}`)),
		},
		{"streams that nobody reads", func(ctx context.Context) error { return unread(ctx, p, c.auth) }},
		{
			"starts without the right",
			post(own+"tasks", []byte(`{"op":"start","targets":[{"namespace":"good","name":"x","hosts":["`+p.Host+
				`"]}]}`)),
		},
	}
	return func() {
		for i := range atATime {
			go repeat(ctx, rand.New(rand.NewPCG(p.Seed, uint64(i))), done, ways)
		}
	}, nil
}

// dial opens a connection to the API.
func dial(ctx context.Context, p plan, from string) (net.Conn, error) {
	u, err := url.Parse(p.URL)
	if err != nil {
		return nil, err
	}
	d := tls.Dialer{NetDialer: &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}, Config: careless()}
	return d.DialContext(ctx, "tcp", u.Host)
}

// unread asks for the stream of events and does not read it.
func unread(ctx context.Context, p plan, auth string) error {
	conn, err := dial(ctx, p, "127.67.0.2")
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "GET %sevents/stream HTTP/1.1\r\nHost: x\r\nX-Bkapi-Authorization: %s\r\n\r\n", own,
		auth); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// strangers reach the ports, and that is all. Half of them are at one address.
func strangers(ctx context.Context, p plan, done *tally) (begin func(), err error) {
	return func() {
		for i := range p.Many {
			from := "127.66.0.1"
			if i%2 == 0 {
				from = fmt.Sprintf("127.66.%d.%d", 1+i>>8, 1+i&127)
			}
			go repeat(ctx, rand.New(rand.NewPCG(p.Seed, uint64(i))), done, strange(p, from))
		}
	}, nil
}

// strange is what a stranger does.
func strange(p plan, from string) []way {
	nobody := newClient(p, from, "")
	guess := newClient(p, from, authorization("tests", "guess-0123456789"))
	unknown := newClient(p, from, authorization("nobody", "guess-0123456789"))
	meg := bytes.Repeat([]byte("x"), 1<<20)
	head := func(length int) string {
		return fmt.Sprintf(
			"POST %soperate_proc_v2/ HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", gse, length)
	}
	// hold sends the beginning of a call, then a byte a second.
	hold := func(text []byte) func(context.Context) error {
		return func(ctx context.Context) error {
			conn, err := dial(ctx, p, from)
			if err != nil {
				return err
			}
			defer conn.Close()
			if _, err := conn.Write(text); err != nil {
				return err
			}
			tick := time.NewTicker(time.Second)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					if _, err := conn.Write([]byte("x")); err != nil {
						return err
					}
				case <-ctx.Done():
					return nil
				}
			}
		}
	}
	post := func(c *client, path string, body []byte) func(context.Context) error {
		return func(ctx context.Context) error { return c.call(ctx, http.MethodPost, path, bytes.NewReader(body)) }
	}
	get := func(c *client, path string) func(context.Context) error {
		return func(ctx context.Context) error { return c.call(ctx, http.MethodGet, path, nil) }
	}
	silent := func(address string) func(context.Context) error {
		return func(ctx context.Context) error {
			conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).DialContext(ctx, "tcp", address)
			if err != nil {
				return err
			}
			defer conn.Close()
			_, _ = conn.Write([]byte{0x16, 3, 1}) // the beginning of a handshake
			_, _ = io.Copy(io.Discard, conn)
			return nil
		}
	}
	return []way{
		{"bodies that do not end", hold(append([]byte(head(len(meg)+1)), meg...))},
		{"bodies that do not begin", hold([]byte(head(64 << 20)))},
		{"heads that do not end", hold([]byte("GET /readyz HTTP/1.1\r\nX-A: "))},
		{"megabytes", post(nobody, gse+"operate_proc_v2/", meg)},
		{"guesses", get(guess, own+"processes")},
		{"unknown apps", get(unknown, own+"processes")},
		{"readiness", get(nobody, "/readyz")},
		{"joins", post(nobody, own+"join", []byte(`{"request":"e30=","signature":"AAAA"}`))},
		{"paths", get(nobody, "/"+strings.Repeat("x/", 2000))},
		{"metrics", get(nobody, "/metrics")},
		{"silence at the fabric", silent(p.Fabric)},
		{"silence at the API", silent(strings.TrimPrefix(p.URL, "https://"))},
	}
}
