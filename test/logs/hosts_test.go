package logs_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"drover/internal/test/harness"
)

// TestHosts: the lines of several hosts begin with the host; a host that is away is told. Who lacks the right reads nothing,
// and so does everybody where the policy of the host says so.
func TestHosts(t *testing.T) {
	t.Parallel()
	f := harness.NewFleet(t, binaries.drover, binaries.agent)
	policy := filepath.Join(f.Dir, "policy.conf")
	one := f.JoinAndStart("one", "10.0.0.1", 0, "--policy", policy)
	two := f.JoinAndStart("two", "10.0.0.2", 0)
	run := func(args ...string) (int, string, string) {
		done := harness.Finish(t, "", harness.Environment("/nonexistent"), f.Drover,
			append(args, "--data-dir", f.ServerDir())...)
		return done.Code, done.Out, done.Errors
	}
	f.Online("0:10.0.0.1")
	f.Online("0:10.0.0.2")
	for i, agent := range []string{"one", "two"} { // on one machine they start the same only in different directories
		text := fmt.Sprintf(`namespace: shop
processes:
  api:
    hosts: ["0:10.0.0.%d"]
    directory: %s
    run: 'sh -c "echo hello; exec sleep 1000"'
    log: {max_size: 1MiB}
`, i+1, f.AgentDir(agent))
		file := filepath.Join(f.Dir, agent+".yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, out, errs := run("apply", "-f", file, "--yes"); code != 0 {
			t.Fatalf("apply: %d %s%s", code, out, errs)
		}
	}
	want := []string{"0:10.0.0.1  hello", "0:10.0.0.2  hello"}
	harness.Eventually(t, "the lines of both hosts", func() bool {
		code, out, _ := run("logs", "shop/api")
		got := strings.Split(strings.TrimSpace(out), "\n")
		slices.Sort(got)
		return code == 0 && slices.Equal(got, want)
	})
	if _, out, _ := run("logs", "shop/api", "--hosts", "0:10.0.0.2"); out != "hello\n" {
		t.Errorf("of one host: %q", out)
	}
	two.Kill()
	f.Away("0:10.0.0.2")
	if code, out, errs := run("logs", "shop/api"); code != 7 || out != "0:10.0.0.1  hello\n" ||
		!strings.Contains(errs, "0:10.0.0.2: the host is not connected") {
		t.Errorf("with one host away: %d %q %q", code, out, errs)
	}
	if code, _, _ := run("logs", "shop/api", "--hosts", "0:10.0.0.2"); code != 6 {
		t.Errorf("of the host that is away: exit code %d", code)
	}
	if code, out, _ := run("logs", "shop/api", "-o", "json"); code != 7 || !strings.Contains(out, `"error":"the host is not connected"`) {
		t.Errorf("with one host away, as JSON: %d %q", code, out)
	}
	for grant, want := range map[string]int{
		"query on shop": http.StatusForbidden, "read on shop at 0:10.0.0.1": http.StatusOK,
		"read on other": http.StatusForbidden, "read-logs on shop at 0:10.9.*": http.StatusNotFound,
	} {
		name := "app-" + strconv.Itoa(want) + strings.Fields(grant)[2]
		_, out, errs := run("app", "create", name, "--may-name-users", "--grant", grant, "-o", "json")
		var app struct{ Secret string }
		if err := json.Unmarshal([]byte(out), &app); err != nil {
			t.Fatalf("app create: %s%s", out, errs)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.URL+"/api/v1/processes/shop/api/logs", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Bkapi-Authorization",
			fmt.Sprintf(`{"bk_app_code":%q,"bk_app_secret":%q,"bk_username":"anna"}`, name, app.Secret))
		resp, err := f.Client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != want || want == http.StatusOK && strings.Count(string(body), "hello") != 1 {
			t.Errorf("with %q: HTTP %d, want %d: %s", grant, resp.StatusCode, want, body)
		}
	}
	if err := os.WriteFile(policy, []byte("namespaces other-*\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := run("logs", "shop/api", "--hosts", "0:10.0.0.1"); code != 1 || out != "" ||
		!strings.Contains(errs, "refused by the policy of this host, "+policy+" line 1: namespace") || one.Ended() {
		t.Errorf("against the policy: %d %q %q", code, out, errs)
	}
}
