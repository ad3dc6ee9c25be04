package contract_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"drover/internal/server/store"
	"drover/internal/server/store/sqlite"
	"drover/internal/test/harness"
)

// TestSamePostTwiceAtOnce: a caller that repeats a POST because the first answer was slow does no harm.
func TestSamePostTwiceAtOnce(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	for round := range 3 {
		p, dir := odd(t, s, fmt.Sprintf("repeated %d", round))
		var (
			wg    sync.WaitGroup
			tasks [3]string
		)
		for i := range tasks {
			wg.Go(func() { tasks[i] = p.Submit(0) })
		}
		wg.Wait()
		codes := map[int]int{}
		for _, task := range tasks {
			codes[p.Await(task).Code]++
		}
		if codes[0] != 1 || codes[828] != 2 || harness.Starts(t, dir) != 1 {
			t.Errorf("%scodes %v, started %d times, want one 0, two 828 and one start", harness.MoreThan(1, harness.Starts(t, dir)),
				codes, harness.Starts(t, dir))
		}
		pid := harness.ReadPID(t, dir+"/oddd.pid")
		for i := range tasks {
			wg.Go(func() { tasks[i] = p.Submit(1) })
		}
		wg.Wait()
		clear(codes)
		for _, task := range tasks {
			codes[p.Await(task).Code]++
		}
		if codes[0] != 1 || codes[829] != 2 || harness.Alive(pid) {
			t.Errorf("codes %v, alive %v, want one 0 and two 829", codes, harness.Alive(pid))
		}
	}
}

// attempt is one way to show credentials.
type attempt struct {
	name    string
	method  string
	query   url.Values
	headers map[string]string
	body    harness.Object
}

const authorization = "X-Bkapi-Authorization"

// attempts returns every place that credentials may stand in, filled with these.
func attempts(code, secret string) []attempt {
	header := map[string]string{
		authorization: fmt.Sprintf(`{"bk_app_code":%q,"bk_app_secret":%q,"bk_username":"admin"}`, code, secret),
	}
	params := harness.Object{"bk_app_code": code, "bk_app_secret": secret, "bk_username": "admin"}
	query := url.Values{"bk_app_code": {code}, "bk_app_secret": {secret}, "bk_username": {"admin"}}
	short := harness.Object{"app_code": code, "app_secret": secret, "username": "admin", "bk_token": "ignored"}
	return []attempt{
		{"in the header", http.MethodPost, nil, header, harness.Object{}},
		{"in the body", http.MethodPost, nil, nil, params},
		{"in the body, by the old names", http.MethodPost, nil, nil, short},
		{"in the query of a POST", http.MethodPost, query, nil, harness.Object{}},
		{"in the query of a GET", http.MethodGet, query, nil, nil},
	}
}

// call makes an attempt on a path and returns status and code.
func (a attempt) call(t *testing.T, s *harness.Server, path, request string) (int, harness.Object) {
	t.Helper()
	headers := map[string]string{"X-Bkapi-Request-Id": request}
	maps.Copy(headers, a.headers)
	if a.query != nil {
		path += "?" + a.query.Encode()
	}
	var body any
	if a.body != nil {
		body = a.body
	}
	status, reply := send(t, s, a.method, path, headers, body)
	if reply["request_id"] != request {
		t.Errorf("%s: request_id %v, want %s", a.name, reply["request_id"], request)
	}
	return status, reply
}

