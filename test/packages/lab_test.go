package packages_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"drover/internal/test/harness"
)

// lab is machines that share a network and nothing else. Each is a copy of this one, made of an overlay in memory, with
// systemd as the first process of its own namespaces; nothing that is done there is left behind here.
type lab struct {
	t *testing.T
	// dir is a file system in memory; group is the control group that holds those of the machines.
	dir, group string
	// hub is a process whose network is the switch.
	hub      *exec.Cmd
	machines map[string]*machine
}

// machine is one of them.
type machine struct {
	t    *testing.T
	name string
	// root is its root directory as it is seen from here.
	root string
	init *exec.Cmd
}

// domain is what the names of machines end with, where people write them.
const domain = ".example.com"

// places bounds how many machines there are at a time, of all tests: each systemd has four instances of inotify, and by
// default Linux gives an account 128. A test takes its places at once, so no two tests wait for each other.
var places = struct {
	sync.Mutex
	free chan struct{}
}{free: make(chan struct{}, 16)}

// takePlaces waits until there are places for some machines, and returns them at the end of the test.
func takePlaces(t *testing.T, count int) {
	t.Helper()
	places.Lock()
	for range count {
		places.free <- struct{}{}
	}
	places.Unlock()
	t.Cleanup(func() {
		for range count {
			<-places.free
		}
	})
}

// newLab boots machines.
func newLab(t *testing.T, names ...string) *lab {
	t.Helper()
	takePlaces(t, len(names))
	l := &lab{t: t, dir: filepath.Join(t.TempDir(), "lab"), machines: map[string]*machine{}}
	t.Cleanup(l.end)
	must(t, os.MkdirAll(l.dir, 0o755))
	mount(t, "tmpfs", "tmpfs", l.dir, "mode=0755")
	groups := filepath.Join(l.dir, "groups")
	must(t, os.Mkdir(groups, 0o755))
	mount(t, "cgroup2", "cgroup2", groups, "")
	l.group = filepath.Join(groups, "drover-packages-"+strings.ToLower(rand.Text()[:16]))
	must(t, os.Mkdir(l.group, 0o755))

	l.hub = exec.Command("/bin/sh", "-c", "read -r _")
	_, err := l.hub.StdinPipe() // it ends when this does
	must(t, err)
	l.hub.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	must(t, l.hub.Start())
	l.onHub("ip link add hub type bridge; ip link set hub up")

	var hosts strings.Builder
	hosts.WriteString("127.0.0.1 localhost\n")
	for i, name := range names {
		fmt.Fprintf(&hosts, "10.9.0.%d %s%s %s\n", i+1, name, domain, name)
		l.machines[name] = l.assemble(name)
	}
	for i, name := range names {
		l.machines[name].write("/etc/hosts", hosts.String())
		l.boot(l.machines[name], i+1)
	}
	for _, m := range l.machines {
		harness.Eventually(t, m.name+" to be up",
			func() bool { return m.try("systemctl is-active --quiet lab.target").err == nil })
	}
	return l
}

// assemble makes the disk of a machine: what this one has, without what runs here and without anything of drover's.
func (l *lab) assemble(name string) *machine {
	l.t.Helper()
	m := &machine{t: l.t, name: name, root: filepath.Join(l.dir, "machines", name)}
	upper, work := filepath.Join(l.dir, "upper", name), filepath.Join(l.dir, "work", name)
	for _, dir := range []string{m.root, upper, work} {
		must(l.t, os.MkdirAll(dir, 0o755))
	}
	mount(l.t, "overlay", "overlay", m.root, "lowerdir=/,upperdir="+upper+",workdir="+work)
	for _, pattern := range []string{
		"etc/systemd/system/*.wants", "etc/drover", "var/lib/drover*",
		"usr/local/bin/drover*",
		// Because of this file, dpkg indexes the manual pages of the whole machine after each package.
		"var/lib/man-db/auto-update",
	} {
		found, err := filepath.Glob(filepath.Join(m.root, pattern))
		must(l.t, err)
		for _, path := range found {
			must(l.t, os.RemoveAll(path))
		}
	}
	mount(l.t, "tmpfs", "tmpfs", filepath.Join(m.root, "root"), "mode=0700")
	id := make([]byte, 16)
	rand.Read(id) //nolint:errcheck // it never fails
	m.write("/etc/machine-id", hex.EncodeToString(id)+"\n")
	m.write("/etc/hostname", name+"\n")
	// What boots is no more than drover's units and the journal need.
	m.write("/etc/systemd/system/lab.target",
		"[Unit]\nRequires=basic.target\nAfter=basic.target\nWants=systemd-journald.service\n")
	m.write("/usr/local/bin/scp", scp)
	must(l.t, os.Chmod(filepath.Join(m.root, "usr/local/bin/scp"), 0o755))
	must(l.t, os.MkdirAll(filepath.Join(m.root, "lab"), 0o755))
	return m
}

