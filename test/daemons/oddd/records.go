package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// writePIDFile writes the pid in one piece, so that nobody reads half of it.
func (o *options) writePIDFile() error {
	if o.pidfile == "" {
		return nil
	}
	temp := o.pidfile + ".new"
	if err := os.WriteFile(temp, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o644); err != nil {
		return err
	}
	return os.Rename(temp, o.pidfile)
}

func (o *options) removePIDFile() error {
	if o.pidfile == "" {
		return nil
	}
	if err := os.Remove(o.pidfile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (o *options) noteStart(what string) error {
	return appendLine(o.runlog, fmt.Sprintf("%s %d %d", what, os.Getpid(), time.Now().UnixNano()))
}

func (o *options) noteSignal(s os.Signal) error {
	name := s.String()
	if number, ok := s.(syscall.Signal); ok {
		name = unix.SignalName(number)
	}
	return appendLine(o.siglog, fmt.Sprintf("%s %d", name, os.Getpid()))
}

// appendLine adds a line in one write, so that lines of several processes don't mix. An empty path drops it.
func appendLine(path, line string) error {
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, f.Close())
}

// renameTo changes the name that the kernel keeps of the process, which is that of its first thread. (prctl would name
// whatever thread happens to run this.)
func renameTo(name string) error {
	return os.WriteFile("/proc/self/comm", []byte(name), 0)
}
