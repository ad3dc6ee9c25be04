package launch_test

import (
	"bufio"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"drover/internal/agent/cgroup"
	"drover/internal/agent/launch"
	"drover/internal/agent/procfs"
	"drover/internal/process"
	"drover/internal/spec"
)

// helperOpens tries to get at the process of its first argument, and says what it may do there.
func helperOpens() error {
	pid, err := strconv.Atoi(os.Args[1])
	if err != nil {
		return err
	}
	may := func(what string, err error) {
		if err == nil {
			fmt.Println(what)
		}
	}
	may("signal", unix.Kill(pid, unix.SIGCONT))
	may("limit", unix.Prlimit(pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil))
	may("renice", unix.Setpriority(unix.PRIO_PROCESS, pid, 19))
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err
	}
	may("pidfd signal", unix.PidfdSendSignal(fd, unix.SIGCONT, nil, 0))
	for n := range 8 {
		_, err := unix.PidfdGetfd(fd, n, 0)
		may(fmt.Sprint("descriptor ", n), err)
	}
	for _, name := range []string{"mem", "environ", "fd/3", "exe", "cwd"} {
		_, err := os.Open(fmt.Sprintf("/proc/%d/%s", pid, name))
		may(name, err)
	}
	may("trace", unix.PtraceSeize(pid))
	return nil
}

// helperStops stops whatever has one of the next pids, until its input ends.
func helperStops() error {
	fmt.Println("begins")
	go func() {
		_, _ = io.ReadAll(os.Stdin)
		os.Exit(0)
	}()
	load, err := os.Open("/proc/loadavg") // it ends with the last pid
	if err != nil {
		return err
	}
	text := make([]byte, 100)
	for {
		n, err := load.ReadAt(text, 0)
		if n == 0 {
			return err
		}
		words := strings.Fields(string(text[:n]))
		last, err := strconv.Atoi(words[len(words)-1])
		if err != nil {
			return err
		}
		for range 200 {
			for pid := last + 1; pid < last+5; pid++ {
				_ = unix.Kill(pid, unix.SIGSTOP)
			}
		}
	}
}

// attacker is a helper that runs as the account.
func attacker(t *testing.T, account launch.Account, name string, args ...string) *exec.Cmd {
	t.Helper()
	// The test binary is in a directory of root's own.
	copied := filepath.Join(t.TempDir(), "helper")
	if out, err := exec.Command("/bin/sh", "-c", `cp /proc/`+fmt.Sprint(os.Getpid())+`/exe "$0" && chmod 755 "$0"`,
		copied).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	for dir := filepath.Dir(copied); dir != "/tmp" && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(copied, args...)
	cmd.Env = []string{helperVariable + "=" + name}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: account.UID, Gid: account.GID, Groups: account.Groups}}
	return cmd
}

// attacked are commands of an account that may attack their gates, by what is special about them.
func attacked(t *testing.T, account launch.Account) map[string]launch.Command {
	t.Helper()
	plain := command(t, "exec true", output(t))
	plain.Account = account
	all := map[string]launch.Command{"plain": plain}
	ready, err := os.Create(filepath.Join(t.TempDir(), "ready"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ready.Close() })
	c := plain
	c.Signal, c.SignalFD = ready, 3
	all["notify_fd"] = c
	c = plain
	c.Execution.NoNewPrivileges = true
	all["no new privileges"] = c
	c.Execution.NoNewPrivileges, c.Execution.Capabilities = false, []string{"NET_BIND_SERVICE"}
	all["capabilities"] = c
	c.Execution.Capabilities = []string{}
	all["no capabilities"] = c
	for name, proc := range map[string]procfs.FS{"control group": live(), "control group v1": withGroupsV1(t)} {
		tree, err := cgroup.Open(proc, "drover-test-attack-"+strings.ToLower(rand.Text()[:16]))
		if err != nil {
			t.Fatal(err)
		}
		if name == "control group v1" && tree.Mode() != cgroup.ModeFreezer {
			t.Fatalf("%s: the tree is %s", name, tree.Mode())
		}
		c = plain
		if c.Group, err = tree.Create("g"); err != nil {
			t.Fatal(err)
		}
		group := c.Group
		t.Cleanup(func() { _, _, _ = group.Remove(), group.Close(), tree.Remove() })
		all[name] = c
	}
	return all
}

