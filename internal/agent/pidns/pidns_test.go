package pidns_test

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"drover/internal/agent/pidns"
)

// codeVariable makes the whole run end with an exit code.
const codeVariable = "DROVER_PIDNS_TEST_CODE"

func TestMain(m *testing.M) { os.Exit(pidns.Run(coded{m})) }

type coded struct{ pidns.Main }

func (c coded) Run() int {
	switch code := os.Getenv(codeVariable); code {
	case "":
		return c.Main.Run()
	case "killed":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		return 0
	default:
		// What it starts is not to outlive it.
		cmd := exec.Command("/bin/sh", "-c", "setsid sleep 1000 & exit 0")
		cmd.Stdout = os.Stdout // a reader would wait for this to be closed
		if err := cmd.Run(); err != nil {
			return 99
		}
		n, _ := strconv.Atoi(code)
		return n
	}
}

func TestNamespaceIsOurOwn(t *testing.T) {
	if os.Getpid() == 1 || os.Getppid() != 1 {
		t.Errorf("pid %d of parent %d", os.Getpid(), os.Getppid())
	}
	link, err := os.Readlink("/proc/self")
	if err != nil || link != strconv.Itoa(os.Getpid()) {
		t.Errorf("/proc is another namespace's: %q %v", link, err)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var pids []string
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, e.Name())
		}
	}
	if len(pids) != 2 {
		t.Errorf("there are others: %v", pids)
	}
	for _, variable := range os.Environ() {
		if strings.HasPrefix(variable, "DROVER_PIDNS_") {
			t.Errorf("programs that tests start would find %s", variable)
		}
	}
}

func TestExitCodeAndNothingLeft(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for code, want := range map[string]int{"0": 0, "7": 7, "killed": 128 + 9} {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), codeVariable+"="+code)
		// Combined output ends only when nobody holds the pipe any more.
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Errorf("%s: exit code %d, want %d: %s", code, got, want, out)
		}
	}
}
