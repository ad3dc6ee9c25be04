package inspect

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"drover/client"
	"drover/internal/agent/logs"
	"drover/internal/cli/term"
	"drover/internal/config"
)

// logsShown is how many logs are named where a file system has little room.
const logsShown = 3

// dialTime is how long a connection may take.
const dialTime = 3 * time.Second

// machine checks the files of drover on this machine. Empty directories stand for the default. Without a data directory
// there is nothing to check. address is that of the server that has answered: its own socket is one of this machine.
func (f *findings) machine(ctx context.Context, dataDir, agentDir, address string) {
	if dataDir == "" {
		dataDir = config.DataDir()
	}
	own := filepath.Join(dataDir, "server")
	if there(own) {
		f.directory(own)
		socket := filepath.Join(dataDir, config.SocketName)
		if address != socket || !slices.ContainsFunc(*f, func(one finding) bool { return one.Check == serverDisk }) {
			f.disk(own)
		}
		if !f.socket(ctx, socket) {
			f.port(ctx, "7350")
			f.port(ctx, "7351")
		}
	}
	switch dir := agentOf(dataDir, agentDir); {
	case there(dir):
		if !sameDisk(own, dir) {
			f.disk(dir)
		}
		f.logs(filepath.Join(dir, "log"))
		f.agent(ctx, dir)
	case agentDir != "":
		f.problem("agent", "join a server: drover-agent join --server URL --token TOKEN", "there is no agent in %s", agentDir)
	}
}

// agentOf returns the directory where an agent on this machine has its files. Empty directories stand for the default.
func agentOf(dataDir, agentDir string) string {
	if agentDir == "" {
		agentDir = packagedAgent
		if dataDir == "" {
			dataDir = config.DataDir()
		}
		if there(filepath.Join(dataDir, "agent")) {
			agentDir = dataDir
		}
	}
	return filepath.Join(agentDir, "agent")
}

// onlyAgent reports whether this machine has an agent and no server.
func onlyAgent(dataDir, agentDir string) bool {
	agent := agentOf(dataDir, agentDir)
	if dataDir == "" {
		dataDir = config.DataDir()
	}
	return there(agent) && !there(filepath.Join(dataDir, "server"))
}

// packagedAgent is the data directory of an agent of a package.
const packagedAgent = "/var/lib/drover-agent"

// sameDisk reports whether two directories are on one file system; false if one of them does not exist.
func sameDisk(one, other string) bool {
	var a, b unix.Stat_t
	return unix.Stat(one, &a) == nil && unix.Stat(other, &b) == nil && a.Dev == b.Dev
}

func there(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// directory checks that only its owner can use a directory.
func (f *findings) directory(dir string) {
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		f.problem("directory", "run the command as root, or as the account of drover", "%v", err)
	case info.Mode().Perm()&0o077 != 0:
		f.problem("directory", "chmod 700 "+term.ShellWord(dir), "%s has mode %04o: expected 0700, because it holds keys",
			dir, info.Mode().Perm())
	default:
		f.ok("directory", "%s has mode 0700", dir)
	}
}

func (f *findings) disk(dir string) {
	var s unix.Statfs_t // not reserve.Disk: root looks, and an account runs the server
	if err := unix.Statfs(dir, &s); err != nil {
		f.problem("disk", "", "cannot read the file system of %s: %v", dir, err)
		return
	}
	f.space("disk of "+dir, int64(s.Bavail)*s.Bsize, int64(s.Blocks)*s.Bsize) //nolint:gosec // real disks
}

// logs names the logs that take most room, if their file system has little.
func (f *findings) logs(dir string) {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil || !scarce(int64(s.Bavail)*s.Bsize, int64(s.Blocks)*s.Bsize) { //nolint:gosec // real disks
		return
	}
	largest, err := logs.Largest(dir, logsShown)
	if err != nil || len(largest) == 0 {
		return
	}
	names := make([]string, len(largest))
	for i, l := range largest {
		names[i] = l.Process.String() + " " + term.Size(l.Bytes)
	}
	f.warn("logs", "drover why --page log-full", "the largest logs in %s: %s", dir, strings.Join(names, ", "))
}

