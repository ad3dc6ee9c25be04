package why_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drover/internal/test/harness"
)

var update = flag.Bool("update", false, "write the dossiers to testdata") //nolint:gochecknoglobals // a flag

// death is one way to end, as a part of a process file.
type death struct {
	name, fields string
	// signal is sent to the process from outside; 0 lets it end by itself.
	signal syscall.Signal
}

// waits is a command line that begins after the process has started.
func waits(then string) string {
	return fmt.Sprintf("run: \"until [ -e go ]; do sleep 0.05; done; %s\"", then)
}

func deaths() []death {
	const idle, once = "run: exec sleep 1000", "once: true"
	return []death{
		{"exit-1-with-words", waits("echo cannot open config >&2; exit 1"), 0},
		{"exit-3-silent", waits("exit 3"), 0},
		{"exit-0-wanted-up", waits("echo bye; exit 0"), 0},
		{"exit-0-finished", waits("exit 0") + "\nrestart: {when: on-failure}", 0},
		{"exit-3-finished", waits("exit 3") + "\nrestart: {when: never, success_codes: [3]}", 0},
		{"exit-4-forbidden", waits("exit 4") + "\nrestart: {when: always, never_on: [4]}", 0},
		{"program-missing", waits("exec ./no-such-program"), 0},
		{"program-not-executable", waits("exec ./go"), 0},
		{"own-segv", waits("kill -SEGV $$"), 0},
		{"own-abort", waits("echo panic: no space >&2; kill -ABRT $$"), 0},
		{"own-term", waits("kill -TERM $$"), 0},
		{"kill-from-outside", idle, syscall.SIGKILL},
		{"term-from-outside", idle, syscall.SIGTERM},
		{"hup-from-outside", idle, syscall.SIGHUP},
		{"int-finished", idle + "\nrestart: {when: on-failure, success_codes: [0, INT]}", syscall.SIGINT},
		{"exit-255", waits("exit 255"), 0},
		{"file-too-large", waits("exec head -c 100000 /dev/zero >out") + "\nlimits: {file_size: 64KiB}", 0},
		{"bus-error", idle, syscall.SIGBUS},
		{"long-last-words", waits("i=0; while [ $i -lt 300 ]; do i=$((i+1)); echo line $i; done; exit 5"), 0},
		{"binary-last-words", waits("printf '\\\\001\\\\033[31mred\\\\000end'; exit 6"), 0},
		{"child-dies-first", waits("sh -c 'echo child gone; exit 9'; echo then the parent; exit 7"), 0},
		{"job-fails", "run: \"echo half done; exit 8\"\nready: {alive: 20s}\n" + once, 0},
		{"job-killed", "run: \"kill -KILL $$\"\nready: {alive: 20s}\n" + once, 0},
		{"job-too-slow", "run: exec sleep 1000\n" + once + "\ntime_limit: 2s", 0},
		{"no-directory", "run: exec sleep 1000\ndirectory: DIR/none", 0},
		{"no-environment-file", "run: exec sleep 1000\nenvironment_files: [DIR/none]", 0},
		{"before-start-fails", "run: exec sleep 1000\nbefore_start: {run: \"echo disk not mounted; exit 2\"}", 0},
		{"succeeds-in-start-check", "run: \"echo done; exit 0\"\nrestart: {when: on-failure}\nready: {alive: 20s}", 0},
		{"dies-in-start-check", "run: \"echo address in use; exit 98\"\nready: {alive: 20s}", 0},
		{"not-ready-in-time", idle + "\nready: {exec: \"exit 1\", within: 1s, on_timeout: stop}", 0},
		{"much-memory", waits("dd if=/dev/zero of=/dev/null bs=500M count=1 2>/dev/null; echo cannot sort; exit 11"), 0},
		{"no-interpreter", "run: ./script", 0},
		{"a-directory", "run: ./folder", 0},
		{"syntax-error", "run: \"if true; fi | echo\"", 0},
	}
}

// file is a process file with all deaths.
func file(dir string) string {
	var b strings.Builder
	b.WriteString("namespace: deaths\ndefaults:\n  hosts: ['*']\n  directory: DIR\n  user: root\n" +
		"processes:\n")
	for _, d := range deaths() {
		fmt.Fprintf(&b, "  %s:\n", d.name)
		fields := strings.Split(d.fields, "\n")
		has := func(name string) bool {
			return slices.ContainsFunc(fields, func(f string) bool { return strings.HasPrefix(f, name+":") })
		}
		if !has("restart") && !has("once") {
			fields = append(fields, "restart: {when: never}")
		}
		if !has("ready") {
			fields = append(fields, "ready: {alive: 300ms}")
		}
		for _, f := range fields {
			fmt.Fprintf(&b, "    %s\n", f)
		}
	}
	return strings.ReplaceAll(b.String(), "DIR", dir)
}

