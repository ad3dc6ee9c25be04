package locate_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"drover/internal/agent/locate"
	"drover/internal/agent/pidns"
	"drover/internal/agent/procfs"
	"drover/internal/process"
	"drover/internal/test/harness"
)

func TestMain(m *testing.M) { os.Exit(pidns.Run(m)) }

func live() procfs.FS { return procfs.New("/proc") }

// home is a directory with a program of its own in it.
type home struct{ dir string }

func newHome(t *testing.T, program string) home {
	t.Helper()
	h := home{t.TempDir()}
	data, err := os.ReadFile("/bin/sleep")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.dir, program), data, 0o700); err != nil {
		t.Fatal(err)
	}
	return h
}

// run starts a program that lives until the test ends, and returns its pid once it is what it was asked to be.
func run(t *testing.T, dir, path string, args ...string) int {
	t.Helper()
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	harness.Begin(t, cmd)
	// Start returns within execve(2), before the kernel shows the arguments.
	for deadline := time.Now().Add(time.Minute); ; runtime.Gosched() {
		if info, err := live().Info(cmd.Process.Pid); err != nil || time.Now().After(deadline) {
			t.Fatalf("%s does not show its arguments: %v", path, err)
		} else if len(info.Args) > 0 {
			return cmd.Process.Pid
		}
	}
}

