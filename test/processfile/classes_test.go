package processfile_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "drover/api/v1"
	"drover/internal/processfile"
	"drover/internal/test/harness"
)

// TestClasses: the class of each field is what happens to the pid of a process when that field alone changes. A live
// change keeps the pid, a change at the next start begins the process once more.
func TestClasses(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	ok := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	web, secure := httptest.NewServer(ok), httptest.NewTLSServer(ok)
	t.Cleanup(web.Close)
	t.Cleanup(secure.Close)
	t.Cleanup(func() {
		if err := os.RemoveAll("/run/drover-test-" + filepath.Base(p.Dir) + "-2"); err != nil {
			t.Error(err)
		}
	})
	rows := classRows(web.URL, secure.URL, web.Listener.Addr().String(), secondPort(t))
	var fields []processfile.Field
	for _, f := range processfile.Fields() {
		if _, ok := rows[f.Path]; !ok {
			t.Errorf("the field %s has no row", f.Path)
			continue
		}
		fields = append(fields, f)
	}
	p.prepareClasses(fields)
	p.Apply(classFile(fields, rows, "from"))
	before := map[string]int{}
	for _, f := range fields {
		if rows[f.Path].noProcess != "" {
			continue
		}
		harness.Eventually(t, "a process of "+f.Path, func() bool { return p.PID(className(f)) > 0 })
		before[f.Path] = p.PID(className(f))
	}
	changed := classFile(fields, rows, "to")
	p.wantClasses(fields, rows, changed)
	p.Apply(changed)
	for _, f := range fields {
		if row := rows[f.Path]; row.noProcess == "" {
			p.wantPID(f, before[f.Path])
			if row.limit != "" {
				p.wantLimit(f, before[f.Path], row)
			}
		}
	}
	if a := p.CLI("diff", "-f", p.Write("file.yaml", changed)); a.Code != 0 {
		t.Errorf("after all changes there is still something to do: exit code %d\n%s%s", a.Code, a.Out, a.Errors)
	}
}

// secondPort is an address that accepts connections.
func secondPort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it listens on loopback until the test ends
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

// className is the process of a field.
func className(f processfile.Field) string {
	return strings.NewReplacer(".", "-", "_", "-").Replace(f.Path)
}

// classFile returns a process file with one process for each field, which has the value "from" or "to".
func classFile(fields []processfile.Field, rows map[string]classRow, value string) string {
	var b strings.Builder
	b.WriteString("namespace: shop\nprocesses:\n")
	for _, f := range fields {
		row := rows[f.Path]
		lines := []string{"hosts: [\"0:127.0.0.1\"]", "ready: {alive: 0s}", "user: root", "run: NOTE; exec sleep 1000"}
		lines = append(lines, strings.Split(row.beside, "\n")...)
		last := row.from
		if value == "to" {
			last = row.to
		}
		lines = append(lines, strings.Split(last, "\n")...)
		note := strings.NewReplacer("NOTE", "echo >>DIR/starts-"+className(f), "NAME", className(f))
		fmt.Fprintf(&b, "  %s:\n", className(f))
		for i, line := range lines {
			if line != "" && !overridden(line, lines[i+1:]) {
				b.WriteString("    " + note.Replace(line) + "\n")
			}
		}
	}
	return b.String()
}

// overridden reports whether a later line has the same key, or removes it with "-KEY".
func overridden(line string, later []string) bool {
	key, _, _ := strings.Cut(line, ":")
	if strings.HasPrefix(key, "-") {
		return true
	}
	for _, l := range later {
		if l == "-"+key || strings.HasPrefix(l, key+":") {
			return true
		}
	}
	return false
}

// prepareClasses makes the files that the processes need; every account can write to them.
func (p *place) prepareClasses(fields []processfile.Field) {
	p.T.Helper()
	names := []string{"a.env", "b.env", "a.conf", "b.conf"}
	for _, f := range fields {
		names = append(names, "starts-"+className(f))
	}
	for _, name := range names {
		path := filepath.Join(p.Dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			p.T.Fatal(err)
		}
		if err := os.Chmod(path, 0o666); err != nil { //nolint:gosec // a process of another account notes its start there
			p.T.Fatal(err)
		}
	}
}

// wantClasses fails the test unless the plan has one change for each process, which is of the field and of its class.
func (p *place) wantClasses(fields []processfile.Field, rows map[string]classRow, text string) {
	p.T.Helper()
	a := p.CLI("diff", "-f", p.Write("file.yaml", text), "-o", "json")
	var plan v1.Plan
	if err := json.Unmarshal([]byte(a.Out), &plan); err != nil || a.Code != 3 {
		p.T.Fatalf("diff: exit code %d, %v\n%s%s", a.Code, err, a.Out, a.Errors)
	}
	changes := map[string]v1.Change{}
	for _, c := range plan.Changes {
		changes[c.Process] = c
	}
	for _, f := range fields {
		c := changes[className(f)]
		if rows[f.Path].nothing {
			if c.Action != v1.ActionNone {
				p.T.Errorf("%s: the plan is %+v, want nothing to do", f.Path, c)
			}
			continue
		}
		if rows[f.Path].creates {
			if c.Action != v1.ActionCreate {
				p.T.Errorf("%s: the plan is %+v, want another process", f.Path, c)
			}
			continue
		}
		found, shown := false, cmp.Or(rows[f.Path].shown, f.Path)
		for _, field := range c.Fields {
			found = found || field.Path == shown || strings.HasPrefix(field.Path, shown+".")
			if field.Class != string(f.Class) {
				p.T.Errorf("%s: the plan says that %s is %s, want %s", f.Path, field.Path, field.Class, f.Class)
			}
		}
		if c.Action != v1.ActionChange || !found {
			p.T.Errorf("%s: the plan is %+v, want a change of the field", f.Path, c)
		}
	}
}

// wantPID fails the test unless a live change has kept the pid, and another one has begun the process once more.
func (p *place) wantPID(f processfile.Field, before int) {
	p.T.Helper()
	starts := 1
	if f.Class == processfile.AtRestart {
		starts = 2
		harness.Eventually(p.T, "another pid of "+f.Path, func() bool {
			pid := p.PID(className(f))
			return pid > 0 && pid != before
		})
	} else if pid := p.PID(className(f)); pid != before || !harness.Alive(before) {
		p.T.Errorf("%s is live, and its change made pid %d of pid %d", f.Path, pid, before)
	}
	if n := p.count("starts-" + className(f)); n != starts {
		p.T.Errorf("%s is %s, and its process began %d times, want %d", f.Path, f.Class, n, starts)
	}
}

// wantLimit fails the test unless the process that was there before has the limit.
func (p *place) wantLimit(f processfile.Field, pid int, row classRow) {
	p.T.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
	if err != nil {
		p.T.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if values, ok := strings.CutPrefix(line, row.limit); ok && strings.Fields(values)[0] == row.value &&
			strings.Fields(values)[1] == row.value {
			return
		}
	}
	p.T.Errorf("%s: pid %d has not %s of %s:\n%s", f.Path, pid, row.limit, row.value, text)
}