// withGroupsV1 is a /proc that knows no control groups but the freezer: the host's, or a directory in its place.
func withGroupsV1(t *testing.T) procfs.FS {
	t.Helper()
	const own = "/proc/self/"
	mounts, err := os.ReadFile(own + "mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	groups, err := os.ReadFile(own + "cgroup")
	if err != nil {
		t.Fatal(err)
	}
	known := ""
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, " - cgroup ") && strings.Contains(line, "freezer") {
			known = line
		}
	}
	if known == "" {
		known, groups = "37 31 0:34 / "+t.TempDir()+" rw - cgroup cgroup rw,freezer\n", []byte("5:freezer:/\n")
	}
	dir := filepath.Join(t.TempDir(), "self")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"mountinfo": known, "cgroup": string(groups)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return procfs.New(filepath.Dir(dir))
}

// TestNobodyOpensAGate: the account of a command has no power over its gate, which holds descriptors of the agent.
func TestNobodyOpensAGate(t *testing.T) {
	nobody, err := launch.LookupAccount("/", "nobody")
	if err != nil || !others() {
		return
	}
	thread := forking(t)
	for name, c := range attacked(t, nobody) {
		for where, f := range map[string]*launch.Forker{"here": forker(), "on a thread": thread} {
			child, err := f.Start(c)
			if err != nil {
				t.Fatal(err)
			}
			out, err := attacker(t, nobody, "opens", strconv.Itoa(child.Identity().PID)).CombinedOutput()
			if err != nil || len(out) > 0 {
				t.Errorf("%s, %s: it may %q, %v", name, where, strings.Fields(string(out)), err)
			}
			if err := child.Release(); err != nil {
				t.Error(err)
			}
			if status := wait(t, child); status != 0 {
				t.Errorf("%s, %s: wait status %#x", name, where, status)
			}
		}
	}
}

// TestNobodyStopsAFork: an account that stops every process with a new pid does not hold up this process, which waits
// for its child until the child executes a program.
func TestNobodyStopsAFork(t *testing.T) {
	nobody, err := launch.LookupAccount("/", "nobody")
	if err != nil || !others() {
		return
	}
	cmd := attacker(t, nobody, "stops")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	defer func() {
		close(over)
		_ = in.Close()
		_ = cmd.Process.Kill() // it may have stopped itself
		_ = cmd.Wait()
	}()
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	// The next pid is now and then that of a new thread of the attacker, who then stops as a whole.
	go func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_ = cmd.Process.Signal(syscall.SIGCONT)
			case <-over:
				return
			}
		}
	}()
	f, rounds := forker(), 100
	for name, c := range attacked(t, nobody) {
		done := make(chan error, 1)
		go func() {
			for range rounds {
				child, err := f.Start(c)
				if err != nil {
					done <- err
					return
				}
				child.Abandon()
				wait(t, child)
			}
			done <- nil
		}()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(60 * time.Second):
			_ = cmd.Process.Kill()
			_ = unix.Kill(-1, unix.SIGCONT) // all in this namespace
			t.Fatalf("%s: this process has waited for a minute for a child that was stopped", name)
		}
	}
}

