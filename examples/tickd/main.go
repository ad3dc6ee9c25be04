// Tickd is a small daemon to try a process manager on. It writes a line to its log every few seconds, keeps its pid in
// a file, and does what a daemon should:
//
//	tickd start  [-dir DIR]    goes to the background; returns once the pid file is written
//	tickd stop   [-dir DIR]    ends it and waits until it is gone
//	tickd reload [-dir DIR]    has it read tickd.conf (the seconds between two lines) and open its log again
//
// DIR, by default the working directory, holds tickd.pid, tickd.log and, if you like, tickd.conf.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	defaultEvery = 5 * time.Second
	stopWithin   = 5 * time.Second
	stage        = "TICKD_STAGE" // which of the copies of itself on its way to the background this one is
	readyFD      = 3             // where the daemon tells the start command that it is up
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "tickd:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("usage: tickd start|stop|reload [-dir DIR]")
	}
	f := flag.NewFlagSet("tickd "+args[0], flag.ContinueOnError)
	dir := f.String("dir", ".", "directory of the pid file, the log and the configuration")
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	d := daemon{dir: *dir}
	switch args[0] {
	case "start":
		return d.start(os.Getenv(stage))
	case "stop":
		return d.stop()
	case "reload":
		p, err := d.find()
		if err != nil {
			return err
		}
		return p.Signal(syscall.SIGHUP)
	}
	return fmt.Errorf("unknown command %q: expected start, stop or reload", args[0])
}

// daemon is tickd in one directory.
type daemon struct{ dir string }

func (d daemon) path(name string) string { return filepath.Join(d.dir, name) }

// start runs itself twice: the first copy leads a new session and starts the second, which is the daemon and belongs to
// no terminal.
func (d daemon) start(at string) error {
	switch at {
	case "leader":
		_, err := again("daemon", false, os.NewFile(readyFD, "ready"))
		return err
	case "daemon":
		return d.serve()
	}
	if p, err := d.find(); err == nil {
		return fmt.Errorf("already running as pid %d", p.Pid)
	}
	ready, tell, err := os.Pipe()
	if err != nil {
		return err
	}
	leader, err := again("leader", true, tell)
	if err != nil {
		return err
	}
	tell.Close()
	if _, err := leader.Wait(); err != nil {
		return err
	}
	if word, err := io.ReadAll(ready); err != nil || len(word) == 0 {
		return fmt.Errorf("daemon did not come up; see %s", d.path("tickd.log"))
	}
	return nil
}

func again(at string, newSession bool, ready *os.File) (*os.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	if err := os.Setenv(stage, at); err != nil {
		return nil, err
	}
	return os.StartProcess(self, os.Args, &os.ProcAttr{
		Files: []*os.File{null, null, null, ready},
		Sys:   &syscall.SysProcAttr{Setsid: newSession},
	})
}

// serve is the daemon: it ticks until SIGTERM or SIGINT.
func (d daemon) serve() error {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGTERM, syscall.SIGINT)
	out, log, err := d.openLog()
	if err != nil {
		return err
	}
	defer func() { out.Close() }()
	pid := d.path("tickd.pid")
	if err := os.WriteFile(pid, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o644); err != nil {
		return err
	}
	ready := os.NewFile(readyFD, "ready")
	if _, err := ready.WriteString("."); err != nil {
		return err
	}
	ready.Close()

	every := d.every(log)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	log.Info("tickd started", "pid", os.Getpid(), "every", every)
	for ticks := 1; ; {
		select {
		case <-ticker.C:
			log.Info("tick", "number", ticks)
			ticks++
		case s := <-signals:
			if s != syscall.SIGHUP {
				log.Info("tickd stopped", "signal", s.String())
				return os.Remove(pid)
			}
			// The log may have been moved away; what can't be opened is no reason to end.
			if newOut, newLog, err := d.openLog(); err == nil {
				out.Close()
				out, log = newOut, newLog
			}
			every = d.every(log)
			ticker.Reset(every)
			log.Info("tickd reloaded", "every", every)
		}
	}
}

func (d daemon) openLog() (*os.File, *slog.Logger, error) {
	f, err := os.OpenFile(d.path("tickd.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, nil, err
	}
	return f, slog.New(slog.NewTextHandler(f, nil)), nil
}

// every reads how many seconds lie between two ticks.
func (d daemon) every(log *slog.Logger) time.Duration {
	text, err := os.ReadFile(d.path("tickd.conf"))
	if errors.Is(err, os.ErrNotExist) {
		return defaultEvery
	}
	seconds, parseErr := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
	if err := errors.Join(err, parseErr); err != nil || !(seconds >= 0.01 && seconds <= 86400) {
		log.Warn("tickd.conf was ignored: expected a number of seconds", "error", err)
		return defaultEvery
	}
	return time.Duration(seconds * float64(time.Second))
}

// find returns the running daemon. A pid that belongs to another program by now is not it.
func (d daemon) find() (*os.Process, error) {
	text, err := os.ReadFile(d.path("tickd.pid"))
	if err != nil {
		return nil, fmt.Errorf("not running: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid <= 1 {
		return nil, fmt.Errorf("not running: %s holds no pid", d.path("tickd.pid"))
	}
	p, err := os.FindProcess(pid) // holds on to this very process, so that the pid can't change hands below
	if err != nil {
		return nil, err
	}
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil || strings.TrimSpace(string(comm)) != "tickd" || p.Signal(syscall.Signal(0)) != nil {
		return nil, fmt.Errorf("not running: pid %d is gone", pid)
	}
	return p, nil
}

func (d daemon) stop() error {
	p, err := d.find()
	if err != nil {
		return err
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	for deadline := time.Now().Add(stopWithin); time.Now().Before(deadline); {
		if p.Signal(syscall.Signal(0)) != nil {
			return nil
		}
		<-time.After(20 * time.Millisecond)
	}
	return fmt.Errorf("pid %d is still running after %v", p.Pid, stopWithin)
}