// unexecutable makes what the processes execute in vain.
func unexecutable(t *testing.T, dir string) {
	t.Helper()
	//nolint:gosec // a program
	if err := os.WriteFile(filepath.Join(dir, "script"), []byte("#!/no/such/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
}

// TestDeaths: thirty processes end for real, each in its own way; the dossier of each is as in testdata.
func TestDeaths(t *testing.T) {
	s := harness.Start(t, binaries.drover)
	dir := harness.Workdir(t)
	path := filepath.Join(dir, "file.yaml")
	if err := os.WriteFile(path, []byte(file(dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	unexecutable(t, dir)
	applied := harness.Finish(t, "", os.Environ(), binaries.drover, "apply", "-f", path, "--yes", "--data-dir", s.DataDir)
	if applied.Code != 7 { // some starts fail, as they should
		t.Fatalf("apply: exit code %d\n%s%s", applied.Code, applied.Out, applied.Errors)
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, d := range deaths() {
		if d.signal != 0 {
			p := &harness.Process{Server: s, Namespace: "deaths", Name: d.name}
			harness.Eventually(t, d.name+" to be shown with its pid", func() bool { return p.PID() > 1 })
			harness.Signal(t, p.PID(), d.signal)
		}
	}
	var all strings.Builder
	for _, d := range deaths() {
		fmt.Fprintf(&all, "%s\n", dossier(t, s, d.name, dir))
	}
	golden := filepath.Join("testdata", "deaths.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(all.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	// Whether drover has measured a process before its end depends on how long it lived.
	got := slices.DeleteFunc(strings.Split(all.String(), "\n"), func(line string) bool {
		return strings.Contains(line, " before its end it used ")
	})
	if d := cmp.Diff(strings.Split(string(want), "\n"), got); d != "" {
		t.Errorf("dossiers (-want +got):\n%s", d)
	}
}

// dossier is what why says of a process that has ended, with words for what differs between two runs.
func dossier(t *testing.T, s *harness.Server, name, dir string) string {
	t.Helper()
	p := &harness.Process{Server: s, Namespace: "deaths", Name: name}
	harness.Eventually(t, name+" to be at rest", func() bool {
		state, _ := p.Status()["state"].(string)
		return slices.Contains([]string{"given-up", "finished", "stopped"}, state)
	})
	text, _, _ := strings.Cut(why(t, s, "deaths/"+name).Out, "\nWhat to do:")
	text = strings.ReplaceAll(text, dir, "DIR")
	for pattern, word := range map[string]string{
		`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`: "TIME", `\bpid \d+`: "pid N", `had run for [\d.]+ (ms|seconds?)`: "had run for Ns",
		`grown to 50\d\.\d MiB`: "grown to 50N MiB", `\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC`: "TIME", `  (critical|warning|as it should be)(, for \d+s)?:`: "  $1, for Ns:", `\buid:\d+\b`: "uid:N", `\bsh: \d+:`: "sh: N:",
	} {
		text = regexp.MustCompile(pattern).ReplaceAllString(text, word)
	}
	return strings.TrimRight(text, "\n") + "\n"
}

// TestNoise: what was wrong before and is over never becomes the cause of an end.
func TestNoise(t *testing.T) {
	t.Parallel()
	s, dir := harness.Start(t, binaries.drover), harness.Workdir(t)
	apply := func(when string) {
		path := filepath.Join(dir, "file.yaml")
		text := `
namespace: noise
processes:
  api:
    hosts: ['*']
    run: "until [ -e end ]; do sleep 0.05; done; echo no such table; exit 3"
    directory: ` + dir + `
    user: root
    ready: {alive: 0s}
    health: {exec: "test ! -e sick || { echo queue is full; false; }", every: 1s, failures: 1}
    restart: {when: ` + when + `}
    reload: "echo cannot parse; exit 4"
`
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		a := harness.Finish(t, "", os.Environ(), binaries.drover, "apply", "-f", path, "--yes", "--data-dir", s.DataDir)
		if a.Code != 0 {
			t.Fatalf("apply: exit code %d\n%s%s", a.Code, a.Out, a.Errors)
		}
	}
	touch := func(name string) {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	apply("always")
	p := &harness.Process{Server: s, Namespace: "noise", Name: "api"}
	harness.Signal(t, p.PID(), syscall.SIGKILL)
	p.AwaitEvents(1, "relaunched")
	touch("sick")
	p.AwaitEvents(1, "unhealthy")
	if err := os.Remove(filepath.Join(dir, "sick")); err != nil {
		t.Fatal(err)
	}
	p.AwaitEvents(1, "healthy")
	a := harness.Finish(t, "", os.Environ(), binaries.drover, "reload", "noise/api", "--data-dir", s.DataDir)
	if a.Code != 1 {
		t.Errorf("a reload that fails: exit code %d\n%s%s", a.Code, a.Out, a.Errors)
	}
	apply("never")
	touch("end")
	p.AwaitEvents(1, "given-up")
	said, _, _ := strings.Cut(why(t, s, "noise/api").Out, "Last events:")
	for _, part := range []string{"[exit-status]", "exit status 3", "no such table"} {
		if !strings.Contains(said, part) {
			t.Errorf("why does not say %q:\n%s", part, said)
		}
	}
	for _, part := range []string{"also", "SIGKILL", "queue is full", "health", "cannot parse", "reload", "exit status 4"} {
		if strings.Contains(said, part) {
			t.Errorf("why says %q, which is over:\n%s", part, said)
		}
	}
}