// TestTheCommandAfterItsGate: a command has the account, the groups, the capabilities and the limits that it should, and
// nothing of the gate.
func TestTheCommandAfterItsGate(t *testing.T) {
	nobody, err := launch.LookupAccount("/", "nobody")
	if err != nil || !others() {
		return
	}
	nobody.Groups = append(nobody.Groups, 54321)
	const look = `grep -E '^(Uid|Gid|Groups|Cap(Inh|Prm|Eff|Amb)|NoNewPrivs)' /proc/self/status; awk '/Max processes/ {print $3}' /proc/self/limits
[ -r /proc/self/environ ]; echo $?; ls /proc/self/fd | wc -l`
	own, unlimited := "unlimited", int64(process.Unlimited)
	if most := launch.Limits(os.Getpid())["processes"]; most >= 0 {
		own = fmt.Sprint(most)
	}
	five, more := int64(5), int64(3_000_000)
	var caps [2]unix.CapUserData
	if err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &caps[0]); err != nil {
		t.Fatal(err)
	}
	if caps[0].Effective&(1<<unix.CAP_SYS_RESOURCE) == 0 { // then it may only lower its limits
		more, unlimited = 5_000, 6_000
	}
	for name, test := range map[string]struct {
		change func(*spec.Execution)
		caps   string
		nnp    int
		limit  string
	}{
		"plain":             {func(*spec.Execution) {}, "0000000000000000", 0, own},
		"no new privileges": {func(e *spec.Execution) { e.NoNewPrivileges = true }, "0000000000000000", 1, own},
		"capabilities": {func(e *spec.Execution) {
			e.Capabilities = []string{"NET_BIND_SERVICE", "SYS_NICE"}
		}, "0000000000800400", 0, own},
		"no capabilities": {func(e *spec.Execution) { e.Capabilities = []string{} }, "0000000000000000", 0, own},
		"all": {func(e *spec.Execution) {
			e.NoNewPrivileges, e.Capabilities, e.RLimits = true, []string{"CHOWN"}, spec.RLimits{{Name: spec.Processes, Value: more}}
		}, "0000000000000001", 1, fmt.Sprint(more)},
		"unlimited": {
			func(e *spec.Execution) { e.RLimits = spec.RLimits{{Name: spec.Processes, Value: unlimited}} }, "0000000000000000", 0,
			strings.Replace(fmt.Sprint(unlimited), "-1", "unlimited", 1),
		},
		// The account has more processes than that, and its command can start all the same.
		"few processes": {func(e *spec.Execution) { e.RLimits = spec.RLimits{{Name: spec.Processes, Value: five}} }, "0000000000000000", 0, "5"},
	} {
		var sleeping []*launch.Child
		if name == "few processes" {
			for range 6 {
				c := command(t, "exec sleep 1000", output(t))
				c.Account = nobody
				child, err := forker().Start(c)
				if err == nil {
					err = child.Release()
				}
				if err != nil {
					t.Fatal(err)
				}
				sleeping = append(sleeping, child)
			}
			for _, child := range sleeping {
				for launch.Executing(procfs.New("/proc"), child.Identity().PID) {
					time.Sleep(time.Millisecond)
				}
			}
		}
		c, out := command(t, look, output(t)), output(t)
		if name == "few processes" { // it can fork nothing
			c.Line = "exec awk '/Max processes/ {print $3}' /proc/self/limits"
		}
		c.Account, c.Output = nobody, out.File()
		test.change(&c.Execution)
		if status := do(t, c); status != 0 {
			t.Errorf("%s: wait status %#x", name, status)
		}
		ids := func(name string, id uint32) string {
			return fmt.Sprintf("%s:%s", name, strings.Repeat(fmt.Sprint("\t", id), 4))
		}
		groups := slices.Clone(nobody.Groups)
		slices.Sort(groups)
		want := strings.Join([]string{
			ids("Uid", nobody.UID), ids("Gid", nobody.GID), "Groups:\t" + strings.Trim(fmt.Sprint(groups), "[]") + " ",
			"CapInh:\t" + test.caps, "CapPrm:\t" + test.caps, "CapEff:\t" + test.caps, "CapAmb:\t" + test.caps,
			fmt.Sprintf("NoNewPrivs:\t%d", test.nnp), test.limit, "0", "4",
		}, "\n")
		if name == "few processes" {
			want = test.limit
		}
		if got := out.Text(); got != want {
			t.Errorf("%s: it has\n%s\nwant\n%s", name, got, want)
		}
		for _, child := range sleeping {
			_ = unix.Kill(child.Identity().PID, unix.SIGKILL)
			wait(t, child)
		}
	}
}
