package ready_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"drover/internal/agent/ready"
	"drover/internal/agent/trail"
	"drover/internal/spec"
)

// check makes a check, which must be possible.
func check(t *testing.T, r spec.Ready, env ready.Env) *ready.Check {
	t.Helper()
	c, err := ready.New(r, env)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// says fails the test unless the error holds the text; an empty one means none.
func says(t *testing.T, err error, text string) {
	t.Helper()
	switch {
	case text == "" && err != nil:
		t.Errorf("not ready: %v", err)
	case text != "" && (err == nil || !strings.Contains(err.Error(), text)):
		t.Errorf("it says %v, want %q", err, text)
	}
}

func TestTCP(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := check(t, spec.Ready{TCP: listener.Addr().String()}, ready.Env{})
	says(t, c.Try(t.Context()), "")
	listener.Close()
	says(t, c.Try(t.Context()), "connection refused")
}

func TestTCPWithoutAnswer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	says(t, check(t, spec.Ready{TCP: listener.Addr().String()}, ready.Env{}).Try(ctx), "no answer in time")
}

func TestHTTP(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("a redirect was followed")
	}))
	defer elsewhere.Close()
	mux := http.NewServeMux()
	mux.HandleFunc("/ok", func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			w.WriteHeader(http.StatusMethodNotAllowed)
		}
	})
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL, http.StatusFound)
	})
	mux.HandleFunc("/bad", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	mux.HandleFunc("/endless", func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X", strings.Repeat("x", 80<<10))
	})
	released := make(chan struct{})
	mux.HandleFunc("/slow", func(http.ResponseWriter, *http.Request) { <-released })
	plain, secure := httptest.NewServer(mux), httptest.NewTLSServer(mux)
	defer plain.Close()
	defer secure.Close()
	defer close(released)
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1") // nobody is there

	for _, c := range []struct{ url, want string }{
		{plain.URL + "/ok", ""},
		{secure.URL + "/ok", "certificate signed by unknown authority"},
		{plain.URL + "/moved", ""},
		{plain.URL + "/endless", ""},
		{plain.URL + "/bad", "503 Service Unavailable"},
		{plain.URL + "/none", "404 Not Found"},
		{plain.URL + "/large", "exceeded 65536 bytes"},
		{"http://127.0.0.1:1/", "connection refused"},
		{strings.Replace(secure.URL, "https", "http", 1) + "/ok", "400 Bad Request"},
	} {
		says(t, check(t, spec.Ready{HTTP: c.url}, ready.Env{}).Try(t.Context()), c.want)
	}
	says(t, check(t, spec.Ready{HTTP: secure.URL + "/ok", Insecure: true}, ready.Env{}).Try(t.Context()), "")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	says(t, check(t, spec.Ready{HTTP: plain.URL + "/slow"}, ready.Env{}).Try(ctx), "no answer in time")
}

func TestExec(t *testing.T) {
	answer := errors.New("exit status 1: not yet")
	c := check(t, spec.Ready{Exec: "is-ready"}, ready.Env{Exec: func(_ context.Context, line string) error {
		if line != "is-ready" {
			t.Errorf("ran %q", line)
		}
		return answer
	}})
	says(t, c.Try(t.Context()), "not yet")
	answer = nil
	says(t, c.Try(t.Context()), "")
}

func TestOutput(t *testing.T) {
	output := "starting\nlistening on 80 soon\n"
	c := check(t, spec.Ready{Log: `^listening on \d+$`}, ready.Env{Output: func() string { return output }})
	says(t, c.Try(t.Context()), `no line of the output matches ^listening on \d+$`)
	output += "listening on 80\r\nmore"
	says(t, c.Try(t.Context()), "")
}

// log is a log file that a process writes to.
type log struct {
	t    *testing.T
	path string
}

func (l log) write(text string) {
	l.t.Helper()
	f, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		l.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		l.t.Fatal(err)
	}
}

// begin marks the log and returns the check for "ready" in it.
func (l log) begin() *ready.Check {
	l.t.Helper()
	return check(l.t, spec.Ready{Log: "^ready$"}, ready.Env{
		Output: func() string { return "" },
		Log:    ready.MarkLog(l.path, trail.Plain), Visit: trail.Plain,
	})
}

func TestLog(t *testing.T) {
	const no = "no line of the output or of "
	for _, c := range []struct {
		name   string
		before string
		then   []func(l log)
		want   []string
	}{
		{
			name: "what was there before does not count", before: "ready\n", then: []func(log){func(log) {}},
			want: []string{no},
		},
		{
			name: "what comes does", before: "ready\n", then: []func(log){func(l log) { l.write("ready\n") }},
			want: []string{""},
		},
		{
			name: "in pieces",
			then: []func(log){func(l log) { l.write("x\nrea") }, func(l log) { l.write("dy") }},
			want: []string{no, ""},
		},
		{
			name: "a line is no line before its end", then: []func(log){
				func(l log) { l.write("not ") },
				func(l log) { l.write("ready\n") }, func(l log) { l.write("ready\r\n") },
			},
			want: []string{no, no, ""},
		},
		{
			name: "rotated away", before: strings.Repeat("ready\n", 100),
			then: []func(log){func(l log) {
				if err := os.Rename(l.path, l.path+".1"); err != nil {
					t.Fatal(err)
				}
			}, func(l log) { l.write("ready\n") }},
			want: []string{no, ""},
		},
		{
			name: "cut", before: strings.Repeat("x", 1000),
			then: []func(log){func(l log) {
				if err := os.Truncate(l.path, 0); err != nil {
					t.Fatal(err)
				}
				l.write("ready\n")
			}},
			want: []string{""},
		},
		{
			name: "behind a line that is too long",
			then: []func(log){
				func(l log) { l.write(strings.Repeat("x", 200<<10)) },
				func(l log) { l.write("\nready\nand more\n") },
			},
			want: []string{no, ""},
		},
		{
			name: "behind much else", then: []func(log){
				func(l log) { l.write(strings.Repeat("x\n", 9<<20)) },
				func(l log) { l.write("ready") },
			},
			want: []string{no, ""},
		},
		{
			name: "what is no file", then: []func(log){func(l log) {
				if err := unix.Mkfifo(l.path, 0o600); err != nil {
					t.Fatal(err)
				}
			}},
			want: []string{"the log cannot be read: not a regular file"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := log{t, filepath.Join(t.TempDir(), "error.log")}
			if c.before != "" {
				l.write(c.before)
			}
			checks := l.begin()
			for i, then := range c.then {
				then(l)
				says(t, checks.Try(t.Context()), c.want[i])
			}
		})
	}
}

func TestWhatIsNoCheck(t *testing.T) {
	for _, r := range []spec.Ready{{}, {Log: "("}} {
		if _, err := ready.New(r, ready.Env{}); err == nil {
			t.Errorf("%+v is taken", r)
		}
	}
}
