package monitoring_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"drover/internal/test/harness"
)

// startAlertmanager runs a real Alertmanager until the end of the test, and returns its address.
func startAlertmanager(t *testing.T) string {
	t.Helper()
	at, dir := harness.FreeAddress(t), t.TempDir()
	config := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(config, []byte("route: {receiver: none}\nreceivers: [{name: none}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, alertmanager, "--config.file="+config, "--storage.path="+dir,
		"--web.listen-address="+at, "--cluster.listen-address=")
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = cmd.Wait() })
	harness.Eventually(t, "the Alertmanager to be ready", func() bool {
		status, _ := get(t, "http://"+at+"/-/ready")
		return status == http.StatusOK
	})
	return "http://" + at
}

// get makes a call; status is 0 if nobody answers.
func get(t *testing.T, url string) (status int, body []map[string]any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil
	}
	defer resp.Body.Close()                      //nolint:errcheck // only read
	_ = json.NewDecoder(resp.Body).Decode(&body) // not every answer is a list
	return resp.StatusCode, body
}

// TestAlertmanager: a process that is given up fires at a real Alertmanager, and its start ends the alert.
func TestAlertmanager(t *testing.T) {
	t.Parallel()
	url := startAlertmanager(t)
	s := harness.Start(t, binaries.drover)
	status, made := s.Do(http.MethodPost, "/api/v1/receivers", harness.Object{
		"name": "am", "kind": "alertmanager", "url": url, "local": true, "severities": []string{"critical"},
	})
	if status != http.StatusCreated {
		t.Fatalf("HTTP %d: %v", status, made)
	}
	if _, tested := s.Do(http.MethodPost, "/api/v1/receivers/am/test", nil); tested["delivered"] != true {
		t.Fatalf("test delivery: %v", tested)
	}
	p, dir := harness.Odd(t, s, binaries.oddd, "cart", "plain")
	p.Control["start_cmd"] = `if [ -e broken ]; then exit 3; fi; ` + p.Control["start_cmd"].(string)
	p.Policy = harness.Object{"start_check_secs": 1, "start_retries": 1}
	p.Operate(0).Want(t, "start", 0)
	broken := filepath.Join(dir, "broken")
	if err := os.WriteFile(broken, nil, 0o644); err != nil { //nolint:gosec // the process of another account looks for it
		t.Fatal(err)
	}
	harness.Signal(t, harness.ReadPID(t, dir+"/oddd.pid"), syscall.SIGKILL)
	firing := func() bool {
		_, alerts := get(t, url+"/api/v2/alerts?active=true&filter=alertname%3D%22drover-given-up%22")
		if len(alerts) == 0 {
			return false
		}
		labels := alerts[0]["labels"].(map[string]any)
		if labels["process"] != "cart" || labels["severity"] != "critical" || labels["host"] != "127.0.0.1" {
			t.Fatalf("the alert is %v", alerts[0])
		}
		return true
	}
	harness.Eventually(t, "the alert to fire", firing)
	if err := os.Remove(broken); err != nil {
		t.Fatal(err)
	}
	p.Operate(0).Want(t, "start", 0)
	harness.Eventually(t, "the alert to end", func() bool { return !firing() })
}
