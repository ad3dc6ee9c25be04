// Package pgtest runs real PostgreSQL servers for tests: each in a directory of its own, reached over a socket in it,
// as an account that PostgreSQL accepts. It owns the servers from their first start to their end; it is no part of the
// product.
package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// patience is how long a server may take to start, to stop, or to do what it was told.
const patience = 60 * time.Second

// errMissing says that there is no PostgreSQL here.
var errMissing = errors.New(
	"PostgreSQL is not installed: no /usr/lib/postgresql/*/bin/postgres (make test-deps installs it)")

// programs returns the directory of the newest PostgreSQL that is installed.
func programs() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(found) == 0 {
		return "", errMissing
	}
	return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })), nil
}

func version(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path)))) // 0 for what is no number
	return n
}

// Server is one PostgreSQL server. It is made with New or Clone, and its files are removed with Remove.
type Server struct {
	// Dir holds its data, its socket and its log.
	Dir string
	// Settings are those that it is started with, as name=value.
	Settings []string
	bin      string
	cmd      *exec.Cmd
	ended    chan struct{}
	count    atomic.Int64
}

// New makes a server that is not started. Its data need not survive the machine, so nothing waits for a disk, and its
// databases are small and many, so nobody vacuums, unless the settings say so.
func New(settings ...string) (*Server, error) {
	s, err := empty(append([]string{"fsync=off", "synchronous_commit=off", "full_page_writes=off", "autovacuum=off"},
		settings...))
	if err != nil {
		return nil, err
	}
	return s, s.run("initdb", "-D", s.data(), "-U", "drover", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8",
		"--no-sync")
}

// Own is New for one test, at whose end the server is removed.
func Own(tb testing.TB, settings ...string) *Server {
	tb.Helper()
	s, err := New(settings...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Remove(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// Clone makes a standby of a running server, which is not started. It is known to the other one by the name.
func Clone(primary *Server, name string, settings ...string) (*Server, error) {
	s, err := empty(settings)
	if err != nil {
		return nil, err
	}
	return s, s.Follow(primary, name)
}

// Follow makes a server that is stopped a standby of a running one, with none of the data that it had.
func (s *Server) Follow(primary *Server, name string) error {
	if err := os.RemoveAll(s.data()); err != nil {
		return err
	}
	return s.run("pg_basebackup", "-D", s.data(), "-R", "-X", "stream", "-c", "fast", "--no-sync",
		"-d", fmt.Sprintf("host=%s user=drover application_name=%s", primary.Dir, name))
}

func empty(settings []string) (*Server, error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "pg")
	if err != nil {
		return nil, err
	}
	s := &Server{Dir: dir, Settings: settings, bin: bin}
	if who := account(); who != nil {
		return s, os.Chown(dir, int(who.Uid), int(who.Gid))
	}
	return s, nil
}

func (s *Server) data() string { return filepath.Join(s.Dir, "data") }

// account returns whom PostgreSQL runs as where we are root, which it refuses; nil for ourselves.
func account() *syscall.Credential {
	if os.Geteuid() != 0 || onlyRoot() {
		return nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if errors.Join(uidErr, gidErr) == nil {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		}
	}
	return nil
}

// onlyRoot reports whether root is the only account here, as in the user namespace of an ordinary user's tests.
func onlyRoot() bool {
	mapping, err := os.ReadFile("/proc/self/uid_map")
	var inside, outside, count int
	_, scanErr := fmt.Sscan(string(mapping), &inside, &outside, &count)
	return errors.Join(err, scanErr) == nil && count == 1
}

// nobody is an account that every system has a name for.
const nobody = 65534

// command is a program of PostgreSQL, as the account that it accepts.
func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, name), args...) //nolint:noctx // the server is ended by its pid
	cmd.Dir = s.Dir
	//nolint:forbidigo // what a program needs to run
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8", "PGPORT=5432"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: account(), Setsid: true}
	if os.Geteuid() == 0 && onlyRoot() {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: nobody, HostID: 0, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: nobody, HostID: 0, Size: 1}}
	}
	return cmd
}

// run runs a program to its end.
func (s *Server) run(name string, args ...string) error {
	out, err := s.command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}

