package security_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"drover/internal/test/harness"
)

// mark is in every planted secret that a caller makes up, so that one search finds them all. It survives JSON, URLs and
// Go's %q.
const mark = "planted7d1f"

const boot = mark + "-bootstrap-secret"

// caller sends requests and keeps every reply.
type caller struct {
	t       *testing.T
	server  *harness.Server
	replies bytes.Buffer
	// secrets are those that were made for us, besides what holds the mark.
	secrets []string
}

// call sends a request as it is and returns the body of its reply.
func (c *caller) call(method, target, header, body string) string {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.server.URL+target, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	if header != "" {
		req.Header.Set("X-Bkapi-Authorization", header)
	}
	return c.send(req)
}

// send sends a request and returns the body of its reply.
func (c *caller) send(req *http.Request) string {
	c.t.Helper()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	reply, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := resp.Header.Write(&c.replies); err != nil {
		c.t.Fatal(err)
	}
	c.replies.Write(reply)
	return string(reply)
}

func admin() string {
	return fmt.Sprintf(`{"bk_app_code": %q, "bk_app_secret": %q, "bk_username": "admin"}`, harness.AppCode, boot)
}

// made asks for something that has a secret, which is answered this once, and takes the secret out of what is searched.
func (c *caller) made(path, body, field string) string {
	c.t.Helper()
	before := c.replies.Len()
	var reply map[string]any
	text := c.call(http.MethodPost, "/api/v1"+path, admin(), body)
	if err := json.Unmarshal([]byte(text), &reply); err != nil {
		c.t.Fatalf("%s: %v: %s", path, err, text)
	}
	secret, _ := reply[field].(string)
	if len(secret) < 16 {
		c.t.Fatalf("%s is answered without a secret: %s", path, text)
	}
	c.replies.Truncate(before)
	c.secrets = append(c.secrets, secret)
	return secret
}

// plant makes calls of every kind, right and wrong, with a secret in every place that takes one.
func (c *caller) plant() {
	t := c.t
	ok := c.made("/apps",
		`{"code": "made", "may_name_users": false, "grants": [{"operations": ["*"], "namespaces": ["*"]}]}`, "secret")
	rotated := c.made("/apps/made/secrets", `{"keep_seconds": 3600}`, "secret")
	c.call(http.MethodPost, "/api/v1/users", admin(), `{"name": "ann"}`)
	token := c.made("/users/ann/tokens", `{"note": "for the test"}`, "token")

	task := `"task_id": "GSETASK:S:1:1"`
	for _, secret := range []string{ok, rotated} {
		for _, user := range []string{`"bk_token": "` + token + `"`, `"bk_token": "` + token + `x"`, `"bk_token": "` +
			mark + `-session"`, `"bk_username": "ann"`} {
			creds := fmt.Sprintf(`"bk_app_code": "made", "bk_app_secret": %q, %s`, secret, user)
			for _, path := range []string{
				"/api/c/compapi/v2/gse/get_proc_operate_result_v2/",
				"/api/v2/proc/get_proc_operate_result_v2", "/procapi/v2/proc/status", "/no/such/path",
			} {
				c.call(http.MethodPost, path, "{"+creds+"}", "{"+task+"}")
				c.call(http.MethodPost, path, "", "{"+task+", "+creds+"}")
				c.call(http.MethodPost, path, "", "{"+task+", "+creds) // cut off
				c.call(http.MethodPost, path, "", "{"+creds+", "+task+`, "meta": 7}`)
				c.call(http.MethodPost, path, "", "{"+creds+"}\xff")
				c.call(http.MethodPost, path, "{"+creds, "{"+task+"}") // a header that is cut off
				c.call(http.MethodPut, path, "", "{"+creds+"}")
			}
			c.call(http.MethodGet, "/api/v1/hosts", "{"+creds+"}", "")
		}
		query := url.Values{
			"bk_app_code": {"made"}, "bk_app_secret": {secret}, "bk_token": {token},
			"task_id": {"x"},
		}.Encode()
		c.call(http.MethodGet, "/api/c/compapi/v2/gse/get_proc_operate_result_v2/?"+query, "", "")
		c.call(http.MethodPost, "/api/c/compapi/v2/gse/get_proc_operate_result_v2/", "", query)
		c.call(http.MethodGet, "/api/v1/hosts?"+query, "", "")
	}
	for _, wrong := range []string{
		`"bk_app_code": "made", "bk_app_secret": "` + mark + `-wrong"`,
		`"bk_app_code": "made", "bk_app_secret": ["` + mark + `-list"]`,
		`"bk_app_code": "made", "bk_app_secret": {"a": "` + mark + `-object"}`,
		`"bk_app_code": "made", "bk_app_secret": "` + mark + strings.Repeat("x", 3000) + `"`,
		`"bk_app_code": "made", "access_token": "` + mark + `-access"`,
		`"bk_app_code": "made", "bk_signature": "` + mark + `-signature", "bk_nonce": "1", "bk_timestamp": "2"`,
		`"app_code": "nobody", "app_secret": "` + mark + `-nobody"`,
		`"bk_app_code": "` + harness.AppCode + `", "bk_app_secret": "` + boot + `", "bk_username": 7, "bk_token": "` +
			mark + strings.Repeat("y", 5000) + `"`,
	} {
		for _, path := range []string{
			"/api/c/compapi/v2/job/get_proc_result/", "/api/v2/proc/operate_proc_multi",
			"/api/v1/tasks",
		} {
			c.call(http.MethodPost, path, "{"+wrong+"}", "{"+task+"}")
			c.call(http.MethodPost, path, "", "{"+task+", "+wrong+"}")
		}
	}
	if reply := c.call(http.MethodGet, "/api/v1/audit?limit=500", admin(), ""); !strings.Contains(reply, `"made"`) {
		t.Errorf("the record of calls does not name the app: %.300s", reply)
	}
	c.call(http.MethodGet, "/api/v1/apps", admin(), "")
	c.call(http.MethodGet, "/api/v1/users/ann/tokens", admin(), "")
}

