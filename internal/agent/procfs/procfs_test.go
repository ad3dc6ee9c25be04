package procfs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"drover/internal/agent/instance"
	"drover/internal/agent/pidfd"
	"drover/internal/agent/pidns"
	"drover/internal/agent/procfs"
)

func TestMain(m *testing.M) { os.Exit(pidns.Run(m)) }

const statFormat = "%d (%s) %c 1 %d %d 0 -1 %d 10 20 30 40 %d %d 5 6 20 0 %d 0 %d %d %d 18446744073709551615 1 1 0 0 0 0\n"

// tree writes the files of a made-up /proc; a name that ends in "->" is a link.
func tree(t *testing.T, files map[string]string) procfs.FS {
	t.Helper()
	root := t.TempDir()
	write(t, root, files)
	return procfs.New(root)
}

func write(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(root, strings.TrimSuffix(name, "->"))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(path)
		var err error
		if strings.HasSuffix(name, "->") {
			err = os.Symlink(content, path)
		} else {
			err = os.WriteFile(path, []byte(content), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestStat(t *testing.T) {
	pageSize := int64(os.Getpagesize())
	for name, comm := range map[string]string{
		"plain":    "nginx",
		"blank":    "my prog",
		"brackets": "a) S 1 (b",
		"newline":  "x\ny)",
		"empty":    "",
	} {
		t.Run(name, func(t *testing.T) {
			f := tree(t, map[string]string{
				"42/stat": fmt.Sprintf(statFormat, 42, comm, 'S', 40, 41, 0x400000, 150, 250, 3, 12345, 8192, 7),
			})
			got, err := f.Stat(42)
			if err != nil {
				t.Fatal(err)
			}
			want := procfs.Stat{
				PID: 42, PPID: 1, PGID: 40, Session: 41, Comm: comm, State: 'S', StartTicks: 12345,
				UserTicks: 150, SystemTicks: 250, ReapedTicks: 11, Threads: 3, VSize: 8192, RSS: 7 * pageSize,
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestStatRefusesWhatItCannotRead(t *testing.T) {
	for name, content := range map[string]string{
		"empty":   "",
		"cut off": "42 (nginx) S 1 2 3",
		"no name": "42 nginx S 1",
		"no numbers": strings.Replace(fmt.Sprintf(statFormat, 42, "a", 'S', 1, 1, 0, 1, 1, 1, 1, 1, 1), " 20 0 1 ",
			" 20 0 x ", 1),
		"no start": strings.Replace(fmt.Sprintf(statFormat, 42, "a", 'S', 1, 1, 0, 1, 1, 1, 77777, 1, 1), "77777",
			"-1", 1),
	} {
		t.Run(name, func(t *testing.T) {
			f := tree(t, map[string]string{"42/stat": content})
			if got, err := f.Stat(42); err == nil {
				t.Errorf("got %+v, want an error", got)
			}
		})
	}
	if _, err := tree(t, nil).Stat(42); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of no process: %v, want fs.ErrNotExist", err)
	}
}

func TestZombie(t *testing.T) {
	for _, tc := range []struct {
		state   byte
		threads int
		want    bool
	}{
		{'S', 1, false},
		{'R', 1, false},
		{'T', 1, false},
		{'Z', 1, true},
		{'X', 0, true},
		{'Z', 4, false}, // its first thread has ended, the others run
	} {
		if got := (procfs.Stat{State: tc.state, Threads: tc.threads}).Zombie(); got != tc.want {
			t.Errorf("%c with %d threads: %v, want %v", tc.state, tc.threads, got, tc.want)
		}
	}
}

// TestBootOfAContainer: a container that starts again on a host that goes on is another boot, and so is another boot of
// the host. Where nobody may see the init, the boot is that of the host.
func TestBootOfAContainer(t *testing.T) {
	boot := func(id string, init int) string {
		files := map[string]string{"sys/kernel/random/boot_id": id + "\n"}
		if init > 0 {
			files["1/stat"] = fmt.Sprintf(statFormat, 1, "init", 'S', 1, 1, 0, 150, 50, 1, init, 4096, 1)
		}
		got, err := tree(t, files).BootID()
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	first := boot("b1", 100)
	if boot("b1", 100) != first || boot("b1", 200) == first || boot("b2", 100) == first || boot("b1", 0) != "b1" {
		t.Errorf("boots are %q, %q, %q, %q, %q", first, boot("b1", 100), boot("b1", 200), boot("b2", 100), boot("b1", 0))
	}
}

// fixture is a made-up process 42.
func fixture(start int, state rune) map[string]string {
	return map[string]string{
		"sys/kernel/random/boot_id": "b1\n",
		"meminfo":                   "MemTotal:       1000 kB\nMemFree: 1 kB\n",
		"42/stat":                   fmt.Sprintf(statFormat, 42, "prog", state, 42, 42, 0, 150, 50, 1, start, 4096, 1),
		"42/status":                 "Name:\tprog\nTgid:\t42\nPid:\t42\nUid:\t5\t6\t7\t8\nGid:\t50\t60\t70\t80\n",
		"42/cmdline":                "/bin/prog\x00-v\x00\x00",
		"42/environ":                "A=1\x00B=2\x00",
		"42/exe->":                  "/bin/prog (deleted)",
	}
}

func TestInfo(t *testing.T) {
	f := tree(t, fixture(100, 'S'))
	got, err := f.Info(42)
	if err != nil {
		t.Fatal(err)
	}
	if got.Exe != "/bin/prog (deleted)" || got.Cwd != "" || got.Real != 5 || got.UID != 6 || got.Saved != 7 ||
		got.GID != 50 || !got.Leader {
		t.Errorf("got %+v", got)
	}
	if diff := cmp.Diff([]string{"/bin/prog", "-v", ""}, got.Args); diff != "" {
		t.Errorf("arguments -want +got\n%s", diff)
	}
	env, err := f.Environ(42)
	if diff := cmp.Diff([]string{"A=1", "B=2"}, env); err != nil || diff != "" {
		t.Errorf("environment %v -want +got\n%s", err, diff)
	}
	if _, err := f.Info(43); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of no process: %v", err)
	}
}

// TestOfALargeEnvironmentTheBeginningIsRead: an account decides how large it is, and it is read of each process.
func TestOfALargeEnvironmentTheBeginningIsRead(t *testing.T) {
	files := fixture(100, 'S')
	files["42/environ"] = "MARK=1\x00" + strings.Repeat("A=1\x00", 500_000)
	env, err := tree(t, files).Environ(42)
	if err != nil || env[0] != "MARK=1" || len(env) > 40_000 {
		t.Errorf("%d variables, %v", len(env), err)
	}
}

func TestIdentify(t *testing.T) {
	f := tree(t, fixture(100, 'S'))
	id, err := f.Identify(42)
	want := instance.Identity{BootID: "b1", PID: 42, StartTicks: 100}
	if err != nil || id != want {
		t.Fatalf("got %+v %v, want %+v", id, err, want)
	}
	for _, other := range []instance.Identity{
		{BootID: "b2", PID: 42, StartTicks: 100},
		{BootID: "b1", PID: 43, StartTicks: 100},
		{BootID: "b1", PID: 42, StartTicks: 101},
		{BootID: "b1", PID: 1, StartTicks: 100},
		{},
	} {
		if f.Same(other) {
			t.Errorf("%+v is taken for %+v", other, want)
		}
	}
	if !f.Same(want) {
		t.Error("a live process is not itself")
	}

	if _, err := tree(t, fixture(100, 'Z')).Identify(42); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("of a zombie: %v", err)
	}
	if tree(t, fixture(100, 'Z')).Same(want) {
		t.Error("a zombie counts as alive")
	}
	thread := fixture(100, 'S')
	thread["42/status"] = "Tgid:\t40\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\n"
	if _, err := tree(t, thread).Identify(42); !errors.Is(err, procfs.ErrNoProcess) {
		t.Errorf("of a thread: %v", err)
	}
	for _, pid := range []int{1, 0, -1, -42} {
		if _, err := f.Identify(pid); !errors.Is(err, procfs.ErrNoProcess) {
			t.Errorf("of pid %d: %v", pid, err)
		}
	}
}

func TestOOMKills(t *testing.T) {
	f := tree(t, map[string]string{"vmstat": "nr_free_pages 5\noom_kill 268\ndrop_pagecache 0\n"})
	if n, err := f.OOMKills(); n != 268 || err != nil {
		t.Errorf("%d %v", n, err)
	}
	for _, text := range []string{"", "oom_kill x\n", "oom_killed 3\n"} {
		if n, err := tree(t, map[string]string{"vmstat": text}).OOMKills(); err == nil {
			t.Errorf("%q: %d", text, n)
		}
	}
	if _, err := procfs.New("/proc").OOMKills(); err != nil {
		t.Error(err)
	}
}

func TestMounts(t *testing.T) {
	f := tree(t, map[string]string{
		"self/mountinfo": `31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs  rw,mode=755
37 31 0:34 /docker/ab /sys/fs/cgroup/freezer rw shared:9 master:1 - cgroup cgroup rw,freezer
41 31 0:38 / /mnt/a\040b\134 rw,relatime - cgroup2 cgroup2 rw
`,
		"self/cgroup": "7:cpu,freezer:/docker/ab/x\n1:name=systemd:/y\n0::/v2:z\n",
	})
	got, err := f.Mounts()
	want := []procfs.Mount{
		{Root: "/", Point: "/sys/fs/cgroup", Type: "tmpfs", Options: []string{"rw", "mode=755"}},
		{Root: "/docker/ab", Point: "/sys/fs/cgroup/freezer", Type: "cgroup", Source: "cgroup", Options: []string{"rw", "freezer"}},
		{Root: "/", Point: `/mnt/a b\`, Type: "cgroup2", Source: "cgroup2", Options: []string{"rw"}},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v -want +got\n%s", err, diff)
	}
	for controller, want := range map[string]string{"": "/v2:z", "freezer": "/docker/ab/x", "name=systemd": "/y"} {
		if got, ok := f.OwnCgroup(controller); !ok || got != want {
			t.Errorf("own cgroup of %q: %q %v, want %q", controller, got, ok, want)
		}
	}
	if got, ok := f.OwnCgroup("pids"); ok {
		t.Errorf("own cgroup of no hierarchy: %q", got)
	}
}

// The rest looks at the real /proc.

func TestSelf(t *testing.T) {
	f := procfs.New("/proc")
	self := os.Getpid()
	id, err := f.Identify(self)
	if err != nil || !f.Same(id) {
		t.Fatalf("own identity %+v: %v", id, err)
	}
	info, err := f.Info(self)
	if err != nil {
		t.Fatal(err)
	}
	exe, _ := os.Executable()
	cwd, _ := os.Getwd()
	if info.Exe != exe || info.Cwd != cwd || !slices.Equal(info.Args[1:], os.Args[1:]) || info.UID != os.Geteuid() ||
		!info.Leader || info.PPID != os.Getppid() || info.Threads < 2 || info.RSS <= 0 || info.VSize < info.RSS {
		t.Errorf("own info %+v", info)
	}
	pids, err := f.PIDs()
	if err != nil || !slices.Contains(pids, self) || !slices.IsSorted(pids) {
		t.Errorf("pids %v: %v", pids, err)
	}
	boot, err := f.BootTime()
	started, err2 := f.StartTime(info.StartTicks)
	if err != nil || err2 != nil || !boot.Before(started) || time.Since(started) > 10*time.Minute ||
		time.Until(started) > 20*time.Millisecond {
		t.Errorf("booted %v (%v), started %v (%v)", boot, err, started, err2)
	}
	if total, err := f.MemTotal(); err != nil || total < 64<<20 {
		t.Errorf("memory %d: %v", total, err)
	}
	if mounts, err := f.Mounts(); err != nil ||
		!slices.ContainsFunc(mounts, func(m procfs.Mount) bool { return m.Point == "/proc" && m.Type == "proc" }) {
		t.Errorf("no /proc in %v: %v", mounts, err)
	}
}

func TestThreadIsNoProcess(t *testing.T) {
	f := procfs.New("/proc")
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	tested := false
	for _, task := range tasks {
		tid, _ := strconv.Atoi(task.Name())
		if tid == os.Getpid() {
			continue
		}
		if _, err := f.Identify(tid); errors.Is(err, procfs.ErrNoProcess) {
			tested = true
		} else if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("thread %d: %v", tid, err)
		}
	}
	if !tested {
		t.Error("no thread was refused")
	}
}

// awaitEnd waits until a process has ended, reaped or not.
func awaitEnd(t *testing.T, pid int) {
	t.Helper()
	fd, err := pidfd.Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := pidns.AwaitEnd(fd); err != nil {
		t.Fatal(err)
	}
}

func TestOwnChildrenIncludesZombies(t *testing.T) {
	f := procfs.New("/proc")
	cmd := exec.Command("/bin/sh", "-c", "read x; exit 0")
	gate, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	id, err := f.Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	if children, err := f.OwnChildren(); err != nil || !slices.Contains(children, pid) {
		t.Errorf("children %v lack %d: %v", children, pid, err)
	}
	gate.Close()
	awaitEnd(t, pid)
	if f.Same(id) {
		t.Error("a zombie counts as alive")
	}
	if st, err := f.Stat(pid); err != nil || !st.Zombie() {
		t.Errorf("not a zombie: %+v %v", st, err)
	}
	if _, err := f.Identify(pid); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("a zombie is identified: %v", err)
	}
	if children, err := f.OwnChildren(); err != nil || !slices.Contains(children, pid) {
		t.Errorf("children %v lack the zombie %d: %v", children, pid, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if children, err := f.OwnChildren(); err != nil || slices.Contains(children, pid) {
		t.Errorf("children %v hold the reaped %d: %v", children, pid, err)
	}
	if _, err := f.Identify(pid); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a reaped process: %v", err)
	}
}

// TestOpenFiles: the number is that of the directory; an old kernel or an ended process has none.
func TestOpenFiles(t *testing.T) {
	root := t.TempDir()
	if n := procfs.New(root).OpenFiles(7); n != 0 {
		t.Errorf("of no process: %d", n)
	}
	before := procfs.New("/proc").OpenFiles(os.Getpid())
	if before == 0 {
		return // Linux before 6.2
	}
	const more = 40
	for range more {
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
	}
	if n := procfs.New("/proc").OpenFiles(os.Getpid()); n < before+more {
		t.Errorf("%d open files, %d before %d more", n, before, more)
	}
}