// scp stands for the real one, which would need a server: scp FILE... HOST: copies to the home of root there.
const scp = `#!/bin/sh
set -eu
files=""
while [ $# -gt 1 ]; do
	files="$files $1"
	shift
done
host=${1%:}
[ "$host" != "$1" ] || { echo "scp: $1: expected HOST:" >&2; exit 1; }
cp -p $files "/lab/${host%` + domain + `}/root/"
`

// boot starts systemd in namespaces of its own, and gives it an address.
func (l *lab) boot(m *machine, number int) {
	l.t.Helper()
	group := filepath.Join(l.group, m.name)
	must(l.t, os.Mkdir(group, 0o755))
	m.init = exec.Command("/bin/sh", "-e", "-c", fmt.Sprintf(`
echo 0 >%[1]s/cgroup.procs
cd %[2]s
exec unshare --cgroup /bin/sh -e -c '
mount -t proc proc proc
mount --bind -o ro proc/sys proc/sys
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
mount -t tmpfs -o mode=0755 tmpfs dev
mkdir dev/pts
mkdir -m 1777 dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
for node in "null 3" "zero 5" "full 7" "random 8" "urandom 9"; do mknod -m 666 dev/${node%% *} c 1 ${node#* }; done
ln -s /proc/self/fd dev/fd
mount --rbind %[3]s lab
hostname %[4]s
read -r _
ip link set lo up
mkdir -p run/old
pivot_root . run/old
umount -l run/old
exec env -i PATH=/usr/sbin:/usr/bin container=drover /lib/systemd/systemd --system --unit=lab.target --log-target=journal --show-status=no
'`, group, m.root, filepath.Join(l.dir, "machines"), m.name))
	m.init.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS |
			syscall.CLONE_NEWIPC,
	}
	output := &bytes.Buffer{}
	m.init.Stdout, m.init.Stderr = output, output
	gate, err := m.init.StdinPipe()
	must(l.t, err)
	must(l.t, m.init.Start())
	l.t.Cleanup(func() {
		if l.t.Failed() {
			l.t.Logf("boot of %s:\n%s", m.name, output)
		}
	})
	l.onHub(fmt.Sprintf("ip link add port%[1]d master hub up type veth peer name eth0 netns %[2]d", number,
		m.init.Process.Pid))
	l.inside(m.init.Process.Pid, fmt.Sprintf("ip addr add 10.9.0.%d/24 dev eth0; ip link set eth0 up", number))
	_, err = fmt.Fprintln(gate)
	must(l.t, err)
}

// onHub runs a command line in the network of the switch, inside in that of a process.
func (l *lab) onHub(line string) {
	l.t.Helper()
	l.inside(l.hub.Process.Pid, line)
}

func (l *lab) inside(pid int, line string) {
	l.t.Helper()
	if out, err := exec.Command("nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", pid), "/bin/sh", "-e", "-c",
		line).CombinedOutput(); err != nil {
		l.t.Fatalf("%s: %v\n%s", line, err, out)
	}
}

