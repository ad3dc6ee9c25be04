package cli_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"drover/internal/cli"
	"drover/internal/cli/remote"
)

// person is somebody with contexts of one server.
type person struct {
	t   *testing.T
	url string
	// status is what the server answers to the end of a sign-in; tokens are those that calls have shown.
	status atomic.Int32
	tokens chan string
}

func newPerson(t *testing.T, current string, names ...string) *person {
	t.Helper()
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("DROVER_SERVER", "")
	p := &person{t: t, tokens: make(chan string, 100)}
	p.status.Store(http.StatusNoContent)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.tokens <- r.Header.Get("X-Bkapi-Authorization")
		if strings.HasSuffix(r.URL.Path, "/hosts") {
			_, _ = io.WriteString(w, `{"hosts":[]}`)
			return
		}
		if answer := map[string]string{
			"/api/v1/tasks/op-1": `{"id":"op-1","op":"stop","state":"done","counts":{"targets":2,"ok":1,"failed":1}}`,
			"/api/v1/tasks/op-1/results": `{"items":[{"namespace":"a","name":"b","host":"c","op":"stop","outcome":"failed"},` +
				`{"namespace":"a","name":"b","host":"d","op":"stop","outcome":"ok"}]}`,
		}[r.URL.Path]; answer != "" {
			_, _ = io.WriteString(w, answer)
			return
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(int(p.status.Load()))
	}))
	t.Cleanup(s.Close)
	p.url = s.URL
	if err := remote.ChangeContexts(func(all *remote.Contexts) error {
		for _, name := range names {
			all.Put(remote.Context{
				Name: name, Server: s.URL, User: name, Token: "token-of-" + name, ExpiresAt: time.Now().Add(time.Hour),
			})
		}
		all.Current = current
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return p
}

// runs runs a command line, and returns its messages and its error.
func (p *person) runs(args ...string) (messages string, err error) {
	p.t.Helper()
	root := cli.NewRoot()
	var talk bytes.Buffer
	root.SetOut(io.Discard)
	root.SetErr(&talk)
	root.SetArgs(args)
	root.SilenceErrors, root.SilenceUsage = true, true
	err = root.ExecuteContext(p.t.Context())
	return talk.String(), err
}

func (p *person) signedIn(name string) bool {
	p.t.Helper()
	all, err := remote.ReadContexts()
	if err != nil {
		p.t.Fatal(err)
	}
	return all.Find(name).SignedIn()
}

// TestLogoutThatTheServerCannotDo: who may still be signed in keeps the token, to end it later.
func TestLogoutThatTheServerCannotDo(t *testing.T) {
	p := newPerson(t, "own", "own")
	for _, status := range []int32{http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable} {
		p.status.Store(status)
		if talk, err := p.runs("logout"); err == nil || strings.Contains(talk, "signed out") || !p.signedIn("own") {
			t.Errorf("after status %d: %v, %q, signed in: %t", status, err, talk, p.signedIn("own"))
		}
	}
	p.status.Store(http.StatusUnauthorized)
	if talk, err := p.runs("logout"); err != nil || !strings.Contains(talk, "signed out") || p.signedIn("own") {
		t.Errorf("a token that the server does not know: %v, %q", err, talk)
	}
}

// TestSeveralServers: of several servers the first one that listens is called, with the credentials of the environment
// or of the sign-in at any of them.
func TestSeveralServers(t *testing.T) {
	p := newPerson(t, "", "own")
	dead := httptest.NewServer(nil)
	dead.Close()
	calls := func(what, credential string) {
		t.Helper()
		talk, err := p.runs("agents", "--server", dead.URL+", "+p.url)
		select {
		case shown := <-p.tokens:
			if err != nil || !strings.Contains(shown, credential) {
				t.Errorf("%s: %v, %q, with %s", what, err, talk, shown)
			}
		default:
			t.Errorf("%s: the second server is not called: %v, %q", what, err, talk)
		}
	}
	calls("signed in at the second one", "token-of-own")
	if err := remote.ChangeContexts(func(all *remote.Contexts) error {
		all.Find("own").Server = dead.URL
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	calls("signed in at the first one", "token-of-own")
	t.Setenv("DROVER_APP_CODE", "app-of-a-program")
	t.Setenv("DROVER_APP_SECRET", "secret")
	calls("a program", "app-of-a-program")
}

// TestPageOfATask: who has signed in by a browser is told the page with the failures.
func TestPageOfATask(t *testing.T) {
	p := newPerson(t, "own", "own")
	talk, err := p.runs("task", "watch", "op-1")
	if err == nil || !strings.Contains(talk, "\nin the console: "+p.url+"/ui/tasks/op-1\n") {
		t.Errorf("%v, %q", err, talk)
	}
}

// TestServerOfSeveralContexts: of the contexts of one server the current one counts, and none for a program that has
// lost one half of its credentials.
func TestServerOfSeveralContexts(t *testing.T) {
	p := newPerson(t, "own", "admin", "own")
	if _, err := p.runs("agents", "--server", p.url); err != nil {
		t.Fatal(err)
	}
	if shown := <-p.tokens; !strings.Contains(shown, "token-of-own") {
		t.Errorf("the server is shown %s", shown)
	}
	for _, half := range []string{"DROVER_APP_CODE", "DROVER_APP_SECRET"} {
		t.Run(half, func(t *testing.T) {
			t.Setenv(half, "x")
			if _, err := p.runs("agents", "--server", p.url); err == nil || !strings.Contains(err.Error(), "without credentials") {
				t.Errorf("got %v", err)
			}
		})
	}
	if len(p.tokens) > 0 {
		t.Errorf("the server is shown %s", <-p.tokens)
	}
}