// found returns which of the secrets are in the data.
func (c *caller) found(data []byte) []string {
	var out []string
	for _, s := range append([]string{mark}, c.secrets...) {
		if bytes.Contains(data, []byte(s)) {
			out = append(out, s)
		}
	}
	return out
}

func TestNoSecretIsEverWritten(t *testing.T) {
	login := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("bk_token") == mark+"-session" {
			http.Redirect(w, r, "/elsewhere", http.StatusFound) // a failure that names the address would name the token
			return
		}
		_, _ = io.WriteString(w, `{"result": false}`)
	}))
	defer login.Close()
	s := harness.StartIn(t, drover, []string{
		"DROVER_BOOTSTRAP_APP_CODE=" + harness.AppCode,
		"DROVER_BOOTSTRAP_APP_SECRET=" + boot,
	},
		"--log-level", "debug", "--login-url", login.URL)
	c := &caller{t: t, server: s}
	dir := harness.Workdir(t)
	// A process that shows what it was started with, and stays.
	operate := fmt.Sprintf(
		`{"meta": {"namespace": "ns", "name": "p"}, "op_type": 0, "agent_id_list": [%q], "bk_app_secret": %q, "spec": {
		"identity": {"proc_name": "sleep", "setup_path": %q, "pid_path": %q, "user": "root"},
		"control": {"start_cmd": "env > environment; sleep 987654 >/dev/null 2>&1 & echo $! > sleep.pid", "stop_cmd": "kill $(cat sleep.pid)"},
		"alive_monitor_policy": {"auto_type": 1, "start_check_secs": 1}}}`, harness.Agent, boot, dir, dir+"/sleep.pid")
	c.call(http.MethodPost, "/api/c/compapi/v2/gse/operate_proc_v2/", admin(), operate)
	harness.Eventually(t, "the process to run", func() bool {
		_, err := os.Stat(filepath.Join(dir, "sleep.pid"))
		return err == nil
	})
	c.plant()
	child := harness.ReadPID(t, filepath.Join(dir, "sleep.pid"))

	t.Run("processes", func(t *testing.T) { c.searchProcesses(t, child) })
	if err := s.Terminate(); err != nil { // so that all is written
		t.Errorf("drover ended with %v", err)
	}
	t.Run("replies", func(t *testing.T) {
		if found := c.found(c.replies.Bytes()); found != nil {
			t.Errorf("replies hold %q", found)
		}
	})
	t.Run("standard output", func(t *testing.T) {
		if found := c.found([]byte(s.Output())); found != nil {
			t.Errorf("the output holds %q:\n%s", found, s.Output())
		}
	})
	t.Run("log", func(t *testing.T) {
		if found := c.found([]byte(s.Log())); found != nil || !strings.Contains(s.Log(), "level=DEBUG") {
			t.Errorf("the log holds %q:\n%s", found, s.Log())
		}
	})
	t.Run("files", func(t *testing.T) {
		seen := c.searchFiles(t, s.DataDir)
		c.searchFiles(t, dir)
		if !slices.Contains(seen, "drover.db") {
			t.Errorf("the database was not searched, only %q", seen)
		}
	})
}

// searchFiles searches a directory and returns the names of its files.
func (c *caller) searchFiles(t *testing.T, dir string) (seen []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		seen = append(seen, d.Name())
		for _, secret := range c.found(data) {
			at := bytes.Index(data, []byte(secret))
			t.Errorf("%s holds %q: …%q…", path, secret, data[max(0, at-120):min(len(data), at+120)])
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return seen
}

// searchProcesses searches the command lines of all processes here, and the environments of all but the two that were
// given the secret in theirs: this test and drover.
func (c *caller) searchProcesses(t *testing.T, must int) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	searched := false
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		files := []string{"cmdline", "environ"}
		if pid == os.Getpid() || pid == c.server.PID() {
			files = files[:1]
		}
		for _, file := range files {
			data, err := os.ReadFile(filepath.Join("/proc", e.Name(), file))
			if err != nil {
				continue // it has ended
			}
			searched = searched || pid == must && file == "environ"
			if found := c.found(data); found != nil {
				t.Errorf("/proc/%d/%s holds %q: %q", pid, file, found, data)
			}
		}
	}
	if !searched {
		t.Errorf("the environment of the process that was started (%d) was not searched", must)
	}
}
