package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	v1 "drover/api/v1"
	"drover/test/bench/lab"
)

// team is a supervisor at work.
type team struct {
	*supervisor
	*lab.Stamps
	f      *field
	dir    string
	units  []lab.Spec
	child  *lab.Child
	server *lab.Drover
}

// patience is how long a supervisor may take for what others do in seconds.
const patience = 60 * time.Second

// team makes a directory with the configuration of n units; the flags are those of the worker.
func (f *field) team(s *supervisor, n int, flags ...string) (*team, error) {
	f.teams++
	dir := filepath.Join(f.Dir, fmt.Sprintf("%d-%s", f.teams, strings.ReplaceAll(s.name, " ", "-")))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	stamps, err := lab.NewStamps(filepath.Join(dir, "stamps"))
	if err != nil {
		return nil, err
	}
	t := &team{supervisor: s, Stamps: stamps, f: f, dir: dir}
	for i := range n {
		t.units = append(t.units, f.Spec(stamps, fmt.Sprintf("w%d", i), s.daemons, flags...))
	}
	if s.configure != nil {
		err = s.configure(dir, t.units)
	}
	return t, err
}

// start starts the supervisor; drover is told what to run, as it is for the first time only.
func (t *team) start(ctx context.Context, again bool) error {
	var err error
	switch {
	case t.kind == theFloor:
		var floor *lab.Floor
		if floor, err = t.f.Floor(filepath.Base(t.dir), t.units, again); err == nil {
			t.child = floor.Child
		}
	case t.kind == drover && again:
		err = t.server.StartAgent()
	case t.kind == drover:
		if t.server, err = t.f.Drover(ctx, filepath.Base(t.dir), false); err == nil {
			_, err = t.server.Apply(t.units...)
		}
	default:
		cmd := t.command(t.run(t.dir))
		if t.isolated {
			cmd.SysProcAttr = &syscall.SysProcAttr{
				Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS,
			}
		}
		t.child, err = lab.Start(cmd, filepath.Join(t.dir, "output"))
		if err != nil {
			return err
		}
		if t.pidFile != "" {
			<-t.child.Ended()
		}
		if t.isolated {
			t.Within(t.child.PID())
			err = os.WriteFile(filepath.Join(t.dir, "pid"), []byte(strconv.Itoa(t.child.PID())), 0o600)
		}
	}
	return err
}

func (t *team) command(words []string) *exec.Cmd {
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = os.Environ()
	if t.env != nil {
		cmd.Env = append(cmd.Env, t.env(t.dir)...)
	}
	return cmd
}

// root is the pid of the supervisor, 0 while there is none.
func (t *team) root() int {
	switch {
	case t.server != nil:
		return t.server.Agent.PID()
	case t.pidFile != "":
		data, _ := os.ReadFile(filepath.Join(t.dir, t.pidFile)) // then it is not there
		pid, _ := strconv.Atoi(strings.TrimSpace(string(data))) // then it is not there
		return pid
	default:
		return t.child.PID()
	}
}

// typed runs what a user types and returns how long that took, in milliseconds.
func (t *team) typed(words []string) (float64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Env = t.command(words).Env
	if t.server != nil {
		cmd.Env = t.server.Environment()
	}
	cmd.Stdout, cmd.Stderr = io.Discard, io.Discard
	began := time.Now()
	err := cmd.Run()
	return float64(time.Since(began)) / float64(time.Millisecond), err
}

// The command line of drover.
func (t *team) drover(words ...string) []string {
	return append([]string{filepath.Join(t.f.Bin, "drover")}, words...)
}

func (t *team) statusOfAll() (float64, error) {
	switch {
	case t.kind == theFloor:
		return 0, errNone
	case t.server != nil:
		return t.typed(t.drover("ps"))
	default:
		return t.typed(t.status(t.dir, t.units))
	}
}

func (t *team) restartOne(u lab.Spec) (float64, error) {
	switch {
	case t.kind == theFloor:
		return 0, errNone
	case t.server != nil:
		return t.typed(t.drover("restart", lab.Namespace+"/"+u.Name))
	default:
		return t.typed(t.restart(t.dir, u))
	}
}

// stopAll stops all and returns after how many milliseconds the last one was gone.
func (t *team) stopAll() (float64, error) {
	began := time.Now()
	var err error
	switch {
	case t.kind == theFloor:
		return 0, errNone
	case t.server != nil:
		_, err = t.server.Begin(v1.OpStop, t.units...)
	default:
		go t.typed(t.stop(t.dir, t.units)) //nolint:errcheck // whether they are gone is looked at
	}
	if err == nil {
		err = lab.Eventually("all to stop", patience, func() bool { return t.alive() == 0 })
	}
	return float64(time.Since(began)) / float64(time.Millisecond), err
}

// alive counts the workers that run.
func (t *team) alive() int {
	_, _ = t.Taken() // what was started since
	n := 0
	for _, u := range t.units {
		if running(t.PID(u.Name)) {
			n++
		}
	}
	return n
}

func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return rest != "" && rest[0] != 'Z' && rest[0] != 'X'
}

// end ends the supervisor and all workers, those too that it starts in between.
func (t *team) end() {
	if t.server != nil {
		t.server.Close()
	} else if t.child != nil {
		for range 2 {
			for _, pid := range lab.Tree(t.root()) {
				_ = lab.Signal(pid, syscall.SIGKILL) // it may have ended
			}
		}
	}
	for range 3 {
		for _, pid := range t.workers() {
			_ = lab.Signal(pid, syscall.SIGKILL) // it may have ended
		}
		lab.Pause(20 * time.Millisecond)
	}
	if t.tidy != nil {
		t.child.End(syscall.SIGKILL) // with it, all of its namespace has ended
		if _, err := t.typed(t.tidy(t.dir)); err != nil {
			t.f.Note("%s has left control groups: %v", t.name, err)
		}
	}
	t.Close()
}

// workers returns the processes that note their starts in the file of this team, whoever supervises them.
func (t *team) workers() []int {
	var pids []int
	dirs, _ := filepath.Glob("/proc/[0-9]*") // the pattern is right
	for _, dir := range dirs {
		line, err := os.ReadFile(dir + "/cmdline")
		if err == nil && strings.HasPrefix(string(line), t.f.Worker) && strings.Contains(string(line), t.Path+"\x00") {
			pid, _ := strconv.Atoi(filepath.Base(dir)) // it is a number
			pids = append(pids, pid)
		}
	}
	return pids
}
