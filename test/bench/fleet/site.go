package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"drover/test/bench/lab"
)

//go:embed svc.sh
var svcScript []byte

// site is some hosts, with a drover server, and what each tool needs on each of them.
type site struct {
	*lab.Lab
	dir, svc string
	// hosts are addresses of loopback.
	hosts  []string
	fleet  *lab.Fleet
	agents []*lab.Child
	sshds  []*lab.Child
	bare   bareFleet
}

// address is that of the host with a number.
func address(i int) string {
	const perNet = 250
	return fmt.Sprintf("127.0.%d.%d", 1+i/perNet, 1+i%perNet)
}

// state is the directory of the pid files of those that share them.
func (s *site) state(of string) string { return filepath.Join(s.dir, "svc-"+of) }

// newSite starts n hosts. What it has started is the caller's to end, also if it fails.
func newSite(ctx context.Context, l *lab.Lab, n int, ssh bool) (*site, error) {
	s := &site{Lab: l, dir: filepath.Join(l.Disk, fmt.Sprintf("hosts-%d", n))}
	s.svc = filepath.Join(s.dir, "svc")
	for i := range n {
		s.hosts = append(s.hosts, address(i))
	}
	for _, of := range []string{"floor", "ssh", "drover"} {
		if err := os.MkdirAll(s.state(of), 0o755); err != nil {
			return s, err
		}
	}
	if err := os.WriteFile(s.svc, svcScript, 0o755); err != nil { //nolint:gosec // it is a program
		return s, err
	}
	if err := s.startDrover(ctx); err != nil {
		return s, fmt.Errorf("drover: %w", err)
	}
	if err := s.startBare(); err != nil {
		return s, fmt.Errorf("bare NATS: %w", err)
	}
	if ssh {
		if err := s.startSSH(ctx); err != nil {
			return s, fmt.Errorf("sshd: %w", err)
		}
	}
	return s, nil
}

// close ends what runs on the hosts.
func (s *site) close() {
	if s.bare.conn != nil {
		s.bare.conn.Close()
	}
	s.bare.agents.Dismiss()
	if s.bare.server != nil {
		s.bare.server.Dismiss()
	}
	for _, c := range append(s.agents, s.sshds...) {
		c.End(syscall.SIGKILL)
	}
	if s.fleet != nil && s.fleet.Server != nil {
		s.fleet.Kill()
	}
}

// startDrover starts a server, has each host join it, and applies the two processes of each host: the daemon of the
// script, which is called svc, and a program in the foreground, which is called run.
func (s *site) startDrover(ctx context.Context) error {
	var err error
	if s.fleet, err = lab.StartFleet(s.Bin, filepath.Join(s.dir, "server")); err != nil {
		return err
	}
	token, err := s.fleet.Token(ctx, len(s.hosts))
	if err != nil {
		return err
	}
	agent := filepath.Join(s.Bin, "drover-agent")
	const joiners = 4
	errs := make([]error, joiners)
	var work sync.WaitGroup
	for w := range joiners {
		work.Go(func() {
			for i := w; i < len(s.hosts) && errs[w] == nil; i += joiners {
				cmd := exec.CommandContext(ctx, agent, "join", "--server", s.fleet.URL, "--token", "-", "--ip", s.hosts[i],
					"--data-dir", s.home(i))
				cmd.Stdin = strings.NewReader(token)
				if out, err := cmd.CombinedOutput(); err != nil {
					errs[w] = fmt.Errorf("%s cannot join: %w: %s", s.hosts[i], err, out)
				}
			}
		})
	}
	work.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	for i := range s.hosts {
		a, err := lab.Start(exec.Command(agent, "run", "--data-dir", s.home(i), "--log-level", "warn"),
			filepath.Join(s.dir, "agents.log"))
		if err != nil {
			return err
		}
		s.agents = append(s.agents, a)
	}
	if err := s.fleet.AwaitOnline(len(s.hosts)); err != nil {
		return err
	}
	file := filepath.Join(s.dir, "bench.yaml")
	if err := os.WriteFile(file, s.processFile(), 0o600); err != nil {
		return err
	}
	// All first starts at once would take longer than they may: the hosts share the processors of this machine.
	out, err := s.cli(ctx, "apply", "-f", file, "--batch", "50", "--yes", "--timeout", "5m").CombinedOutput()
	if err != nil {
		return fmt.Errorf("cannot apply the processes: %w: %s", err, out[max(0, len(out)-4096):])
	}
	return nil
}

func (s *site) home(i int) string { return filepath.Join(s.dir, "agents", s.hosts[i]) }

// processFile has processes of their own for each host: no two drovers of one machine manage the same.
func (s *site) processFile() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "namespace: %s\nprocesses:\n", lab.Namespace)
	for i, host := range s.hosts {
		fmt.Fprintf(&b, "  run-%d: {hosts: ['0:%s'], run: sleep 1000000 %d, ready: {alive: 0s}}\n", i, host, i)
		start := s.svc + " " + s.state("drover") + " start"
		fmt.Fprintf(&b, "  svc-%d: {hosts: ['0:%s'], start: %s, pid_file: %s/%s.pid, ready: {alive: 0s}}\n", i, host, start,
			s.state("drover"), host)
	}
	return []byte(b.String())
}

// cli is a command of drover.
func (s *site) cli(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, filepath.Join(s.Bin, "drover"), append(args, "--data-dir", s.fleet.Dir)...)
}

// startSSH starts an sshd on each host. It hides the files of root's shell: what stands in them would count for each
// call.
func (s *site) startSSH(ctx context.Context) error {
	for _, file := range []string{"/root/.bashrc", "/root/.profile"} {
		if _, err := os.Stat(file); err == nil {
			if err := unix.Mount("/dev/null", file, "", unix.MS_BIND, ""); err != nil {
				return fmt.Errorf("cannot hide %s: %w", file, err)
			}
		}
	}
	for _, dir := range []string{"/run/sshd", s.file("masters"), s.file("ansible")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	for _, key := range []string{"host", "user"} {
		cmd := exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", s.file(key))
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("cannot make a key: %w: %s", err, out)
		}
	}
	daemon := fmt.Sprintf("HostKey %s\nAuthorizedKeysFile %s\nStrictModes no\nUsePAM no\nPidFile none\nPrintMotd no\n"+
		"PrintLastLog no\nPasswordAuthentication no\nUseDNS no\n", s.file("host"), s.file("user.pub"))
	client := fmt.Sprintf("IdentityFile %s\nUserKnownHostsFile /dev/null\nStrictHostKeyChecking no\nLogLevel ERROR\n"+
		"BatchMode yes\nConnectTimeout 10\n", s.file("user"))
	masters := "ControlMaster auto\nControlPersist 1h\nControlPath "
	for name, text := range map[string]string{
		"sshd.conf": daemon, "ssh.conf": client,
		"warm.conf":    client + masters + s.file("masters") + "/%h\n",
		"ansible.conf": client + masters + s.file("ansible") + "/%h\n",
		"hosts":        strings.Join(s.hosts, "\n") + "\n",
	} {
		if err := os.WriteFile(s.file(name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	for _, host := range s.hosts {
		c, err := lab.Start(exec.Command("/usr/sbin/sshd", "-D", "-f", s.file("sshd.conf"), "-o", "ListenAddress="+host),
			s.file("sshd.log"))
		if err != nil {
			return err
		}
		s.sshds = append(s.sshds, c)
	}
	return nil
}

// file is a file of the site.
func (s *site) file(name string) string { return filepath.Join(s.dir, name) }
