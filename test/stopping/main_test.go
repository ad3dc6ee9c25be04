// Package stopping_test holds the black-box tests of what an end of a process ends: the process with whatever its run
// has left behind, and nothing that is somebody else's. The built binary is called as its callers call it, over real
// processes.
package stopping_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"drover/internal/test/harness"
)

var binaries struct{ drover, agent string }

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, map[string]*string{
		"./cmd/drover": &binaries.drover, "./cmd/drover-agent": &binaries.agent,
	},
		harness.Need{Test: "TestWithoutGroups", Accounts: true}))
}

type object = harness.Object

// The operations of the compatible API.
const (
	opStart   = 0
	opStop    = 1
	opHost    = 3
	opUnhost  = 4
	opRestart = 7
	opKill    = 9
)

// place is a process of a test in a directory of its own, which all that it starts is called for.
type place struct {
	*harness.Process
	t   *testing.T
	dir string
}

// newPlace makes a directory with a program "worker", and a process that is known by the pid file in it. Its main
// program is written by script.
func newPlace(t *testing.T, s *harness.Server, name string) *place {
	t.Helper()
	dir := harness.Workdir(t)
	harness.Sleeper(t, dir, "worker")
	return &place{t: t, dir: dir, Process: &harness.Process{
		Server: s, Namespace: "stopping", Name: name,
		Identity: object{"proc_name": "main.sh", "setup_path": dir, "pid_path": dir + "/main.pid", "user": "root"},
		Control:  object{"start_cmd": dir + "/start.sh"},
		Policy:   object{"start_check_secs": 1, "stop_check_secs": 2},
	}}
}

// script writes a shell script into the directory; DIR in it stands for that.
func (p *place) script(name, text string) {
	p.t.Helper()
	text = "#!/bin/sh\n" + strings.ReplaceAll(text, "DIR", p.dir) + "\n"
	if err := harness.WriteProgram(filepath.Join(p.dir, name), []byte(text)); err != nil {
		p.t.Fatal(err)
	}
}

// must carries out an operation, which must end with the code.
func (p *place) must(op, code int) harness.Result {
	p.t.Helper()
	return p.Operate(op).Want(p.t, fmt.Sprintf("operation %d of %s", op, p.Name), code)
}

// living are the processes that were started from the directory, by name: what a command line says after the directory.
func (p *place) living() []string {
	p.t.Helper()
	return slices.Sorted(maps.Values(p.processes()))
}

func (p *place) processes() map[int]string {
	p.t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		p.t.Fatal(err)
	}
	found := map[int]string{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		line, err := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if err != nil {
			continue
		}
		args := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
		for _, arg := range args[:min(2, len(args))] {
			if rest, ok := strings.CutPrefix(arg, p.dir+"/"); ok && !zombie(pid) {
				found[pid] = rest
				break
			}
		}
	}
	return found
}

func zombie(pid int) bool {
	stat := harness.Stat(pid)
	return len(stat) > 0 && stat[0] == "Z"
}

// lives waits until exactly these processes live.
func (p *place) lives(what string, names ...string) {
	p.t.Helper()
	slices.Sort(names)
	var now []string
	defer func() {
		if p.t.Failed() {
			p.t.Logf("%s: %v live, want %v", what, now, names)
		}
	}()
	harness.Eventually(p.t, what, func() bool {
		now = p.living()
		return slices.Equal(now, names)
	})
}

// are fails unless exactly these processes live now.
func (p *place) are(what string, names ...string) {
	p.t.Helper()
	slices.Sort(names)
	if now := p.living(); !slices.Equal(now, names) {
		p.t.Errorf("%s: %v live, want %v", what, now, names)
	}
}

// pid is what the pid file says.
func (p *place) pid() int {
	p.t.Helper()
	return harness.ReadPID(p.t, p.dir+"/main.pid")
}

// outside runs a script of the directory as somebody else would, in a session of its own, and returns at once.
func (p *place) outside(name string) {
	p.t.Helper()
	cmd := exec.Command(filepath.Join(p.dir, name))
	cmd.Dir = p.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	go func() { _ = cmd.Wait() }()
	harness.Eventually(p.t, "the pid file", func() bool {
		data, err := os.ReadFile(p.dir + "/main.pid")
		return err == nil && len(data) > 1
	})
}

// withoutGroups returns a program that runs drover where it finds no control groups.
func withoutGroups(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "drover")
	text := "#!/bin/sh\nexec unshare --mount sh -c 'umount -l -R /sys/fs/cgroup && exec \"$0\" \"$@\"' " +
		binaries.drover + ` "$@"` + "\n"
	if err := harness.WriteProgram(path, []byte(text)); err != nil {
		t.Fatal(err)
	}
	return path
}
