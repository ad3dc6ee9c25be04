package faults_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"drover/internal/test/harness"
	"drover/internal/test/repo"
)

// page is the documentation of the faults.
func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repo.Root(), "docs", "faults.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var quoted = regexp.MustCompile("`([^`]+)`")

// TestTestsOfThePage: each test that docs/faults.md names is there.
func TestTestsOfThePage(t *testing.T) {
	t.Parallel()
	there := ""
	err := filepath.WalkDir(repo.Root(), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		there += "\n" + string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range quoted.FindAllStringSubmatch(page(t), -1) {
		if !strings.HasPrefix(name[1], "Test") {
			continue
		}
		function, cut := strings.CutSuffix(name[1], "…")
		if !cut {
			function += "("
		}
		if !strings.Contains(there, "\nfunc "+function) {
			t.Errorf("docs/faults.md names %s, which is no test", name[1])
		}
	}
}

// TestEverythingHeldIsOnThePage: whatever the built drover opens, connects to, listens on or has open is in a row of
// the table in docs/faults.md, which says what happens when others spoil it.
func TestEverythingHeldIsOnThePage(t *testing.T) {
	t.Parallel()
	patterns := rowsOfThePage(t)
	dir := t.TempDir()
	traced := filepath.Join(dir, "traced")
	script := fmt.Sprintf("#!/bin/sh\n[ \"$1\" = dev ] || exec %[1]s \"$@\"\n"+
		"exec strace -D -f -A -b execve -qq -y -e signal=none -o %[2]s"+
		" -e trace=open,openat,openat2,bind,connect,socket,inotify_add_watch %[1]s \"$@\"\n", binaries.drover, traced)
	if err := harness.WriteProgram(filepath.Join(dir, "drover"), []byte(script)); err != nil {
		t.Fatal(err)
	}
	p := harness.NewPlace(t, filepath.Join(dir, "drover"))
	runtime := "/run/drover-test-" + filepath.Base(p.Dir)
	t.Cleanup(func() { _ = os.RemoveAll(runtime) })
	w := watched{Place: p, t: t, seen: map[string]bool{}}
	w.live()
	text, err := os.ReadFile(traced)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if thing := opened(line); thing != "" {
			w.seen[thing] = true
		}
	}
	if len(w.seen) < 100 {
		t.Fatalf("only %d things were seen:\n%s", len(w.seen), text[max(0, len(text)-2000):])
	}
	names := strings.NewReplacer(p.S.DataDir, "DATA", p.Dir, "FILES", runtime, "/run/NAME", traced, "TRACE")
	missing := map[string]bool{}
	for thing := range w.seen {
		thing = names.Replace(thing)
		if !slices.ContainsFunc(patterns, func(p *regexp.Regexp) bool { return p.MatchString(thing) }) {
			missing[thing] = true
		}
	}
	for thing := range missing {
		t.Errorf("%s is in no row of the table", thing)
	}
}

// watched is a drover whose descriptors are looked at.
type watched struct {
	*harness.Place
	t    *testing.T
	seen map[string]bool
}

// addDescriptors adds the descriptors that drover has, but for its input and its outputs.
func (w watched) addDescriptors() {
	w.t.Helper()
	descriptors, err := filepath.Glob("/proc/" + strconv.Itoa(w.S.PID()) + "/fd/*")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, fd := range descriptors {
		number, _ := strconv.Atoi(filepath.Base(fd))
		if target, err := os.Readlink(fd); err == nil && number > 2 {
			w.seen[strings.TrimSuffix(target, " (deleted)")] = true
		}
	}
}

// rowsOfThePage returns the patterns in the second column of the table: * stands for any text, and a pattern without it
// also for what is below it.
func rowsOfThePage(t *testing.T) (patterns []*regexp.Regexp) {
	t.Helper()
	_, table, _ := strings.Cut(page(t), "\n## What drover holds from outside\n")
	table, _, _ = strings.Cut(table, "\n## ")
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 7 {
			continue
		}
		for _, quote := range quoted.FindAllStringSubmatch(cells[2], -1) {
			text := strings.ReplaceAll(regexp.QuoteMeta(quote[1]), `\*`, ".*")
			patterns = append(patterns, regexp.MustCompile("^"+text+"(/.*)?$"))
		}
	}
	if len(patterns) < 20 {
		t.Fatalf("the table has only %d patterns", len(patterns))
	}
	return patterns
}

// The calls that strace shows: their first argument may be a directory, as "AT_FDCWD</work>" or "7</run>".
var (
	call     = regexp.MustCompile(`^\d+ +(\w+)\((?:(?:AT_FDCWD|\d+)<([^>]*)>, )?(.*)`)
	argument = regexp.MustCompile(`^"([^"]*)"`)
	local    = regexp.MustCompile(`sa_family=AF_UNIX, sun_path=@?"([^"]*)"`)
	family   = regexp.MustCompile(`AF_\w+`)
)

