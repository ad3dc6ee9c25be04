package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"drover/internal/pki"
)

// Fleet is a drover server, in a process of its own, as its users run it. Its agents are the caller's.
type Fleet struct {
	// Dir is the data directory of the server, Log its log, URL its API.
	Dir, Log, URL string
	// Server is the process.
	Server *Child
	bin    string
	client *http.Client
}

// StartFleet starts a server on a directory and waits until it takes calls.
func StartFleet(bin, dir string) (*Fleet, error) {
	f := &Fleet{bin: filepath.Join(bin, "drover"), Dir: dir, Log: filepath.Join(dir, "server.log")}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return f, f.Start()
}

// Start starts the server, again where it was before.
func (f *Fleet) Start() error {
	listen := "127.0.0.1:0"
	if f.URL != "" {
		_, listen, _ = strings.Cut(f.URL, "://")
	}
	cmd := exec.Command(f.bin, "server", "--data-dir", f.Dir, "--http", listen, "--fabric", "127.0.0.1:0",
		"--log-level", "warn")
	cmd.Env = append(os.Environ(), "DROVER_BOOTSTRAP_APP_CODE="+AppCode, "DROVER_BOOTSTRAP_APP_SECRET="+AppSecret)
	banner := filepath.Join(f.Dir, "banner")
	out, err := os.Create(banner)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd.Stdout = out
	if f.Server, err = Start(cmd, f.Log); err != nil {
		return err
	}
	err = Eventually("the server", fleetPatience, func() bool {
		select {
		case <-f.Server.Ended():
			return true
		default:
		}
		text, err := os.ReadFile(banner)
		if found := bannerURL().FindSubmatch(text); err == nil && found != nil {
			f.URL = string(found[1])
			return true
		}
		return false
	})
	if err == nil && f.URL == "" {
		err = errors.New("the server has ended")
	}
	if err != nil {
		return err
	}
	pem, err := os.ReadFile(filepath.Join(f.Dir, "server", "pki", pki.CAFile))
	if err != nil {
		return err
	}
	trust, err := pki.Trusting(string(pem))
	if err != nil {
		return err
	}
	f.client = &http.Client{Transport: &http.Transport{TLSClientConfig: trust}}
	return nil
}

func bannerURL() *regexp.Regexp { return regexp.MustCompile(`(?m)^\s*URL\s+(\S+)\n`) }

// Kill ends the server as a power failure would, but for what the kernel keeps.
func (f *Fleet) Kill() { f.Server.End(syscall.SIGKILL) }

// Token makes a token for n hosts.
func (f *Fleet) Token(ctx context.Context, n int) (string, error) {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, f.bin, "token", "create", "--area", "0", "--uses", strconv.Itoa(n), "--ttl", "24h",
		"--data-dir", f.Dir)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("cannot make a token: %w: %s", err, stderr.Bytes())
	}
	return strings.TrimSpace(string(out)), nil
}

// Do makes a request and returns the whole reply.
func (f *Fleet) Do(method, path string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(context.Background(), method, f.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-Bkapi-Authorization", fmt.Sprintf(`{"bk_app_code":%q,"bk_app_secret":%q,"bk_username":"bench"}`,
		AppCode, AppSecret))
	resp, err := f.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// Call calls an endpoint and decodes its data; a reply that says failure is an error.
func (f *Fleet) Call(name string, body []byte, data any) error {
	text, err := f.Do(http.MethodPost, "/api/v2/proc/"+name, body)
	if err != nil {
		return err
	}
	return Decode(name, text, data)
}

// Online returns how many agents are there, as /metrics tells it.
func (f *Fleet) Online() (int, error) {
	text, err := f.Do(http.MethodGet, "/metrics", nil)
	if err != nil {
		return 0, err
	}
	const name = `drover_hosts{presence="online"} `
	_, rest, ok := strings.Cut(string(text), name)
	if !ok {
		return 0, fmt.Errorf("/metrics tells of no agents: %.300s", text)
	}
	line, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.ParseFloat(line, 64)
	return int(n), err
}

// AwaitOnline waits until n agents are there.
func (f *Fleet) AwaitOnline(n int) error {
	var last int
	err := Eventually("the agents", fleetPatience, func() bool {
		began := time.Now()
		got, err := f.Online()
		last = got
		if err == nil && got == n {
			return true
		}
		Pause(min(max(LookEvery, lookShare*time.Since(began)), lookAtLeastEvery))
		return false
	})
	if err != nil {
		return fmt.Errorf("%w: %d of %d are there", err, last, n)
	}
	return nil
}

// Operate carries out an operation and returns the code of each key, and how long it took to accept it, and until every
// key was answered. The caller waits, it does not poll: a poll of so many keys would be work for the server, too.
func (f *Fleet) Operate(body []byte) (codes map[string]int, accepted, answered time.Duration, err error) {
	began := time.Now()
	var made struct {
		Task string `json:"task_id"`
	}
	if err := f.Call("operate_proc_multi", body, &made); err != nil {
		return nil, 0, 0, err
	}
	accepted = time.Since(began)
	for done := false; !done; answered = time.Since(began) {
		if done, err = f.wait(made.Task); err != nil {
			return nil, 0, 0, err
		}
		if answered > fleetPatience {
			return nil, 0, 0, errors.New("keys are pending still")
		}
	}
	var reply map[string]struct {
		Code int `json:"error_code"`
	}
	if err := f.Call("get_proc_operate_result_v2", []byte(fmt.Sprintf(`{"task_id":%q}`, made.Task)),
		&reply); err != nil {
		return nil, 0, 0, err
	}
	codes = make(map[string]int, len(reply))
	for key, r := range reply {
		codes[key] = r.Code
	}
	return codes, accepted, answered, nil
}

// wait waits for the end of a task for as long as the server lets one wait, and reports whether it has come.
func (f *Fleet) wait(task string) (bool, error) {
	text, err := f.Do(http.MethodGet, "/api/v1/tasks/"+url.PathEscape(task)+"?wait=60", nil)
	if err != nil {
		return false, err
	}
	var operation struct {
		State string `json:"state"`
	}
	if err := json.Unmarshal(text, &operation); err != nil || operation.State == "" {
		return false, fmt.Errorf("cannot read the reply about an operation: %.300s", text)
	}
	return operation.State == "done", nil
}

const (
	// fleetPatience is how long anything of a whole fleet may take.
	fleetPatience = 5 * time.Minute
	// LookEvery is how often it is looked whether something has come about.
	LookEvery = 50 * time.Millisecond
	// lookShare is how many times as long as a look passes at least until the next: it is work for the server.
	lookShare = 50
	// lookAtLeastEvery bounds that time: while the processors are busy, a look takes long, although it is little work.
	lookAtLeastEvery = 500 * time.Millisecond
)
