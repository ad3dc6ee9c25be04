package login_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"drover/internal/server/gate"
	"drover/internal/server/login"
)

const token = "planted-token-value"

// service starts a login service that answers every question so, and counts them.
func service(t *testing.T, status int, body string) (*login.Client, *atomic.Int32) {
	t.Helper()
	asked := &atomic.Int32{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.Method != http.MethodGet || r.URL.Path != "/login/accounts/is_login/" ||
			r.URL.Query().Get("bk_token") == "" {
			t.Errorf("asked is %s %s", r.Method, r.URL)
		}
		if status == http.StatusFound {
			http.Redirect(w, r, "http://127.0.0.1:1/", status)
			return
		}
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, body)
	}))
	t.Cleanup(srv.Close)
	c, err := login.New(srv.URL + "/login/")
	if err != nil {
		t.Fatal(err)
	}
	return c, asked
}

func TestSessions(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		body   string
		user   string
		nobody bool // else an empty user is a failure
	}{
		"a session": {
			200,
			`{"result": true, "code": "00", "message": "User authentication succeeded", "data": {"username": "ann"}}`,
			"ann", false,
		},
		"a session, newer name": {
			200, `{"result": true, "code": 0, "data": {"bk_username": "ann"}}`, "ann",
			false,
		},
		"no session": {
			200,
			`{"result": false, "code": "1200", "message": "not logged in", "data": {}}`, "", true,
		},
		"no session, data null":    {200, `{"result": false, "data": null}`, "", true},
		"no session but a name":    {200, `{"result": false, "data": {"username": "ann"}}`, "", true},
		"a session without a name": {200, `{"result": true, "data": {}}`, "", false},
		"broken":                   {500, `{"result": true, "data": {"username": "ann"}}`, "", false},
		"a page":                   {200, `<html>log in</html>`, "", false},
		"another form":             {200, `{"data": {"username": "ann"}}`, "", false},
		"a redirect":               {302, ``, "", false},
		"an endless answer is cut": {200, `{"result": true, "x": "` + strings.Repeat("x", 70<<10) +
			`", "data": {"username": "ann"}}`, "", false},
		"a truth that is not boolean": {200, `{"result": "true", "data": {"username": "ann"}}`, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			c, asked := service(t, tt.status, tt.body)
			for range 2 {
				user, err := c.User(t.Context(), token)
				switch {
				case tt.user != "" && (err != nil || user != tt.user):
					t.Errorf("user is %q, error %v", user, err)
				case tt.user == "" && (err == nil || errors.Is(err, gate.ErrNoSession) != tt.nobody):
					t.Errorf("user is %q, error %v", user, err)
				}
				if err != nil && strings.Contains(err.Error(), token) {
					t.Errorf("the error holds the token: %v", err)
				}
			}
			want := int32(2) // only a session is remembered
			if tt.user != "" {
				want = 1
			}
			if n := asked.Load(); n != want {
				t.Errorf("the service was asked %d times, want %d", n, want)
			}
		})
	}
}

func TestAnotherTokenIsAskedAbout(t *testing.T) {
	c, asked := service(t, 200, `{"result": true, "data": {"username": "ann"}}`)
	for _, tok := range []string{"a", "b", "a b&bk_token=c", "a"} {
		if _, err := c.User(t.Context(), tok); err != nil {
			t.Error(err)
		}
	}
	if n := asked.Load(); n != 3 {
		t.Errorf("the service was asked %d times, want 3", n)
	}
}

func TestServiceThatIsAway(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	c, err := login.New(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	srv.Close()
	user, err := c.User(t.Context(), token)
	if err == nil || errors.Is(err, gate.ErrNoSession) || user != "" || strings.Contains(err.Error(), token) {
		t.Errorf("user is %q, error %v", user, err)
	}
}

func TestAddresses(t *testing.T) {
	for _, good := range []string{"http://paas.example.com/login", "https://10.0.0.1:8443"} {
		if _, err := login.New(good); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{
		"", "paas.example.com", "ftp://x", "http://", "http://u:planted@x/", "http://x/?a=b",
		"http://x/#f", "http://[::1",
	} {
		if _, err := login.New(bad); err == nil || strings.Contains(err.Error(), "planted") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