// Start starts the server and waits until it takes connections.
func (s *Server) Start() error {
	args := []string{
		"-D", s.data(), "-k", s.Dir, "-c", "listen_addresses=", "-c", "max_connections=300", "-c",
		"shared_buffers=64MB",
	}
	for _, setting := range s.Settings {
		args = append(args, "-c", setting)
	}
	cmd := s.command("postgres", args...)
	log, err := os.OpenFile(filepath.Join(s.Dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // the child has its own
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // what it says is in its log
		close(ended)
	}()
	s.cmd, s.ended = cmd, ended
	return s.Await(func(ctx context.Context, c *pgx.Conn) error { return c.Ping(ctx) })
}

// Await waits until the server does what is asked without an error.
func (s *Server) Await(what func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		err := s.do(ctx, "postgres", what)
		if err == nil {
			return nil
		}
		select {
		case <-again.C:
		case <-s.ended:
			return fmt.Errorf("the server has ended: %s", s.Log())
		case <-ctx.Done():
			return fmt.Errorf("%w: %s", err, s.Log())
		}
	}
}

func (s *Server) do(ctx context.Context, database string, what func(context.Context, *pgx.Conn) error) error {
	c, err := pgx.Connect(ctx, s.URL(database))
	if err != nil {
		return err
	}
	return errors.Join(what(ctx, c), c.Close(ctx))
}

// Exec runs a statement as the owner of everything.
func (s *Server) Exec(statement string) error { return s.ExecIn("postgres", statement) }

// ExecIn is Exec in one of the databases.
func (s *Server) ExecIn(database, statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return s.do(ctx, database, func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, statement)
		return err
	})
}

// Promote makes a standby the primary, and returns when it takes writes.
func (s *Server) Promote() error { return s.run("pg_ctl", "promote", "-D", s.data(), "-w", "-t", "60") }

// Run runs a program of PostgreSQL, such as pg_dump, against the server and returns what it prints.
func (s *Server) Run(name string, args ...string) ([]byte, error) {
	cmd := s.command(name, args...)
	cmd.Env = append(cmd.Env, "PGHOST="+s.Dir, "PGUSER=drover")
	var failure bytes.Buffer
	cmd.Stderr = &failure
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", name, err, &failure)
	}
	return out, err
}

// Log returns the end of what the server has logged.
func (s *Server) Log() string {
	text, err := os.ReadFile(filepath.Join(s.Dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4096):])
}

// Kill ends the first process of the server by SIGKILL; the others end as they notice it.
func (s *Server) Kill() error { return s.end(syscall.SIGKILL) }

// Crash ends all processes of the server at once, without writing anything more.
func (s *Server) Crash() error { return s.end(syscall.SIGQUIT) }

// Stop ends the server in order.
func (s *Server) Stop() error { return s.end(syscall.SIGINT) }

func (s *Server) end(sig syscall.Signal) error {
	if s.cmd == nil {
		return nil
	}
	if err := s.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-s.ended:
		s.cmd = nil
		return nil
	case <-time.After(patience):
		return fmt.Errorf("the server does not end: %s", s.Log())
	}
}

// Remove ends the server and removes its files.
func (s *Server) Remove() error { return errors.Join(s.Stop(), os.RemoveAll(s.Dir)) }

// URL returns the URL of a database of the server.
func (s *Server) URL(database string) string { return URL(database, s) }

// URL returns the URL of a database that one of some servers has.
func URL(database string, servers ...*Server) string {
	var hosts, ports []string
	for _, s := range servers {
		hosts, ports = append(hosts, s.Dir), append(ports, "5432")
	}
	return fmt.Sprintf("postgres://drover@/%s?host=%s&port=%s", database, strings.Join(hosts, ","),
		strings.Join(ports, ","))
}

// Database makes a new database without anything in it and returns its URL. It stays as long as the server does.
func (s *Server) Database(tb testing.TB) string {
	tb.Helper()
	return s.copyOf(tb, "template0")
}

// Ready makes a new database like the one of the given name, which nobody is connected to, and returns its URL.
func (s *Server) Ready(tb testing.TB, template string) string {
	tb.Helper()
	return s.copyOf(tb, template)
}

func (s *Server) copyOf(tb testing.TB, template string) string {
	tb.Helper()
	name := fmt.Sprintf("test%d", s.count.Add(1))
	if err := s.Exec(fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s", name, template)); err != nil {
		tb.Fatal(err)
	}
	return s.URL(name)
}
