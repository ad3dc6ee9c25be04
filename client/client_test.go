package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	v1 "drover/api/v1"
	"drover/client"
)

// serve returns a client of a server that answers by the function.
func serve(t *testing.T, answer http.HandlerFunc) *client.Client {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	c, err := client.New(client.Config{URL: s.URL + "/behind/", AppCode: "app", AppSecret: "secret", User: "anna"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func reply(w http.ResponseWriter, v any) {
	_ = json.NewEncoder(w).Encode(v)
}

func TestListsAreWalked(t *testing.T) {
	var asked []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RequestURI())
		if got := r.Header.Get(
			"X-Bkapi-Authorization"); got != `{"bk_app_code":"app","bk_app_secret":"secret","bk_username":"anna"}` {
			t.Errorf("credentials %s", got)
		}
		next := map[string]string{"": "two", "two": "three"}[r.URL.Query().Get("cursor")]
		reply(w, map[string]any{
			"items":       []any{map[string]any{"name": "a" + r.URL.Query().Get("cursor")}},
			"next_cursor": next,
		})
	})
	all, err := client.Collect(c.Processes(t.Context(),
		client.ProcessFilter{Namespace: "n/s", Hosts: []string{"x", "y"}}))
	if err != nil || len(all) != 3 || all[2].Name != "athree" {
		t.Errorf("%+v, %v", all, err)
	}
	if asked[1] != "/behind/api/v1/processes?cursor=two&host=x&host=y&limit=1000&namespace=n%2Fs" {
		t.Errorf("asked for %s", asked[1])
	}
	asked = nil
	all, err = client.Collect(c.Processes(t.Context(), client.ProcessFilter{Limit: 2}))
	if err != nil || len(all) != 2 || len(asked) != 2 || !strings.Contains(asked[1], "limit=1") {
		t.Errorf("with a limit: %+v, %v, asked %q", all, err, asked)
	}
}

func TestPartsOfPathsAreEscaped(t *testing.T) {
	var path string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		path = r.URL.EscapedPath()
		reply(w, map[string]any{"items": []any{}})
	})
	for name, want := range map[string]string{"a/b?c": "a%2Fb%3Fc", "..": "%2E%2E", "x y": "x%20y"} {
		if _, err := c.Process(t.Context(), "ns", name); err != nil {
			t.Fatal(err)
		}
		if path != "/behind/api/v1/processes/ns/"+want {
			t.Errorf("%q was asked for as %s", name, path)
		}
	}
}

// TestEmptyListsOfASelection: they are sent, because without a list the selection is of everything.
func TestEmptyListsOfASelection(t *testing.T) {
	var sent map[string]any
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		sent = nil
		if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
			t.Error(err)
		}
		reply(w, v1.Selection{})
	})
	for _, r := range []v1.SelectionRequest{{}, {Targets: []v1.Target{}, Hosts: []string{}}} {
		if _, err := c.Select(t.Context(), client.ProcessFilter{}, r); err != nil {
			t.Fatal(err)
		}
		for name, isSent := range map[string]bool{"targets": r.Targets != nil, "hosts": r.Hosts != nil} {
			if list, there := sent[name].([]any); there != isSent || len(list) != 0 {
				t.Errorf("%s of %+v: %v", name, r, sent)
			}
		}
	}
}

func TestRefusal(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnprocessableEntity)
		reply(w, v1.Problem{
			Title: "T", Detail: "it is wrong",
			Fields: []v1.FieldError{{Field: "op", Detail: "is empty"}}, RequestID: "r",
		})
	})
	_, err := c.Submit(t.Context(), v1.Request{})
	refusal, ok := errors.AsType[*v1.Problem](err)
	if !ok || refusal.Status != 422 || refusal.RequestID != "r" || err.Error() != "it is wrong; op: is empty" {
		t.Errorf("%v", err)
	}
}

