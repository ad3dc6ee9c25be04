package screen_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drover/internal/test/harness"
)

// app is the program of shop/api on each host. A bad release ends after a moment.
const app = `#!/bin/sh
echo "run $$"
[ -e bad ] && sleep 1 && echo "cannot reach the database" && exit 3
exec sleep 100000
`

// fleet is a server with some hosts that run shop/api, each in a directory of its own.
type fleet struct {
	*harness.Fleet
	hosts []string
}

func newFleet(t *testing.T, hosts int) *fleet {
	t.Helper()
	f := &fleet{Fleet: harness.NewFleet(t, binaries.drover, binaries.agent)}
	for i := range hosts {
		ip := fmt.Sprint("127.0.0.", i+2)
		f.JoinAndStart(fmt.Sprint("host", i), ip, 0, "--facts-dir", "/nonexistent")
		f.hosts = append(f.hosts, "0:"+ip)
		must(t, os.Mkdir(f.dir(i), 0o755))
		must(t, harness.WriteProgram(filepath.Join(f.dir(i), "app"), []byte(app)))
		f.CLI("register", "shop/api", "--hosts", f.hosts[i], "--file", f.file(fmt.Sprint(i, ".yaml"),
			fmt.Sprintf("run: ./app\ndirectory: %s\nuser: root\nready: {alive: 0s}\n", f.dir(i))))
	}
	f.CLI("start", "shop/api", "--yes")
	return f
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (f *fleet) dir(host int) string { return filepath.Join(f.Dir, fmt.Sprint("app", host)) }

// file writes a file, and returns its path.
func (f *fleet) file(name, text string) string {
	f.T.Helper()
	path := filepath.Join(f.Dir, name)
	must(f.T, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// release makes the next start of shop/api good or bad on all hosts.
func (f *fleet) release(good bool) {
	f.T.Helper()
	for i := range f.hosts {
		path := filepath.Join(f.dir(i), "bad")
		if good {
			must(f.T, os.Remove(path))
		} else {
			must(f.T, os.WriteFile(path, nil, 0o600))
		}
	}
}

// site is a process file that runs a command as web/site on the first host. All hosts of a test are this machine, and
// two drovers never manage the same command in the same directory.
func (f *fleet) site(command, more string) string {
	return f.file("site.yaml", fmt.Sprintf("namespace: web\nprocesses:\n  site:\n    run: %s\n    directory: %s\n    user: root\n"+
		"    hosts: [%q]\n    ready: {alive: 1s}\n%s", command, f.dir(0), f.hosts[0], more))
}

// as runs a command for a user, which must succeed.
func (f *fleet) as(user string, args ...string) {
	f.T.Helper()
	token := strings.TrimSpace(f.CLI("user", "token", user))
	env := append(harness.Environment("/nonexistent"), "DROVER_SERVER="+f.URL, "DROVER_USER_TOKEN="+token,
		"SSL_CERT_FILE="+filepath.Join(f.ServerDir(), "server", "pki", "ca.pem"))
	if r := harness.Finish(f.T, "", env, f.Drover, args...); r.Code != 0 {
		f.T.Fatalf("drover %v: exit code %d\n%s%s", args, r.Code, r.Out, r.Errors)
	}
}

// try runs a command that may fail.
func (f *fleet) try(args ...string) {
	f.T.Helper()
	_, _, _ = f.Run("server", "", f.Drover, append(args, "--data-dir", f.ServerDir())...)
}