// socket checks the socket of a server, and reports whether a server listens there.
func (f *findings) socket(ctx context.Context, path string) (listens bool) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		f.warn("socket", "start the server", "no server runs here: there is no %s", path)
		return false
	}
	if err != nil {
		f.problem("socket", "run the command as root, or as the account of drover", "%v", err)
		return true
	}
	if info.Mode().Perm() != 0o600 {
		f.problem("socket", "chmod 600 "+term.ShellWord(path), "%s has mode %04o: expected 0600, because its user is an administrator",
			path, info.Mode().Perm())
	}
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	conn, err := client.DialSocket(ctx, path)
	if err != nil {
		f.warn("socket", "start the server", "no server listens at %s: %v", path, err)
		return false
	}
	_ = conn.Close() // it was only a look
	f.ok("socket", "a server listens at %s", path)
	return true
}

// port checks that a server that starts now gets its usual port.
func (f *findings) port(ctx context.Context, port string) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("", port))
	if err == nil {
		_ = l.Close() // it was only a look
		f.ok("port", "port %s is free", port)
		return
	}
	f.problem("port", "end that program, or give the server another address with --http and --fabric",
		"port %s is taken%s: %v", port, holder(port), err)
}

// holder names the process that listens on a TCP port; empty if this account cannot see it.
func holder(port string) string {
	number, err := strconv.Atoi(port)
	if err != nil {
		return ""
	}
	wanted := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		listeners(table, fmt.Sprintf(":%04X", number), wanted)
	}
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*") // the pattern is valid
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && wanted[target] {
			pid := strings.Split(link, "/")[2]
			name, _ := os.ReadFile("/proc/" + pid + "/comm") // without a name the pid says enough
			return fmt.Sprintf(" by pid %s (%s)", pid, strings.TrimSpace(string(name)))
		}
	}
	return ""
}

// listeners adds the sockets of a table of the kernel that listen on a port, as links in /proc name them.
func listeners(table, port string, wanted map[string]bool) {
	file, err := os.Open(table)
	if err != nil {
		return
	}
	defer file.Close() //nolint:errcheck // it was only read
	const listening = "0A"
	for lines := bufio.NewScanner(file); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) > 9 && strings.HasSuffix(fields[1], port) && fields[3] == listening {
			wanted["socket:["+fields[9]+"]"] = true
		}
	}
}

// agent checks the agent of this host.
func (f *findings) agent(ctx context.Context, dir string) {
	f.directory(dir)
	data, err := os.ReadFile(filepath.Join(dir, "enrolment.json"))
	if errors.Is(err, fs.ErrNotExist) {
		f.problem("agent", "drover-agent join --server URL --token TOKEN",
			"the agent in %s has not joined a server", dir)
		return
	}
	var joined struct {
		URLs  []string `json:"urls"`
		Cloud int      `json:"cloud"`
		IP    string   `json:"ip"`
	}
	if err == nil {
		err = json.Unmarshal(data, &joined)
	}
	if err != nil {
		f.problem("agent", "run the command as root; if the file is damaged, join again", "cannot read the enrolment: %v", err)
		return
	}
	switch running, err := locked(filepath.Join(dir, "state.db")); {
	case err != nil:
		f.problem("agent", "run the command as root", "cannot find out whether the agent runs: %v", err)
	case running:
		f.ok("agent", "the agent of %d:%s runs", joined.Cloud, joined.IP)
	default:
		f.problem("agent", "systemctl start drover-agent, or: drover-agent run --data-dir "+term.ShellWord(filepath.Dir(dir)),
			"the agent of %d:%s does not run", joined.Cloud, joined.IP)
	}
	for _, text := range joined.URLs {
		f.reaches(ctx, text)
	}
}

// reaches checks that the agent can connect to an address of the fabric.
func (f *findings) reaches(ctx context.Context, text string) {
	address := text
	if u, err := url.Parse(text); err == nil && u.Host != "" {
		address = u.Host
	}
	conn, err := (&net.Dialer{Timeout: dialTime}).DialContext(ctx, "tcp", address)
	if err != nil {
		f.problem("agent", "check the network and the firewall between this host and the server", "cannot connect to %s: %v",
			address, err)
		return
	}
	_ = conn.Close() // it was only a look
	f.ok("agent", "this host can connect to %s", address)
}

// locked reports whether a program holds the lock of a file. It shares the lock for a moment, which a program that
// starts now waits for. The kernel's list in /proc/locks leaves out some locks while others come and go.
func locked(path string) (bool, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err //nolint:wrapcheck // it names the file
	}
	defer file.Close()                                          //nolint:errcheck // it was only a look
	err = unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB) //nolint:gosec // a file descriptor is an int
	if err != nil && !errors.Is(err, unix.EWOULDBLOCK) {
		return false, fmt.Errorf("cannot read %s: %w", path, err)
	}
	return err != nil, nil
}
