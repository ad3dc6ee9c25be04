package quickstart_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"drover/internal/test/harness"
)

// curl returns the command that the banner prints.
func curl(t *testing.T, s *harness.Server) string {
	t.Helper()
	var line string
	harness.Eventually(t, "the whole banner", func() bool {
		for l := range strings.Lines(s.Output()) {
			if strings.HasPrefix(strings.TrimSpace(l), "curl ") && strings.HasSuffix(l, "\n") {
				line = strings.TrimSpace(l)
			}
		}
		return line != ""
	})
	return line
}

// paste runs a command line as a shell would, with these variables beside PATH, and returns the code of the answer.
func paste(t *testing.T, line string, env ...string) any {
	t.Helper()
	r := harness.Finish(t, "", harness.Environment("/", env...), "sh", "-c", line)
	var reply harness.Object
	if err := json.Unmarshal([]byte(r.Out), &reply); err != nil || r.Code != 0 {
		t.Fatalf("%s: exit code %d: %s%s", line, r.Code, r.Out, r.Errors)
	}
	return reply["code"]
}

// TestBanner: what drover dev prints at its first start works when it is pasted, and the secret is never shown again.
func TestBanner(t *testing.T) {
	t.Parallel()
	s := harness.StartIn(t, binaries.drover, nil)
	line := curl(t, s)
	if code := paste(t, line); code != 0.0 {
		t.Errorf("%s: code %v", line, code)
	}
	found := regexp.MustCompile(`app secret  (\S+)   \(shown this once`).FindStringSubmatch(s.Output())
	if found == nil || len(found[1]) < 16 {
		t.Fatalf("no secret in the banner:\n%s", s.Output())
	}
	secret := found[1]
	for _, text := range []string{s.URL, s.DataDir, harness.Agent, "examples/quickstart.sh"} {
		if !strings.Contains(s.Output(), text) {
			t.Errorf("the banner lacks %s:\n%s", text, s.Output())
		}
	}

	if err := s.Terminate(); err != nil {
		t.Fatal(err)
	}
	s.Run()
	line = curl(t, s)
	if strings.Contains(s.Output(), secret) {
		t.Errorf("the secret was shown again:\n%s", s.Output())
	}
	if code := paste(t, line, "DROVER_APP_SECRET="+secret); code != 0.0 {
		t.Errorf("%s: code %v after the second start", line, code)
	}
	if code := paste(t, line, "DROVER_APP_SECRET=guessed"); code == 0.0 {
		t.Errorf("%s: let in with a wrong secret", line)
	}
	if err := s.Terminate(); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(filepath.Dir(s.DataDir), func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		data, _ := os.ReadFile(path) // directories and sockets hold no secret
		if strings.Contains(string(data), secret) {
			t.Errorf("%s holds the secret", path)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestBannerWithGivenApp: the credentials of the environment are used and not shown.
func TestBannerWithGivenApp(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	line := curl(t, s)
	if strings.Contains(s.Output(), harness.AppSecret) {
		t.Errorf("the given secret is shown:\n%s", s.Output())
	}
	if code := paste(t, line, "DROVER_BOOTSTRAP_APP_SECRET="+harness.AppSecret); code != 0.0 {
		t.Errorf("%s: code %v", line, code)
	}
}

func TestDevListensOnLoopbackOnly(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:7350", "drover.example:80"} {
		dir := filepath.Join(t.TempDir(), "data")
		r := harness.Finish(t, "", harness.Environment("/"), binaries.drover, "dev", "--data-dir", dir, "--http",
			address)
		if r.Code != 78 || !strings.Contains(r.Errors, "loopback") {
			t.Errorf("--http %s: exit code %d, says %q, want 78 and a word about loopback", address, r.Code, r.Errors)
		}
		if exists(dir) {
			t.Errorf("--http %s: the data directory was made", address)
		}
	}
}

func TestSecondDroverIsRefused(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	env := harness.Environment("/")
	r := harness.Finish(t, "", env, binaries.drover, "dev", "--data-dir", s.DataDir, "--http", "127.0.0.1:0")
	if r.Code != 1 || !strings.Contains(r.Errors, s.DataDir+" is in use by another drover") {
		t.Errorf("on the same data directory: exit code %d, says %q", r.Code, r.Errors)
	}
	r = harness.Finish(t, "", env, binaries.agent, "run", "--data-dir", s.DataDir)
	if r.Code != 1 || !strings.Contains(r.Errors, "another agent uses this data directory") {
		t.Errorf("drover-agent on the same data directory: exit code %d, says %q", r.Code, r.Errors)
	}
	dir := filepath.Join(t.TempDir(), "data")
	r = harness.Finish(t, "", env, binaries.drover, "dev", "--data-dir", dir, "--http",
		strings.TrimPrefix(s.URL, "http://"))
	if r.Code != 1 || !strings.Contains(r.Errors, "address already in use") || exists(dir) {
		t.Errorf("on the same port: exit code %d, says %q; its data directory is left: %v", r.Code, r.Errors,
			exists(dir))
	}
	resp, err := http.Get(s.URL + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("the first drover answers %s", resp.Status)
	}
}

// TestSIGTERMEndsInTime: whatever is under way, a stop is quick and clean, and touches no process.
func TestSIGTERMEndsInTime(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	running, dir := harness.Running(t, s, binaries.oddd, "running")
	pid := harness.ReadPID(t, dir+"/oddd.pid")
	// A command that never ends, a caller that waits for one, and callers that say nothing.
	stuck, stuckDir := harness.Odd(t, s, binaries.oddd, "stuck", "plain")
	stuck.Control["start_cmd"] = "echo $$ >command.pid; exec sleep 1000"
	stuck.Policy = harness.Object{"op_timeout": 900}
	stuck.Submit(0)
	harness.Eventually(t, "the command to run", func() bool { return exists(stuckDir + "/command.pid") })
	address := strings.TrimPrefix(s.URL, "http://")
	for _, words := range []string{
		"",
		"POST /api/v2/proc/sync_proc_status HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
	} {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := fmt.Fprint(c, words); err != nil {
			t.Fatal(err)
		}
	}
	waiting := make(chan struct{})
	go func() {
		defer close(waiting)
		body := `{"bk_app_code":"` + harness.AppCode + `","bk_app_secret":"` + harness.AppSecret +
			`","bk_username":"me","meta":{"namespace":"odd","name":"stuck"},` +
			`"hosts":[{"ip":"127.0.0.1","bk_cloud_id":0}],"spec":null}`
		resp, err := http.Post(s.URL+"/api/v2/proc/unregister_proc_info", "application/json", strings.NewReader(body))
		if err == nil {
			resp.Body.Close() // whatever it says: drover went down
		}
	}()

	before := time.Now()
	if err := s.Terminate(); err != nil {
		t.Errorf("ended with %v", err)
	}
	if took := time.Since(before); took > stopTime {
		t.Errorf("took %v, want at most %v", took, stopTime)
	}
	<-waiting
	if !harness.Alive(pid) || !harness.Alive(harness.ReadPID(t, stuckDir+"/command.pid")) {
		t.Error("a process ended with drover")
	}
	s.Run()
	if r := running.Query(); r.PID != pid || !r.Hosted {
		t.Errorf("after the next start: pid %d, hosted %v, want pid %d, hosted", r.PID, r.Hosted, pid)
	}
}
