package monitoring_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"drover/internal/test/harness"
)

// delivery is what a receiver got.
type delivery struct {
	name, signature string
	body            []byte
}

// alarm is an entry of a delivery.
type alarm struct {
	Name      string            `json:"event_name"`
	Target    string            `json:"target"`
	Timestamp int64             `json:"timestamp"`
	Dimension map[string]string `json:"dimension"`
	Event     struct {
		Content string `json:"content"`
	} `json:"event"`
	ReportID int64 `json:"report_id"`
}

// receiver takes deliveries, unless it is told to refuse them.
type receiver struct {
	*httptest.Server
	refuses atomic.Bool
	refused chan struct{}
	got     chan delivery
}

func receive(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{got: make(chan delivery, 1000), refused: make(chan struct{}, 1000)}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		if r.refuses.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			r.refused <- struct{}{}
			return
		}
		r.got <- delivery{req.Header.Get("X-Drover-Delivery"), req.Header.Get("X-Drover-Signature"), body}
	}))
	t.Cleanup(r.Close)
	return r
}

// next waits for the next alarm of a name about a process; others are passed by.
func (r *receiver) next(t *testing.T, secret, name, process string) alarm {
	t.Helper()
	limit := time.After(harness.Patience)
	for {
		var d delivery
		select {
		case d = <-r.got:
		case <-limit:
			t.Fatalf("no alarm %s of %s arrived", name, process)
		}
		if !verify(secret, d.signature, d.body, time.Now()) {
			t.Fatalf("signature %q of %s does not fit", d.signature, d.body)
		}
		var m struct {
			DataID int     `json:"data_id"`
			Data   []alarm `json:"data"`
		}
		if err := json.Unmarshal(d.body, &m); err != nil || m.DataID != 1100008 {
			t.Fatalf("%s: data id %d, error %v", d.body, m.DataID, err)
		}
		for _, a := range m.Data {
			if a.Name == name && a.Dimension["process_name"] == process {
				return a
			}
		}
	}
}

// verify is the function of docs/alarms.md.
func verify(secret, header string, body []byte, now time.Time) bool {
	var seconds int64
	var sum string
	if _, err := fmt.Sscanf(header, "t=%d,v1=%s", &seconds, &sum); err != nil {
		return false
	}
	if d := now.Sub(time.Unix(seconds, 0)); d.Abs() > 5*time.Minute {
		return false
	}
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%d.%s", seconds, body) //nolint:errcheck // a hash takes everything
	want := hex.EncodeToString(mac.Sum(nil))
	return hmac.Equal([]byte(want), []byte(sum))
}

// register makes a receiver and returns its secret.
func register(t *testing.T, s *harness.Server, name string, r *receiver, namespaces ...string) string {
	t.Helper()
	status, made := s.Do(http.MethodPost, "/api/v1/receivers", harness.Object{
		"name": name, "url": r.URL, "local": true,
		"namespaces": append([]string{}, namespaces...),
	})
	if status != http.StatusCreated {
		t.Fatalf("HTTP %d: %v", status, made)
	}
	return made["secret"].(string)
}

// kill kills a running process and waits until it is back.
func kill(t *testing.T, p *harness.Process, dir string) {
	t.Helper()
	pid := harness.ReadPID(t, dir+"/oddd.pid")
	harness.Signal(t, pid, syscall.SIGKILL)
	harness.Eventually(t, "the process to be relaunched", func() bool {
		now := p.Query().PID
		return now > 1 &&
			now != pid
	})
}

// TestAlarmOfAProcessThatDied: killed, relaunched, and told to whom it concerns, signed and in GSE's form.
func TestAlarmOfAProcessThatDied(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	mine, others := receive(t), receive(t)
	secret := register(t, s, "mine", mine, "o?d")
	register(t, s, "others", others, "other")
	p, dir := harness.Running(t, s, binaries.oddd, "cart")
	before := time.Now().Add(-time.Minute).UnixMilli()
	kill(t, p, dir)
	a := mine.next(t, secret, "process_restart_success", "cart")
	if a.Target != "127.0.0.1|0" || a.Timestamp < before || a.Dimension["process_index"] != "odd:cart" ||
		a.Dimension["bk_target_cloud_id"] != "0" ||
		!strings.HasPrefix(a.Event.Content, "check cart not running, and restart it success") {
		t.Errorf("the alarm is %+v", a)
	}
	if n := len(others.got); n != 0 {
		t.Errorf("a receiver of another namespace got %d messages", n)
	}
}

// TestAlarmsOutliveReceiverAndServer: what a receiver refuses is delivered when it is back, also by the next server,
// and is told meanwhile where an operator looks.
func TestAlarmsOutliveReceiverAndServer(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	r := receive(t)
	secret := register(t, s, "ops", r)
	p, dir := harness.Running(t, s, binaries.oddd, "cart")
	r.refuses.Store(true)
	kill(t, p, dir)
	<-r.refused
	harness.Eventually(t, "the failure to be shown", func() bool {
		_, w := s.Do(http.MethodGet, "/api/v1/receivers/ops", nil)
		delivery := w["delivery"].(harness.Object)
		return delivery["failures"].(float64) > 0 && strings.Contains(delivery["error"].(string), "503")
	})
	status, ready := s.Do(http.MethodGet, "/readyz", nil)
	notes := fmt.Sprint(ready["notes"])
	if status != http.StatusOK || !strings.Contains(notes, "receiver ops has taken no alarms since") ||
		strings.Contains(notes, r.URL) {
		t.Errorf("readyz is %d %v: want ready, with a note of the receiver that fails", status, ready)
	}
	s.Kill()
	r.refuses.Store(false)
	s.Run()
	r.next(t, secret, "process_restart_success", "cart")
	harness.Eventually(t, "the failure to be over", func() bool {
		_, w := s.Do(http.MethodGet, "/api/v1/receivers/ops", nil)
		return w["delivery"].(harness.Object)["failures"] == 0.0
	})
}
