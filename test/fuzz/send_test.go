package fuzz_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"drover/internal/test/harness"
)

// mode is how a body is sent.
type mode struct {
	name string
	// refused says that nothing sent so is taken; lone, that its answer is not compared with others.
	refused, lone bool
	send          func(w *world, method, path, body string) answer
}

// answer is what came back; text is why nothing did, where err is true.
type answer struct {
	status int
	text   string
	err    bool
}

// credentials stand in the header of a call unless its mode is about them.
func credentials() string {
	return fmt.Sprintf(`{"bk_app_code":%q,"bk_app_secret":%q,"bk_username":"tester"}`, harness.AppCode,
		harness.AppSecret)
}

const authorization = "X-Bkapi-Authorization"

// plainly sends JSON with the credentials in the header.
func plainly() mode {
	return mode{name: "plain", send: func(w *world, method, path, body string) answer {
		return w.http(method, path, strings.NewReader(body), map[string]string{authorization: credentials()})
	}}
}

func modes() []mode {
	with := func(name, value string) func(*world, string, string, string) answer {
		return func(w *world, method, path, body string) answer {
			return w.http(method, path, strings.NewReader(body), map[string]string{
				authorization: credentials(),
				name:          value,
			})
		}
	}
	denied := func(head string) func(*world, string, string, string) answer {
		return func(w *world, method, path, body string) answer {
			return w.http(method, path, strings.NewReader(body), map[string]string{authorization: head})
		}
	}
	return []mode{
		{name: "chunked", send: func(w *world, method, path, body string) answer {
			return w.http(method, path, io.MultiReader(strings.NewReader(body)),
				map[string]string{authorization: credentials()})
		}},
		{name: "type text", send: with("Content-Type", "text/plain; charset=gbk")},
		{name: "type form", send: with("Content-Type", "application/x-www-form-urlencoded")},
		{name: "type none", send: with("Content-Type", "")},
		{name: "close", send: with("Connection", "close")},
		{name: "said to be gzip", refused: true, send: with("Content-Encoding", "gzip")},
		{name: "gzip", refused: true, send: func(w *world, method, path, body string) answer {
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			_, _ = io.WriteString(z, body) // a buffer takes all
			_ = z.Close()
			return w.http(method, path, &b, map[string]string{authorization: credentials(), "Content-Encoding": "gzip"})
		}},
		{name: "byte order mark", refused: true, send: func(w *world, method, path, body string) answer {
			return w.http(method, path, strings.NewReader("\ufeff"+body),
				map[string]string{authorization: credentials()})
		}},
		{name: "in the body", lone: true, send: func(w *world, method, path, body string) answer {
			if rest, ok := strings.CutPrefix(body, "{"); ok {
				body = strings.TrimSuffix(credentials(), "}") + "," + rest
			}
			return w.http(method, path, strings.NewReader(body), nil)
		}},
		{name: "no credentials", refused: true, lone: true, send: denied("")},
		{name: "credentials that are no object", refused: true, lone: true, send: denied(`["bk_app_code"]`)},
		{
			name: "credentials that only look so", refused: true, lone: true,
			send: denied(strings.ToUpper(credentials())),
		},
		{
			name: "a wrong secret", refused: true, lone: true,
			send: denied(strings.Replace(credentials(), harness.AppSecret, "wrong", 1)),
		},
		{
			name: "a wrong secret, much to read, and the end", refused: true, lone: true,
			send: func(w *world, method, path, body string) answer {
				head := map[string]string{
					authorization: strings.Replace(credentials(), harness.AppSecret, "wrong", 1),
					"Connection":  "close",
				}
				return w.http(method, path, strings.NewReader(body+strings.Repeat(" ", 300_000)), head)
			},
		},
		{name: "too short", refused: true, lone: true, send: func(w *world, method, path, body string) answer {
			return w.raw(method, path, body, len(body)+10)
		}},
		{name: "too long", lone: true, send: func(w *world, method, path, body string) answer {
			return w.raw(method, path, body, len(body)/2)
		}},
		{name: "query", lone: true, send: func(w *world, method, path, body string) answer {
			if method != http.MethodPost || strings.Contains(path, "procapi") {
				return plainly().send(w, method, path, body)
			}
			return w.http(http.MethodGet, path+"?"+flat(body), http.NoBody,
				map[string]string{authorization: credentials()})
		}},
		{name: "form", send: func(w *world, method, path, body string) answer {
			return w.http(method, path, strings.NewReader(flat(body)), map[string]string{
				authorization:  credentials(),
				"Content-Type": "application/x-www-form-urlencoded",
			})
		}},
	}
}

// flat is the object as a form; what is none has no members.
func flat(body string) string {
	var object map[string]json.RawMessage
	_ = json.Unmarshal([]byte(body), &object)
	form := url.Values{"z": {"z"}}
	for name, value := range object {
		var text string
		if json.Unmarshal(value, &text) != nil {
			text = string(value)
		}
		form.Set(name, text)
	}
	return form.Encode()
}

func (w *world) http(method, path string, body io.Reader, head map[string]string) answer {
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, w.url+path, body)
	if err != nil {
		return answer{text: err.Error(), err: true}
	}
	for name, value := range head {
		r.Header.Set(name, value)
	}
	r.Close = head["Connection"] == "close"
	reply, err := w.client.Do(r)
	return answered(reply, err)
}

func answered(reply *http.Response, err error) answer {
	if err != nil {
		return answer{text: err.Error(), err: true}
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		return answer{text: err.Error(), err: true}
	}
	return answer{status: reply.StatusCode, text: string(text)}
}

// raw sends a body whose length is said to be another.
func (w *world) raw(method, path, body string, length int) answer {
	conn, err := net.DialTimeout("tcp", strings.TrimPrefix(w.url, "http://"), harness.Patience)
	if err != nil {
		return answer{text: err.Error(), err: true}
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(harness.Patience)); err != nil {
		return answer{text: err.Error(), err: true}
	}
	_, err = fmt.Fprintf(conn,
		"%s %s HTTP/1.1\r\nHost: x\r\n%s: %s\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", method, path,
		authorization, credentials(), length, body)
	if err == nil {
		err = conn.(*net.TCPConn).CloseWrite()
	}
	if err != nil {
		return answer{text: err.Error(), err: true}
	}
	return answered(http.ReadResponse(bufio.NewReader(conn), nil)) //nolint:bodyclose // answered closes it
}

// choose returns how the next body is sent.
func choose(r *rand.Rand) mode {
	if r.IntN(4) > 0 {
		return plainly()
	}
	return pick(r, modes())
}