// ended returns the pid of a process that was reaped.
func ended(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("/bin/true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

func (h home) path(name string) string { return filepath.Join(h.dir, name) }

func (h home) put(t *testing.T, name, content string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(h.path(name)), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(h.path(name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return h.path(name)
}

// find expects a pid, or 0 and a note that matches.
func find(t *testing.T, q locate.Query, pid int, note string) locate.Result {
	t.Helper()
	done := make(chan locate.Result, 1)
	go func() { done <- locate.Find(live(), q) }()
	var r locate.Result
	select {
	case r = <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("Find blocks")
	}
	got := 0
	if r.Process != nil {
		got = r.Process.ID.PID
		if !live().Same(r.Process.ID) {
			t.Errorf("%+v is not alive", r.Process.ID)
		}
	}
	if got != pid || !regexp.MustCompile(note).MatchString(r.Note) || (note == "" && r.Note != "") {
		t.Errorf("found %d with note %q, want %d with note %q", got, r.Note, pid, note)
	}
	return r
}

func TestPIDFileContents(t *testing.T) {
	h := newHome(t, "appd")
	pid := run(t, "/", h.path("appd"), "1000")
	other := run(t, "/", "/bin/sleep", "1000")
	gone := ended(t)
	n := strconv.Itoa(pid)
	for name, tc := range map[string]struct {
		content string
		pid     int
		note    string
	}{
		"plain":            {n + "\n", pid, ""},
		"without newline":  {n, pid, ""},
		"padded":           {"  \t" + n + "   \n", pid, ""},
		"padded with NULs": {n + "\x00\x00\x00", pid, ""},
		"zeros":            {"000" + n + "\n", pid, ""},
		"blank lines":      {"\n\n" + n + "\n", pid, ""},
		"Windows":          {"\uFEFF" + n + "\r\n", pid, ""},
		"more lines":       {n + "\n/var/lib/data\n1700000000\n5432\n", pid, ""},
		"more words":       {n + " host started\n", pid, ""},
		"huge":             {n + "\n" + strings.Repeat("x", 8<<20), pid, ""},
		"huge padding":     {strings.Repeat(" ", 8<<20) + n, 0, "is empty"},
		"empty":            {"", 0, "^pid file .* is empty$"},
		"blank":            {" \n\n", 0, "is empty"},
		"words":            {"starting\n", 0, `does not begin with a number$`},
		"binary":           {"\x7fELF\x02\x01", 0, "does not begin with a number"},
		"hexadecimal":      {"0x10", 0, "does not begin with a number"},
		"signed":           {"+" + n, 0, "does not begin with a number"},
		"fraction":         {n + ".5", 0, "does not begin with a number"},
		"zero":             {"0\n", 0, "holds a number that is not a process id$"},
		"one":              {"1\n", 0, "holds 1, which is the init process$"},
		"minus one":        {"-1\n", 0, "holds a number that is not a process id$"},
		"minus pid":        {"-" + n, 0, "holds a number that is not a process id$"},
		"2^31":             {"2147483648", 0, "holds a number that is not a process id$"},
		"2^63":             {"9223372036854775808", 0, "holds a number that is not a process id$"},
		"2^64":             {"18446744073709551617", 0, "holds a number that is not a process id$"},
		"long number":      {strings.Repeat("9", 4000), 0, "holds a number that is not a process id$"},
		"never used":       {"1073741824", 0, "is stale: pid 1073741824 is gone"},
		"ended":            {strconv.Itoa(gone), 0, fmt.Sprintf("^pid file .* is stale: pid %d is gone$", gone)},
		"another program":  {strconv.Itoa(other), 0, fmt.Sprintf("^pid %d of pid file .* belongs to sleep$", other)},
		"ourselves":        {strconv.Itoa(os.Getpid()), 0, "which is drover itself"},
		"parent of all":    {"  1  ", 0, "holds 1, which is the init process$"},
	} {
		t.Run(name, func(t *testing.T) {
			path := h.put(t, "run/app.pid", tc.content)
			r := find(t, locate.Query{ProcName: "appd", PIDPath: path, SetupPath: "/nowhere"}, tc.pid, tc.note)
			if r.Process == nil {
				return
			}
			if info, err := os.Stat(path); err != nil || r.Process.PIDFile != path ||
				!r.Process.PIDFileTime.Equal(info.ModTime()) || r.Process.Matches != 1 {
				t.Errorf("found %+v: %v", r.Process, err)
			}
		})
	}
}

// TestPIDFileWithoutAName: the file alone says who the process is.
func TestPIDFileWithoutAName(t *testing.T) {
	h := newHome(t, "appd")
	pid := run(t, "/", h.path("appd"), "1000")
	path := h.put(t, "run/app.pid", strconv.Itoa(pid))
	if r := find(t, locate.Query{PIDPath: path, SetupPath: "/nowhere", Count: true}, pid, ""); r.Process.Matches != 1 {
		t.Errorf("found %+v", r.Process)
	}
	h.put(t, "run/app.pid", strconv.Itoa(ended(t)))
	find(t, locate.Query{PIDPath: path}, 0, "is stale")
	if r := find(t, locate.Query{PIDPath: h.path("run")}, 0, "is a directory"); r.Cause != process.CauseOddPIDFile {
		t.Errorf("cause %q", r.Cause)
	}
	find(t, locate.Query{SetupPath: h.path("")}, 0, "^proc_name is empty$")
}

func TestPIDFileOfAThread(t *testing.T) {
	h := newHome(t, "appd")
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil || len(tasks) < 2 {
		t.Fatalf("threads %v: %v", tasks, err)
	}
	self := filepath.Base(os.Args[0])
	refused := false
	for _, task := range tasks {
		if task.Name() == strconv.Itoa(os.Getpid()) {
			continue
		}
		path := h.put(t, "app.pid", task.Name())
		r := locate.Find(live(), locate.Query{ProcName: self, PIDPath: path})
		if r.Process != nil {
			t.Errorf("thread %s was found", task.Name())
		}
		refused = refused || strings.Contains(r.Note, "is a thread, not a process")
	}
	if !refused {
		t.Error("no thread was refused as one")
	}
}

func TestPIDFileOfAZombie(t *testing.T) {
	h := newHome(t, "appd")
	cmd := exec.Command(h.path("appd"), "0")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait() //nolint:errcheck // reaped, that is all
	fd, err := unix.PidfdOpen(cmd.Process.Pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := pidns.AwaitEnd(fd); err != nil {
		t.Fatal(err)
	}
	path := h.put(t, "app.pid", strconv.Itoa(cmd.Process.Pid))
	find(t, locate.Query{ProcName: "appd", PIDPath: path}, 0, "is stale: pid .* has ended")
	find(t, locate.Query{ProcName: "appd", SetupPath: h.dir}, 0, "no process appd runs")
}

func TestPIDFileThatIsNone(t *testing.T) {
	h := newHome(t, "appd")
	query := func(path string) locate.Query {
		return locate.Query{ProcName: "appd", PIDPath: path, SetupPath: h.dir}
	}
	pid := run(t, h.dir, h.path("appd"), "1000")
	find(t, query(h.path("none.pid")), 0, "^pid file .*/none.pid does not exist$")
	find(t, query(h.path("appd")+"/x.pid"), 0, "does not exist")
	find(t, query("/dev/zero"), 0, "is not a regular file")
	if err := unix.Mkfifo(h.path("fifo.pid"), 0o600); err != nil {
		t.Fatal(err)
	}
	find(t, query(h.path("fifo.pid")), 0, "is not a regular file")

	h.put(t, "real.pid", strconv.Itoa(pid))
	for link, target := range map[string]string{"good": "real.pid", "dangling": "nothing", "round": "round"} {
		if err := os.Symlink(target, h.path(link)); err != nil {
			t.Fatal(err)
		}
	}
	find(t, query(h.path("good")), pid, "")
	find(t, query(h.path("dangling")), 0, "does not exist")
	find(t, query(h.path("round")), 0, "cannot be read")
}

func TestPIDFileThatCannotBeRead(t *testing.T) {
	// Root may read everything; this is refused to root too.
	find(t, locate.Query{ProcName: "appd", PIDPath: "/proc/1/mem/x"}, 0, "does not exist")
	find(t, locate.Query{ProcName: "appd", PIDPath: "/proc/self/mem"}, 0, "cannot be read: input/output error")
}

func TestDirectory(t *testing.T) {
	h := newHome(t, "appd")
	pid := run(t, "/", h.path("appd"), "1000")
	twin := run(t, "/", h.path("appd"), "1000")
	other := run(t, "/", "/bin/sleep", "1000")
	line := func(pid int) string { return strconv.Itoa(pid) + "\n" }
	for name, tc := range map[string]struct {
		files map[string]string
		pid   int
		note  string
	}{
		"empty":           {nil, 0, "^no pid file in .* names a live appd$"},
		"named":           {map[string]string{"appd.pid": line(pid), "x.pid": line(twin)}, pid, ""},
		"named and stale": {map[string]string{"appd.pid": line(other), "x.pid": line(pid)}, 0, "belongs to sleep"},
		"named and empty": {map[string]string{"appd.pid": "", "x.pid": line(pid)}, 0, "appd.pid is empty"},
		"another name":    {map[string]string{"main.pid": line(pid)}, pid, ""},
		"among others": {map[string]string{
			"a.pid": line(other), "b.pid": "junk", "c.pid": line(pid),
			"d.txt": line(twin),
		}, pid, ""},
		"twice the same": {map[string]string{"a.pid": line(pid), "b.pid": line(pid)}, pid, ""},
		"two of them": {
			map[string]string{"a.pid": line(pid), "b.pid": line(twin)},
			0,
			"more than one pid file .*a.pid and .*b.pid",
		},
		"nothing that fits":   {map[string]string{"a.pid": line(other)}, 0, "no pid file in"},
		"other endings":       {map[string]string{"appd": line(pid), "pid": line(pid)}, 0, "no pid file in"},
		"a directory in it":   {map[string]string{"x.pid/y": line(pid), "z.pid": line(pid)}, pid, ""},
		"a directory by name": {map[string]string{"appd.pid/y": line(pid)}, 0, "appd.pid is not a regular file"},
	} {
		t.Run(name, func(t *testing.T) {
			d := home{t.TempDir()}
			for file, content := range tc.files {
				d.put(t, file, content)
			}
			r := find(t, locate.Query{ProcName: "appd", PIDPath: d.dir, SetupPath: h.dir}, tc.pid, tc.note)
			if r.Process != nil && filepath.Dir(r.Process.PIDFile) != d.dir {
				t.Errorf("found by %q", r.Process.PIDFile)
			}
		})
	}
}

// A file that is replaced again and again, for an instant by half of the number, is never misread: each number in it is
// a process that may be found, or nothing is.
func TestPIDFileSwappedWhileRead(t *testing.T) {
	h := newHome(t, "appd")
	one := run(t, "/", h.path("appd"), "1000")
	two := run(t, "/", h.path("appd"), "1000")
	path := h.put(t, "app.pid", strconv.Itoa(one))
	var stop atomic.Bool
	done := make(chan error, 1)
	go func() {
		for i := 0; !stop.Load(); i++ {
			pid := []int{one, two}[i%2]
			if err := os.WriteFile(h.path("new"), []byte(strconv.Itoa(pid)), 0o600); err != nil {
				done <- err
				return
			}
			if err := os.Rename(h.path("new"), path); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	found := 0
	for range 500 {
		r := locate.Find(live(), locate.Query{ProcName: "appd", PIDPath: path})
		switch {
		case r.Process != nil && (r.Process.ID.PID == one || r.Process.ID.PID == two):
			found++
		case r.Process != nil:
			t.Errorf("found %d", r.Process.ID.PID)
		case !strings.Contains(r.Note, "keeps changing"):
			t.Errorf("note %q", r.Note)
		}
	}
	stop.Store(true)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if found == 0 {
		t.Error("nothing was ever found")
	}
}

func TestByName(t *testing.T) {
	h, elsewhere := newHome(t, "appd"), newHome(t, "appd")
	run(t, "/", elsewhere.path("appd"), "1000")
	query := locate.Query{ProcName: "appd", SetupPath: h.dir}
	find(t, query, 0, "^no process appd runs in or from ")

	pid := run(t, "/", h.path("appd"), "1000")
	if r := find(t, query, pid, ""); r.Process != nil && (r.Process.Matches != 1 || r.Process.PIDFile != "") {
		t.Errorf("found %+v", r.Process)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(h.dir, link); err != nil {
		t.Fatal(err)
	}
	find(t, locate.Query{ProcName: "appd", SetupPath: link + "/"}, pid, "")
	find(t, locate.Query{ProcName: "app", SetupPath: h.dir}, 0, "no process")
	find(t, locate.Query{ProcName: "appd", SetupPath: h.dir[:len(h.dir)-1]}, 0, "no process")
	find(t, locate.Query{SetupPath: h.dir}, 0, "proc_name is empty")

	run(t, "/", h.path("appd"), "1000")
	if r := find(t, query, pid, "2 processes appd .* is the oldest"); r.Process != nil && r.Process.Matches != 2 {
		t.Errorf("found %+v", r.Process)
	}
	file := h.put(t, "app.pid", strconv.Itoa(pid))
	query.PIDPath, query.Count = file, true
	if r := find(t, query, pid, ""); r.Process != nil && r.Process.Matches != 2 {
		t.Errorf("found %+v", r.Process)
	}
	query.SetupPath = elsewhere.dir
	if r := find(t, query, pid, ""); r.Process != nil && r.Process.Matches != 2 {
		t.Errorf("found %+v", r.Process)
	}
}

func TestByNameInTheDirectory(t *testing.T) {
	h := newHome(t, "appd")
	run(t, "/", "/bin/sleep", "1234")
	pid := run(t, h.dir, "/bin/sleep", "1234")
	find(t, locate.Query{ProcName: "sleep", SetupPath: h.dir}, pid, "")
}

// The first of a family is meant, not its workers, although all have the same name.
func TestByNameFindsTheMaster(t *testing.T) {
	h := newHome(t, "unused")
	script := h.put(t, "master.sh", "(echo; read x < fifo) & (echo; read x < fifo) & wait\n")
	if err := unix.Mkfifo(h.path("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", script)
	cmd.Dir = h.dir
	said, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Process.Release() // the pipe is held by its children, which end with the namespace
	})
	lines := bufio.NewReader(said)
	for range 2 {
		if _, err := lines.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	r := find(t, locate.Query{ProcName: "master.sh", SetupPath: h.dir}, cmd.Process.Pid, "")
	if r.Process != nil && r.Process.Matches != 3 {
		t.Errorf("%d match, want 3", r.Process.Matches)
	}
}

func TestReplacedExecutable(t *testing.T) {
	h := newHome(t, "appd")
	pid := run(t, "/", h.path("appd"), "1000")
	path := h.put(t, "app.pid", strconv.Itoa(pid))
	if err := os.Remove(h.path("appd")); err != nil {
		t.Fatal(err)
	}
	find(t, locate.Query{ProcName: "appd", PIDPath: path, SetupPath: h.dir}, pid, "")
	find(t, locate.Query{ProcName: "appd", SetupPath: h.dir}, pid, "")
}

// A process in a container has the right name in the wrong world.
func TestByNameSparesContainers(t *testing.T) {
	h := newHome(t, "appd")
	cmd := exec.Command(h.path("appd"), "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	find(t, locate.Query{ProcName: "appd", SetupPath: h.dir}, 0, "no process appd runs")
	path := h.put(t, "app.pid", strconv.Itoa(cmd.Process.Pid))
	find(t, locate.Query{ProcName: "appd", PIDPath: path, SetupPath: h.dir}, cmd.Process.Pid, "")
}

// A program that was started by the name that a link in its directory points to.
func TestNameIsALink(t *testing.T) {
	h := newHome(t, "appd-1.2.3")
	if err := os.Mkdir(h.path("bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../appd-1.2.3", h.path("bin/appd")); err != nil {
		t.Fatal(err)
	}
	pid := run(t, "/", h.path("appd-1.2.3"), "1000")
	path := h.put(t, "app.pid", strconv.Itoa(pid))
	find(t, locate.Query{ProcName: "appd", PIDPath: path, SetupPath: h.dir}, pid, "")
	find(t, locate.Query{ProcName: "appd", PIDPath: path, SetupPath: "/"}, 0, "belongs to appd-1.2.3")

	// Called by yet another name, it is another program of the same file.
	cmd := exec.Command(h.path("appd-1.2.3"), "1000")
	cmd.Args[0] = "other"
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	path = h.put(t, "app.pid", strconv.Itoa(cmd.Process.Pid))
	find(t, locate.Query{ProcName: "appd", PIDPath: path, SetupPath: h.dir}, 0, "belongs to appd-1.2.3")
}
