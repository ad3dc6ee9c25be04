package upgrade_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"drover/internal/test/harness"
)

// kind is a kind of process. In its lines DIR is the directory of all, NAME the process, N the number of its group, and
// NOTE notes a start.
type kind struct {
	name, lines string
	// state is where it stays; afterwards is the command that brings it there.
	state, afterwards string
	// own says that the process goes on by itself, or by the operations of the test, and how.
	own string
}

const (
	scheduled = "scheduled"
	operated  = "operated"
)

func kinds() []kind {
	const daemon = "pid_file: DIR/NAME.pid\nprocess_name: sleep\n" +
		"start: NOTE; sleep 100000 >/dev/null 2>&1 & echo $! >DIR/NAME.pid"
	const crash = "run: NOTE; while [ ! -e DIR/go ]; do sleep 0.1; done; exit 3\n"
	return []kind{
		{name: "foreground", lines: "run: NOTE; exec sleep 100000", state: "running"},
		{name: "daemon", lines: daemon, state: "running"},
		{
			name:  "nameless",
			lines: "process_name: by-N\ndirectory: DIR/sub-N\nstart: NOTE; DIR/sub-N/by-N 100000 >/dev/null 2>&1 &",
			state: "running",
		},
		{name: "once", lines: "once: true\nrun: NOTE; exec sleep 100000", state: "running"},
		{name: "done", lines: "once: true\nrun: NOTE; sleep 0.2", state: "finished"},
		{name: "report", lines: "schedule: {every: 2s, missed: skip}\nrun: date +%s.%N >>DIR/NAME.runs", own: scheduled},
		{name: "backoff", lines: crash + "restart: {delay: 1h, max_delay: 1h, jitter: 0%}", state: "backoff"},
		{name: "given-up", lines: crash + "restart: {never_on: [3]}", state: "given-up"},
		{
			name: "sick", state: "unhealthy",
			lines: "run: NOTE; exec sleep 100000\n" +
				"health: {exec: \"echo probe >>DIR/NAME.probes; exit 1\", every: 1s, action: report}",
		},
		{name: "herald", lines: "run: NOTE; exec HERALD say READY=1 hold\nready: {notify: true}", state: "running"},
		{name: "later", lines: "run: NOTE; exec sleep 100000\nafter: {herald-N: ready}", state: "running"},
		{name: "unhosted", lines: "run: NOTE; exec sleep 100000", state: "running", afterwards: "unhost"},
		{name: "stopped", lines: "run: NOTE; exec sleep 100000", state: "stopped", afterwards: "stop"},
		{
			name: "chatty", state: "running",
			lines: "run: NOTE; i=0; while :; do i=$((i+1)); echo $i; echo $i >>DIR/NAME.out; sleep 1; done",
		},
		{name: operated, lines: "run: NOTE; exec sleep 100000\nready: {alive: 2s}", own: operated},
	}
}

// subject is one process.
type subject struct {
	kind
	id, dir string
}

// starts is how often its command has run.
func (s subject) starts() int { return s.lineCount("starts") }

// lineCount is the number of whole lines of a file of its own.
func (s subject) lineCount(suffix string) int { return strings.Count(s.text(suffix), "\n") }

// text is the content of a file of its own.
func (s subject) text(suffix string) string {
	text, _ := os.ReadFile(filepath.Join(s.dir, s.id+"."+suffix))
	return string(text)
}

// portion is how many groups of processes a file has: a host that is new to a thousand takes its time.
const portion = 10

// subjects returns about so many processes, as many of each kind, and the process files that have them.
func (r *rig) subjects(number int) (all []subject, files []string) {
	r.t.Helper()
	const head = "namespace: shop\ndefaults: {hosts: [\"" + host + "\"], user: root, ready: {alive: 0s}}\nprocesses:\n"
	text := head
	for n, groups := 0, number/len(kinds()); n < groups; n++ {
		sub := filepath.Join(r.dir, fmt.Sprintf("sub-%d", n))
		if err := os.Mkdir(sub, 0o755); err != nil {
			r.t.Fatal(err)
		}
		harness.Sleeper(r.t, sub, fmt.Sprintf("by-%d", n))
		for _, k := range kinds() {
			s := subject{k, fmt.Sprintf("%s-%d", k.name, n), r.dir}
			all = append(all, s)
			lines := strings.NewReplacer("NOTE", "echo $$ >>"+r.dir+"/"+s.id+".starts", "NAME", s.id, "DIR", r.dir,
				"-N", fmt.Sprintf("-%d", n), "HERALD", binaries.herald).Replace(k.lines)
			text += "  " + s.id + ":\n    " + strings.ReplaceAll(lines, "\n", "\n    ") + "\n"
		}
		if n%portion == portion-1 || n == groups-1 {
			files = append(files, filepath.Join(r.dir, fmt.Sprintf("file-%d.yaml", n)))
			if err := os.WriteFile(files[len(files)-1], []byte(text), 0o600); err != nil {
				r.t.Fatal(err)
			}
			text = head
		}
	}
	return all, files
}
