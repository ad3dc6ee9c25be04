package main

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
	"drover/test/bench/lab"
)

// What drover is called as.
const (
	appCode   = "scale"
	appSecret = "scale-secret-0123456789"
	namespace = "scale"
	procName  = "hollowd"
)

// fleet is a drover server, in a process of its own, as its users run it.
type fleet struct {
	bin, dir, log string
	url           string
	server        *lab.Child
	client        *http.Client
}

// startFleet starts a server on a directory and waits until it takes calls.
func startFleet(bin, dir string) (*fleet, error) {
	f := &fleet{bin: filepath.Join(bin, "drover"), dir: dir, log: filepath.Join(dir, "server.log")}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return f, f.start()
}

// start starts the server, again where it was before.
func (f *fleet) start() error {
	listen := "127.0.0.1:0"
	if f.url != "" {
		_, listen, _ = strings.Cut(f.url, "://")
	}
	cmd := exec.Command(f.bin, "server", "--data-dir", f.dir, "--http", listen, "--fabric", "127.0.0.1:0",
		"--log-level", "warn")
	cmd.Env = append(os.Environ(), "DROVER_BOOTSTRAP_APP_CODE="+appCode, "DROVER_BOOTSTRAP_APP_SECRET="+appSecret)
	banner := filepath.Join(f.dir, "banner")
	out, err := os.Create(banner)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd.Stdout = out
	if f.server, err = lab.Start(cmd, f.log); err != nil {
		return err
	}
	err = lab.Eventually("the server", patience, func() bool {
		select {
		case <-f.server.Ended():
			return true
		default:
		}
		text, err := os.ReadFile(banner)
		if found := bannerURL().FindSubmatch(text); err == nil && found != nil {
			f.url = string(found[1])
			return true
		}
		return false
	})
	if err == nil && f.url == "" {
		err = errors.New("the server has ended")
	}
	if err != nil {
		return err
	}
	pem, err := os.ReadFile(filepath.Join(f.dir, "server", "pki", pki.CAFile))
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

// kill ends the server as a power failure would, but for what the kernel keeps.
func (f *fleet) kill() { f.server.End(syscall.SIGKILL) }

// token makes a token for n hosts.
func (f *fleet) token(ctx context.Context, n int) (string, error) {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, f.bin, "token", "create", "--area", "0", "--uses", strconv.Itoa(n), "--ttl", "24h",
		"--data-dir", f.dir)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("cannot make a token: %w: %s", err, stderr.Bytes())
	}
	return strings.TrimSpace(string(out)), nil
}

// do makes a request and returns the whole reply.
func (f *fleet) do(method, path string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(context.Background(), method, f.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-Bkapi-Authorization", fmt.Sprintf(`{"bk_app_code":%q,"bk_app_secret":%q,"bk_username":"scale"}`,
		appCode, appSecret))
	resp, err := f.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// call calls an endpoint and decodes its data; a reply that says failure is an error.
func (f *fleet) call(name string, body []byte, data any) error {
	text, err := f.do(http.MethodPost, "/api/v2/proc/"+name, body)
	if err != nil {
		return err
	}
	return lab.Decode(name, text, data)
}

// online returns how many agents are there, as /metrics tells it.
func (f *fleet) online() (int, error) {
	text, err := f.do(http.MethodGet, "/metrics", nil)
	if err != nil {
		return 0, err
	}
	const name = `drover_agents{presence="online"} `
	_, rest, ok := strings.Cut(string(text), name)
	if !ok {
		return 0, fmt.Errorf("/metrics tells of no agents: %.300s", text)
	}
	line, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.ParseFloat(line, 64)
	return int(n), err
}

// awaitOnline waits until n agents are there.
func (f *fleet) awaitOnline(n int) error {
	var last int
	err := lab.Eventually("the agents", patience, func() bool {
		began := time.Now()
		got, err := f.online()
		last = got
		if err == nil && got == n {
			return true
		}
		lab.Pause(max(lookEvery, lookShare*time.Since(began)))
		return false
	})
	if err != nil {
		return fmt.Errorf("%w: %d of %d are there", err, last, n)
	}
	return nil
}

// operate carries out an operation and returns the code of each key, and how long it took to accept it, and until every
// key was answered. The caller waits, it does not poll: a poll of so many keys would be work for the server, too.
func (f *fleet) operate(body []byte) (codes map[string]int, accepted, answered time.Duration, err error) {
	began := time.Now()
	var made struct {
		Task string `json:"task_id"`
	}
	if err := f.call("operate_proc_multi", body, &made); err != nil {
		return nil, 0, 0, err
	}
	accepted = time.Since(began)
	for done := false; !done; answered = time.Since(began) {
		if done, err = f.wait(made.Task); err != nil {
			return nil, 0, 0, err
		}
		if answered > patience {
			return nil, 0, 0, errors.New("keys are pending still")
		}
	}
	var reply map[string]struct {
		Code int `json:"error_code"`
	}
	if err := f.call("get_proc_operate_result_v2", []byte(fmt.Sprintf(`{"task_id":%q}`, made.Task)),
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
func (f *fleet) wait(task string) (bool, error) {
	text, err := f.do(http.MethodGet, "/api/v1/operations/"+url.PathEscape(task)+"?wait=60", nil)
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