// TestFaultsAreToldOnce: the text of a refusal may name its fields already.
func TestFaultsAreToldOnce(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnprocessableEntity)
		reply(w, v1.Problem{
			Title: "T", Detail: "spec.a: is empty; spec.b: is 1", Fields: []v1.FieldError{
				{Field: "spec.a", Detail: "is empty"},
				{Field: "spec.b", Detail: "is 1"},
				{Field: "spec.c", Detail: "is 2"},
			},
		})
	})
	_, err := c.Submit(t.Context(), v1.Request{})
	if want := "spec.a: is empty; spec.b: is 1; spec.c: is 2"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestWhatIsNoDrover(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("credentials were sent on to %s", r.URL)
	}))
	t.Cleanup(elsewhere.Close)
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"another server": {
			func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusNotFound) },
			"is it a drover server?",
		},
		"a web page": {
			func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "<html>") },
			"cannot read the reply",
		},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusFound)
		}, "redirect"},
		"a cut reply": {
			func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			"cannot reach the server",
		},
		"an endless list": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprint(w, `{"items":[`+strings.Repeat(" ", 65<<20))
		}, "is over"},
	} {
		c := serve(t, tt.answer)
		if _, err := c.Task(t.Context(), "x", time.Second); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestUnreachable(t *testing.T) {
	s := httptest.NewServer(nil)
	s.Close()
	for name, cfg := range map[string]client.Config{
		"address": {URL: s.URL},
		"socket":  {Socket: t.TempDir() + "/" + strings.Repeat("x", 60) + "/drover.sock"},
	} {
		c, err := client.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := errors.AsType[*client.UnreachableError](c.DeleteToken(t.Context(), "u", "t")); !ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAnswersOfNobody: an answer that says that the server cannot answer now is like none, and keeps its reason.
func TestAnswersOfNobody(t *testing.T) {
	for status, want := range map[int]bool{
		http.StatusBadGateway: true, http.StatusServiceUnavailable: true, http.StatusGatewayTimeout: true,
		http.StatusInternalServerError: false, http.StatusInsufficientStorage: false, http.StatusTooManyRequests: false,
	} {
		c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(`{"title":"x","detail":"the server's database is away"}`))
		})
		err := c.DeleteToken(t.Context(), "u", "t")
		refusal, refused := errors.AsType[*v1.Problem](err)
		if _, away := errors.AsType[*client.UnreachableError](err); away != want || !refused || refusal.Status != status {
			t.Errorf("%d: %v", status, err)
		}
		if want && !strings.HasSuffix(err.Error(), "cannot answer: the server's database is away") {
			t.Errorf("%d is told as %q", status, err)
		}
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	if _, err := c.Task(ctx, "x", time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestBadAddress(t *testing.T) {
	for _, url := range []string{"", "localhost:7350", "ftp://x", "http://", "http://u:p@x", "http://x?y", "http://%"} {
		if _, err := client.New(client.Config{URL: url}); err == nil {
			t.Errorf("%q was taken for an address", url)
		}
	}
}

// TestPagesAreAskedOneByOne: a page is one call with its own limit, whatever follows.
func TestPagesAreAskedOneByOne(t *testing.T) {
	var asked []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RequestURI())
		reply(w, map[string]any{"items": []any{map[string]any{}}, "next_cursor": "more"})
	})
	ctx := t.Context()
	calls := []func() (string, error){
		func() (string, error) {
			p, err := c.HostPage(ctx, client.HostFilter{State: "away", Limit: 200}, "")
			return p.NextCursor, err
		},
		func() (string, error) {
			p, err := c.TaskPage(ctx, client.TaskFilter{App: "a", Limit: 200}, "at")
			return p.NextCursor, err
		},
		func() (string, error) {
			p, err := c.RolloutPage(ctx, client.RolloutFilter{State: "held", Limit: 200}, "at")
			return p.NextCursor, err
		},
		func() (string, error) {
			p, err := c.EventPage(ctx, client.EventFilter{Name: "api", Limit: 200}, "at")
			return p.NextCursor, err
		},
		func() (string, error) {
			p, err := c.ResultPage(ctx, "op-1", client.ResultFilter{Outcome: "failed", Limit: 200}, "at")
			return p.NextCursor, err
		},
	}
	for _, call := range calls {
		if next, err := call(); err != nil || next != "more" {
			t.Errorf("%q, %v", next, err)
		}
	}
	want := []string{
		"/behind/api/v1/hosts?limit=200&state=away",
		"/behind/api/v1/tasks?app=a&cursor=at&limit=200",
		"/behind/api/v1/rollouts?cursor=at&limit=200&state=held",
		"/behind/api/v1/events?cursor=at&limit=200&name=api",
		"/behind/api/v1/tasks/op-1/results?cursor=at&limit=200&outcome=failed",
	}
	if strings.Join(asked, "\n") != strings.Join(want, "\n") {
		t.Errorf("asked\n%s\nwant\n%s", strings.Join(asked, "\n"), strings.Join(want, "\n"))
	}
}

// TestSeveralServers: the next server gets a call if nobody listens at the first one, and none gets a call twice.
func TestSeveralServers(t *testing.T) {
	dead := httptest.NewServer(nil)
	dead.Close()
	var calls int
	one := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls++
		body, _ := io.ReadAll(r.Body)
		if r.Method == http.MethodPost && len(body) == 0 {
			t.Error("the body is lost")
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer one.Close()
	c, err := client.New(client.Config{URL: dead.URL + ", " + one.URL, AppCode: "a", AppSecret: "b"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, err = c.CreateApp(t.Context(), v1.AppChange{})
		if refusal, ok := errors.AsType[*v1.Problem](err); !ok || refusal.Status != http.StatusServiceUnavailable {
			t.Errorf("got %v, want the answer of the second server", err)
		}
	}
	if calls != 2 {
		t.Errorf("the second server got %d calls, want 2", calls)
	}
	for _, list := range []string{one.URL + ",", one.URL + ",ftp://x", one.URL + "," + one.URL + "/other"} {
		if _, err := client.New(client.Config{URL: list}); err == nil {
			t.Errorf("%q is no error", list)
		}
	}
	one.Close()
	_, err = c.CreateApp(t.Context(), v1.AppChange{})
	if lost, ok := errors.AsType[*client.UnreachableError](err); !ok || !strings.Contains(lost.Server, ", ") {
		t.Errorf("without any server: %v", err)
	}
}
