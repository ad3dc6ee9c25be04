package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// A process becomes a daemon by running itself twice: the first copy leads a new session, starts the second and exits,
// so that the second has no terminal, can't get one, and is a child of nobody it knows. Which copy one is says the
// environment, so that the command line stays what the user wrote.
const (
	stageVariable = "ODDD_STAGE"
	stageSession  = "session"
	stageDaemon   = "daemon"
	stageWorker   = "worker"
	stageParent   = "parent"
	stageHog      = "hog"
)

// readyFD is the write end of a pipe to the launcher; the daemon writes to it when its caller may go on.
const readyFD = 3

// launch starts the session leader and waits until the daemon says that it is ready.
func (o *options) launch() error {
	ready, tell, err := os.Pipe()
	if err != nil {
		return err
	}
	leader, err := again(stageSession, os.Stdout, os.Stderr, tell)
	if err != nil {
		return err
	}
	tell.Close()
	if state, err := leader.Wait(); err != nil || !state.Success() {
		return fmt.Errorf("cannot start session leader: %v, %w", state, err)
	}
	word, err := io.ReadAll(ready)
	if err != nil {
		return err
	}
	if len(word) == 0 {
		return errors.New("daemon ended before it was ready")
	}
	return nil
}

// startDaemon is what the session leader does.
func (o *options) startDaemon() error {
	out, errOut := os.Stdout, os.Stderr
	if !o.is(holdStdout) {
		null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		out, errOut = null, null
	}
	_, err := again(stageDaemon, out, errOut, os.NewFile(readyFD, "ready"))
	return err
}

// again runs this program once more as another stage, with the same arguments, an empty stdin and, if extra is not nil,
// that file as descriptor 3. Every stage but the daemon leads a session of its own.
func again(stage string, out, errOut, extra *os.File) (*os.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	files := []*os.File{null, out, errOut}
	if extra != nil {
		files = append(files, extra)
	}
	if err := os.Setenv(stageVariable, stage); err != nil {
		return nil, err
	}
	return os.StartProcess(self, os.Args, &os.ProcAttr{
		Files: files,
		Sys:   &syscall.SysProcAttr{Setsid: stage != stageDaemon},
	})
}
