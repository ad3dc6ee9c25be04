package servers_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"

	"drover/internal/test/harness"
	"drover/test/judge"
)

// receiver keeps the alarms that it was told of.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	alarms []string
}

func receive(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		var message struct {
			Data []json.RawMessage `json:"data"`
		}
		body, err := io.ReadAll(req.Body)
		if err == nil {
			err = json.Unmarshal(body, &message)
		}
		if err != nil {
			t.Errorf("body %q: %v", body, err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, alarm := range message.Data {
			if slices.Contains(r.alarms, string(alarm)) {
				t.Errorf("%s: an alarm came twice: %s", harness.Never, alarm)
			}
			r.alarms = append(r.alarms, string(alarm))
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.alarms)
}

// TestAlarmsComeOnce: one server at a time delivers alarms; when it is killed another one goes on.
func TestAlarmsComeOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1, 2)
	s.agent("one", "127.0.0.2", s.servers[0])
	r := receive(t)
	s.must("receiver", "create", "pager", "--url", r.URL, "--local", "--data-dir", s.servers[1].dir)
	p := judge.Restless(s.daemon("127.0.0.2", "p"))
	s.operate(s.servers[0], s.servers[1], p, judge.Start).Want(t, "start", 0)
	crash := func(want int) {
		t.Helper()
		pid := harness.ReadPID(t, filepath.Join(judge.Dir(p), "d.pid"))
		harness.Signal(t, pid, syscall.SIGKILL)
		harness.Eventually(t, "the alarm", func() bool { return r.count() >= want })
		harness.Eventually(t, "the process to be started again", func() bool {
			return judge.Ran(p, "start") == want+1 && harness.ReadPID(t, filepath.Join(judge.Dir(p), "d.pid")) != pid
		})
	}
	crash(1)
	crash(2)
	for _, n := range s.servers { // whichever has the lease
		n.program().Kill()
		crash(r.count() + 1)
		n.restart()
	}
}
