package browser_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"drover/internal/test/harness"
)

// app is the program of shop/api on each host. A bad release ends after a moment.
const app = `#!/bin/sh
echo "run $$ of release ${RELEASE:-1}" | tee -a runs
[ -e bad ] && sleep 1 && echo "cannot reach the database" && exit 3
exec sleep 100000
`

// fleet is a server with some hosts that run shop/api, each in a directory of its own.
type fleet struct {
	*harness.Fleet
	hosts  []string
	agents []*harness.Program
}

// newFleet starts a fleet. The hosts 0, 2, … are in env=prod, the others in env=test.
func newFleet(t *testing.T, hosts int) *fleet {
	t.Helper()
	f := &fleet{Fleet: harness.NewFleet(t, binaries.drover, binaries.agent)}
	for i := range hosts {
		ip := fmt.Sprint("127.0.0.", i+2)
		f.agents = append(f.agents, f.JoinAndStart(fmt.Sprint("host", i), ip, 0, "--facts-dir", "/nonexistent"))
		f.hosts = append(f.hosts, "0:"+ip)
		must0(t, os.Mkdir(f.dir(i), 0o755))
		must0(t, harness.WriteProgram(filepath.Join(f.dir(i), "app"), []byte(app)))
		f.CLI("agents", "label", f.hosts[i], "env="+[]string{"prod", "test"}[i%2])
		spec := filepath.Join(f.Dir, fmt.Sprint(i, ".yaml"))
		must0(t, os.WriteFile(spec, fmt.Appendf(nil, "run: ./app\ndirectory: %s\nuser: root\nready: {alive: 0s}\n"+
			"labels: {tier: front}\nversion_command: echo 1.%d\n", f.dir(i), i%2), 0o600))
		f.CLI("register", "shop/api", "--hosts", f.hosts[i], "--file", spec)
	}
	f.CLI("start", "shop/api", "--yes")
	return f
}

func must0(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (f *fleet) dir(host int) string { return filepath.Join(f.Dir, fmt.Sprint("app", host)) }

// release makes the next start of shop/api good or bad on all hosts.
func (f *fleet) release(good bool) {
	f.T.Helper()
	for i := range f.hosts {
		path := filepath.Join(f.dir(i), "bad")
		if good {
			must0(f.T, os.Remove(path))
		} else {
			must0(f.T, os.WriteFile(path, nil, 0o600))
		}
	}
}

// applyFailing is Place.ApplyFailing for a fleet.
func (f *fleet) applyFailing(text string) {
	f.T.Helper()
	path := filepath.Join(f.Dir, "file.yaml")
	must0(f.T, os.WriteFile(path, []byte(text), 0o600))
	code, out, errs := f.Run("server", "", f.Drover, "apply", "-f", path, "--yes", "--data-dir", f.ServerDir())
	if code != 0 && code != 7 {
		f.T.Fatalf("apply: exit code %d\n%s%s", code, out, errs)
	}
}

// signIn opens the console for a user; without a name for the administrator.
func (f *fleet) signIn(set browser, user ...string) *tab {
	f.T.Helper()
	b := open(f.T, f.URL, set)
	b.signInBy(f.link(user...))
	return b
}

func (f *fleet) link(user ...string) string {
	f.T.Helper()
	return strings.TrimSpace(f.CLI(append([]string{"login"}, user...)...))
}

// shell runs a copied command in a shell where drover is the program under test, and returns its exit code and output.
func (f *fleet) shell(command, more string) (code int, out string) {
	f.T.Helper()
	code, out, errs := f.Run("server", "", "/bin/sh", "-c", "PATH="+filepath.Dir(f.Drover)+":$PATH; "+command+" --data-dir "+
		f.ServerDir()+" "+more)
	if code != 0 && code != 4 {
		f.T.Fatalf("%s: exit code %d: %s", command, code, errs)
	}
	return code, out
}

// row is a process on a host, as NAMESPACE/NAME@HOST.
func rowsOf(t testing.TB, list string) (rows []string) {
	t.Helper()
	var found []struct {
		Namespace, Name string
		Host            struct{ ID string }
	}
	if list != "" {
		must0(t, json.Unmarshal([]byte(list), &found))
	}
	for _, p := range found {
		rows = append(rows, p.Namespace+"/"+p.Name+"@"+p.Host.ID)
	}
	slices.Sort(rows)
	return rows
}

// rows are the processes that a list shows.
func (b *tab) rows() []string {
	b.t.Helper()
	rows := evaluate[[]string](b, `[...document.querySelectorAll("[name=target]")].map((e) => decodeURIComponent(e.value))`)
	slices.Sort(rows)
	return rows
}

// read returns the lines of the runs of shop/api on a host.
func (f *fleet) read(host int) string {
	f.T.Helper()
	text, err := os.ReadFile(filepath.Join(f.dir(host), "runs"))
	must0(f.T, err)
	return string(text)
}
