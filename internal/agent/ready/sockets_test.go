package ready_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"drover/internal/agent/ready"
	"drover/internal/spec"
)

// TestAnswerOfAnotherProgram asks a port where a program listened before the start. The check notes that, unless the
// process may have given the answer.
func TestAnswerOfAnotherProgram(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer s.Close()
	for _, c := range []struct {
		name         string
		earlier, now []uint64
		holder, says string
	}{
		{"nobody listened there", nil, []uint64{7}, "pid 9 (web)", ""},
		{"nothing has begun to listen since", []uint64{7, 8}, []uint64{8}, "pid 9 (web)", "was answered by pid 9 (web), which"},
		{"a socket has come", []uint64{7}, []uint64{7, 8}, "pid 9 (web)", ""},
		{"the process was given the socket", []uint64{7}, []uint64{7}, "", ""},
		{"a rule of the kernel answers", []uint64{7}, nil, "pid 9 (web)", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := ready.Env{
				Earlier: c.earlier, Listeners: func(uint16) []uint64 { return c.now },
				Holder: func(sockets []uint64) string {
					if !slices.Equal(sockets, c.now) {
						t.Errorf("asked whose %v is", sockets)
					}
					return c.holder
				},
			}
			tcp := spec.Ready{TCP: strings.TrimPrefix(s.URL, "http://")}
			for _, test := range []spec.Ready{tcp, {HTTP: s.URL}} {
				one := check(t, test, env)
				says(t, one.Try(t.Context()), "")
				if note := one.Note(); (note == "") != (c.says == "") || !strings.Contains(note, c.says) {
					t.Errorf("it notes %q, want %q", note, c.says)
				}
			}
		})
	}
}

func TestAnswering(t *testing.T) {
	status := http.StatusOK
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	defer s.Close()
	address := strings.TrimPrefix(s.URL, "http://")
	for _, c := range []struct {
		name   string
		test   spec.Ready
		status int
		open   bool
		want   []uint64
	}{
		{"a port", spec.Ready{TCP: address}, 200, true, []uint64{7}},
		{"a port where nobody listens", spec.Ready{TCP: address}, 200, false, nil},
		{"a URL", spec.Ready{HTTP: s.URL}, 200, true, []uint64{7}},
		{"a load balancer with nobody behind it", spec.Ready{HTTP: s.URL}, 502, true, nil},
		{"a command", spec.Ready{Exec: "true"}, 200, true, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			status = c.status
			got := ready.Answering(t.Context(), c.test, func(port uint16) []uint64 {
				if !c.open {
					return nil
				}
				return []uint64{7}
			})
			if !slices.Equal(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
	for url, want := range map[string]uint16{
		"http://a/x": 80, "https://a": 443, "http://[::1]:8080/": 8080, "http://a:81": 81,
	} {
		var asked uint16
		ready.Answering(t.Context(), spec.Ready{HTTP: url}, func(port uint16) []uint64 {
			asked = port
			return nil
		})
		if asked != want {
			t.Errorf("%s asks port %d, want %d", url, asked, want)
		}
	}
}