// TestCredentials: right ones are taken wherever they stand; wrong ones are refused and audited; no secret is kept
// anywhere.
func TestCredentials(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover, "--log-level", "debug")
	const wrong = "wrong-secret-9876543210"
	for i, a := range attempts(harness.AppCode, harness.AppSecret) {
		// The task is unknown: that is what the call says once the caller has been let in.
		if status, reply := a.call(t, s, gsePath+"get_proc_operate_result_v2/",
			fmt.Sprintf("right-%d", i)); status != http.StatusOK || reply["code"] != 1306406.0 {
			t.Errorf("%s: HTTP %d, %v, want to be let in", a.name, status, reply)
		}
	}
	refused := 0
	// A header counts alone: right credentials in the body do not heal it.
	spoilt := attempts(harness.AppCode, harness.AppSecret)[1]
	spoilt.headers = attempts("stranger", wrong)[0].headers
	if _, reply := spoilt.call(t, s, gsePath+"operate_proc_v2/",
		fmt.Sprintf("refused-%d", refused)); reply["code"] != 1306000.0 {
		t.Errorf("wrong header, right body: %v", reply)
	}
	refused++
	for _, c := range []struct{ what, code, secret string }{
		{"wrong secret", harness.AppCode, wrong},
		{"unknown app", "stranger", wrong},
		{"no secret", harness.AppCode, ""},
		{"nobody", "", ""},
		{"nearly right", harness.AppCode, harness.AppSecret + " "},
	} {
		for _, a := range attempts(c.code, c.secret) {
			status, reply := a.call(t, s, gsePath+"operate_proc_v2/", fmt.Sprintf("refused-%d", refused))
			if status != http.StatusOK || reply["code"] != 1306000.0 || reply["data"] != nil ||
				reply["result"] != false {
				t.Errorf("%s %s: HTTP %d, %v, want 1306000", c.what, a.name, status, reply)
			}
			refused++
			if status, reply := a.call(t, s, procPath+"operate_proc_v2",
				fmt.Sprintf("refused-%d", refused)); status != http.StatusBadRequest || reply["code"] != 1640001.0 {
				t.Errorf("%s %s: HTTP %d, %v, want 400 and 1640001", c.what, a.name, status, reply)
			}
			refused++
		}
	}
	p, _ := odd(t, s, "audited")
	p.Operate(2).Want(t, "query", 0)

	if err := s.Terminate(); err != nil {
		t.Fatal(err)
	}
	recorded, err := database(t, s).ListAudit(t.Context(), store.AuditFilter{Limit: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	denied, allowed := 0, map[string]int{}
	for _, r := range recorded {
		switch {
		case strings.HasPrefix(r.RequestID, "refused-"):
			denied++
			if counted := regexp.MustCompile(`\(the last of (\d+) more since `).FindStringSubmatch(
				r.Message); counted != nil {
				more, err := strconv.Atoi(counted[1])
				if err != nil {
					t.Fatal(err)
				}
				denied += more - 1
			}
			if r.Allowed || r.Code == 0 || r.Action != "operate_proc_v2" || r.Remote != "127.0.0.1" {
				t.Errorf("denial is recorded as %+v", r)
			}
		case r.Allowed:
			allowed[r.Action+" by "+r.App+" for "+r.User]++
		default:
			t.Errorf("unexpected row %+v", r)
		}
	}
	if denied != refused {
		t.Errorf("%d denials are recorded, %d were given", denied, refused)
	}
	if allowed["operate_proc_v2 by tests for tester"] != 1 ||
		allowed["get_proc_operate_result_v2 by tests for admin"] != 5 {
		t.Errorf("recorded calls: %v", allowed)
	}
	noSecretIn(t, filepath.Dir(s.DataDir), harness.AppSecret, wrong)
}

// database opens the database of a server that has ended.
func database(t *testing.T, s *harness.Server) *sqlite.DB {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(s.DataDir, "server", "drover.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// noSecretIn looks for secrets in all files below a directory: the data and the log.
func noSecretIn(t *testing.T, dir string, secrets ...string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		for _, secret := range secrets {
			if bytes.Contains(data, []byte(secret)) {
				t.Errorf("%s holds the secret %s", path, secret)
			}
		}
		return nil
	})
	if err != nil || files < 3 {
		t.Errorf("looked at %d files: %v", files, err)
	}
}

// TestLenientBodies: what real callers send differs from the documents, and is understood.
func TestLenientBodies(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	t.Run("numbers as strings, labels of any type and keys that nobody knows", func(t *testing.T) {
		t.Parallel()
		p, dir := odd(t, s, "lenient")
		request := p.Request(0)
		request["op_type"] = "0"
		request["no_request"], request["nodeman_spec"], request["bk_supplier_account"] = true, nil, "0"
		request["meta"] = harness.Object{
			"namespace": "odd", "name": "lenient",
			"labels": harness.Object{"bk_process_id": 77, "deep": []any{nil, 1.5}}, "more": 1,
		}
		delete(request, "agent_id_list")
		request["hosts"] = []any{harness.Object{
			"ip": "127.0.0.1", "bk_cloud_id": "0", "bk_supplier_id": nil,
			"bk_agent_id": "x",
		}}
		spec := request["spec"].(harness.Object)
		delete(spec, "alive_monitor_policy")
		spec["identity"].(harness.Object)["index_key"] = ""
		spec["monitor_policy"] = harness.Object{
			"auto_type": "1", "start_check_secs": "1", "stop_check_secs": "5",
			"op_timeout": nil, "start_retries": 0,
		}
		spec["resource"] = harness.Object{"cpu": "10.0", "mem": nil}
		p.Await(s.Call("operate_proc_v2", request)["task_id"].(string)).Want(t, "start", 0)
		if n := harness.Starts(t, dir); n != 1 {
			t.Errorf("started %d times", n)
		}
		harness.Eventually(t, "the labels to be shown", func() bool {
			return fmt.Sprint(
				p.Row()["meta"]) == "map[labels:map[bk_process_id:77 deep:[<nil> 1.5]] name:lenient namespace:odd]"
		})
		p.Operate(1).Want(t, "stop", 0)
	})
}

// TestMisspeltTimer: the documents' own spelling of crontab_rule is read too. Hosting a timetable starts nothing by
// itself.
func TestMisspeltTimer(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	const rule = "0 0 1 1 *"
	for _, spelling := range []string{"crotab_rule", "crontab_rule"} {
		p, dir := odd(t, s, spelling)
		p.Policy = harness.Object{"auto_type": 0, "start_check_secs": 1, spelling: rule}
		p.Operate(3).Want(t, "host", 0)
		if n := harness.Starts(t, dir); n != 0 {
			t.Errorf("started %d times", n)
		}
		harness.Eventually(t, "the row to be there", func() bool { return p.Row()["isauto"] == true })
	}
	if err := s.Terminate(); err != nil {
		t.Fatal(err)
	}
	db := database(t, s)
	list, _, err := db.PageObserved(t.Context(), "odd", 0, 10)
	if err != nil || len(list) != 2 {
		t.Fatalf("%d processes are stored: %v", len(list), err)
	}
	for _, o := range list {
		if o.Spec == nil || o.Spec.Timetable().Cron != rule {
			t.Errorf("%s is stored as %+v, want the rule %q", o.Process, o.Spec, rule)
		}
	}
}