// end ends the machines, all at once as if the power went, and takes their control groups away. Mounts and networks go
// with the processes.
func (l *lab) end() {
	if l.group != "" {
		// before Linux 5.14 the end of a first process does the same
		_ = os.WriteFile(filepath.Join(l.group, "cgroup.kill"), []byte("1"), 0)
	}
	for _, m := range l.machines {
		if m.init != nil && m.init.Process != nil {
			_ = m.init.Process.Kill()
			_ = m.init.Wait() // it was killed
		}
	}
	if l.hub != nil && l.hub.Process != nil {
		_ = l.hub.Process.Kill()
		_ = l.hub.Wait() // it was killed
	}
	if l.group != "" {
		harness.Eventually(l.t, "the control groups of the machines to be empty", func() bool {
			// what is still in use stays
			_ = exec.Command("find", l.group, "-depth", "-type", "d", "-exec", "rmdir", "{}", "+").Run()
			_, err := os.Stat(l.group)
			return errors.Is(err, os.ErrNotExist)
		})
	}
	_ = syscall.Unmount(l.dir, syscall.MNT_DETACH)
}

// outcome is what came of a command.
type outcome struct {
	out string // both streams
	err error
}

// try runs a shell script on the machine, as root in its home.
func (m *machine) try(script string) outcome {
	ctx, cancel := context.WithTimeout(context.Background(), harness.CommandPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nsenter", "--target", fmt.Sprint(m.init.Process.Pid), "--mount", "--pid", "--net",
		"--uts", "--ipc", "--cgroup", "--root",
		"env", "-i", "HOME=/root", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin", "TERM=dumb",
		"SYSTEMD_PAGER=cat", "DEBIAN_FRONTEND=noninteractive",
		"/bin/sh", "-e", "-c", "cd\n"+script)
	// A daemon that keeps the output must not keep us.
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	return outcome{string(out), err}
}

// run runs a script that has to work, and returns what it wrote.
func (m *machine) run(script string) string {
	m.t.Helper()
	r := m.try(script)
	if r.err != nil {
		out := strings.ReplaceAll(strings.TrimSpace(r.out), "\n", " | ")
		if most := 3000; len(out) > most {
			out = out[:most/2] + " … " + out[len(out)-most/2:]
		}
		// The output is in the first line, too: a summary of a long log keeps that one.
		m.t.Fatalf("on %s: %v: %s\n%s\n--- it wrote\n%s--- the journal ends with\n%s", m.name, r.err, out, script,
			r.out, m.journal())
	}
	return r.out
}

// journal is the end of what drover has logged on the machine.
func (m *machine) journal() string {
	return m.try("journalctl --quiet --no-pager --lines 40 --unit 'drover*'").out
}

// write writes a file of the machine.
func (m *machine) write(path, text string) {
	m.t.Helper()
	path = filepath.Join(m.root, path)
	// Not over a link of this machine's, which may lead out of the copy.
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		m.t.Fatal(err)
	}
	must(m.t, os.WriteFile(path, []byte(text), 0o644))
}

func mount(t *testing.T, source, kind, target, options string) {
	t.Helper()
	if err := syscall.Mount(source, target, kind, 0, options); err != nil {
		t.Fatalf("cannot mount %s on %s: %v", kind, target, err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sleeper has a machine join the server on it, and starts a process there. It returns the pid, and a function that fails
// the test unless the process lives.
func (l *lab) sleeper(m *machine, enable string) (pid string, lives func(after string)) {
	l.t.Helper()
	m.run("drover token create --area 0 --uses 1 --ttl 1h 2>/dev/null | " +
		"drover-agent join --server https://127.0.0.1:7350 --token - --data-dir /var/lib/drover-agent; " +
		"systemctl " + enable + " drover-agent")
	l.settle()
	m.run(`drover register a/sleeper --hosts '*' --file - <<'END'
start: touch /run/sleeper.pid; sleep 1000 & echo $! >/run/sleeper.pid
pid_file: /run/sleeper.pid
process_name: sleep
user: nobody
stop: kill $(cat /run/sleeper.pid)
END
install -o nobody -m 644 /dev/null /run/sleeper.pid
drover start a/sleeper`)
	return l.pidOfSleeper(m)
}

// pidOfSleeper returns the pid of the process of sleeper, and a function that fails unless that one lives.
func (l *lab) pidOfSleeper(m *machine) (pid string, lives func(after string)) {
	l.t.Helper()
	pid = strings.TrimSpace(m.run("cat /run/sleeper.pid"))
	return pid, func(after string) {
		l.t.Helper()
		if r := m.try("cat /proc/" + pid + "/comm"); r.out != "sleep\n" {
			l.t.Fatalf("the process is gone after %s: %s\n%s", after, r.out, m.journal())
		}
	}
}