// opened returns what a line of strace opens, or the family of a socket; empty for neither.
func opened(line string) string {
	c := call.FindStringSubmatch(line)
	if c == nil {
		return ""
	}
	switch name, dir, rest := c[1], c[2], c[3]; name {
	case "bind", "connect":
		if path := local.FindStringSubmatch(rest); path != nil {
			return path[1]
		}
		return ""
	case "socket":
		return family.FindString(rest)
	default:
		path := argument.FindStringSubmatch(rest)
		switch {
		case path == nil:
			return ""
		case filepath.IsAbs(path[1]):
			return filepath.Clean(path[1])
		}
		return filepath.Join(dir, path[1])
	}
}

// live has drover do what it can do, and looks at it meanwhile.
func (w watched) live() {
	t, p := w.t, w.Place
	t.Helper()
	p.Write("a.env", "A=1\n")
	p.Apply(fmt.Sprintf(`namespace: shop
defaults: {hosts: ["0:127.0.0.1"], directory: DIR}
processes:
  web:
    run: echo begun; exec sleep 1000
    environment_files: [DIR/a.env]
    config_files: [{path: DIR/a.env, md5: 7b9ee9647aa60af266c790de3f659403}]
    restart: {delay: 100ms}
    before_start: {run: "true"}
    preflight: {run: "true"}
    version_command: echo 1
    limits: {memory: 500MiB, tasks: 100, open_files: 100}
    runtime_directory: drover-test-BASE
  other: {run: exec sleep 1000, user: nobody, directory: /, umask: "022"}
  descriptor: {run: echo ready >&3; exec 3>&-; exec sleep 1000, ready: {notify_fd: 3}}
  herald: {run: exec %s say READY=1 hold, ready: {notify: true}, health: {exec: "true", every: 1s}}
  piped: {run: echo hi; exec sleep 1000, log: {pipe: true}}
  told: {run: echo ready now; exec sleep 1000, ready: {log: ready now}}
  asked: {run: exec sleep 1000, ready: {http: "%[2]s/readyz"}, health: {tcp: "%[3]s", every: 1s}}
  nightly: {run: "true", schedule: {every: 1s}}
  daemon:
    start: sleep 1000 >/dev/null 2>&1 & echo $! >DIR/daemon.pid
    process_name: sleep
    pid_file: DIR/daemon.pid
`, binaries.herald, p.S.URL, strings.TrimPrefix(p.S.URL, "http://")))
	w.addDescriptors()
	for _, command := range [][]string{
		{"ps"},
		{"top", "--once"},
		{"logs", "shop/web"},
		{"events"},
		{"doctor"},
		{"why", "shop/web"},
		{"preflight", "shop/web"},
		{"reload", "shop/herald"},
		{"signal", "HUP", "shop/web"},
		{"diff", "-f", p.Dir + "/file.yaml"},
		{"restart", "shop/*", "--yes"},
		{"get", "shop"},
		{"drift"},
		{"audit"},
	} {
		p.CLI(command...) // whether it succeeds is for other tests
		w.addDescriptors()
	}
	if err := syscall.Kill(p.PID("web"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.Process("web").AwaitEvents(1, "relaunched")
	p.S.Kill()
	p.S.Run()
	w.addDescriptors()
	if a := p.CLI("stop", "shop/*", "--yes"); a.Code != 0 {
		t.Errorf("stop: exit code %d\n%s%s", a.Code, a.Out, a.Errors)
	}
	w.addDescriptors()
	if err := p.S.Terminate(); err != nil {
		t.Error(err)
	}
}
