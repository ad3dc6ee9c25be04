package main

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// daemon is the life of the daemon itself.
func (o *options) daemon() error {
	signals := make(chan os.Signal, 64)
	signal.Notify(signals, handled()...)
	if o.is(rename) {
		if err := renameTo(o.title); err != nil {
			return err
		}
	}
	if err := o.noteStart("start"); err != nil {
		return err
	}
	if err := o.publish(); err != nil {
		return err
	}
	children, err := o.startWorkers()
	if err != nil {
		return err
	}
	if o.is(hogCPU) || o.is(hogMem) {
		if err := o.startHog(); err != nil {
			return err
		}
	}
	return o.wait(signals, children)
}

// publish writes the pid file and lets the caller of the start command go on, in the order that the modes ask for.
func (o *options) publish() error {
	ready := os.NewFile(readyFD, "ready")
	defer ready.Close()
	if o.is(late) {
		if _, err := ready.WriteString("."); err != nil {
			return err
		}
		ready.Close()
		<-time.After(o.delay)
		return o.writePIDFile()
	}
	if err := o.writePIDFile(); err != nil {
		return err
	}
	_, err := ready.WriteString(".")
	return err
}

// wait serves signals until one of them, or a crash, ends the daemon.
func (o *options) wait(signals <-chan os.Signal, children []*os.Process) error {
	var crash, write <-chan time.Time
	if o.is(crashAfter) {
		crash = time.After(o.delay)
	}
	if o.is(holdStdout) {
		ticker := time.NewTicker(o.every)
		defer ticker.Stop()
		write = ticker.C
	}
	for {
		select {
		case <-crash:
			os.Exit(o.code)
		case now := <-write:
			// A closed pipe ends the daemon by SIGPIPE here, as it would end most others.
			fmt.Println(strings.Repeat("x", o.kib<<10)+"still here", now.UnixNano())
		case s := <-signals:
			if err := o.noteSignal(s); err != nil {
				return err
			}
			switch s {
			case syscall.SIGUSR1:
				if o.is(crashAtUSR) {
					os.Exit(o.code)
				}
			case syscall.SIGHUP:
				if err := appendLine(o.log, "reloaded"); err != nil {
					return err
				}
			case syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT:
				if o.is(ignoreTerm) {
					continue
				}
				stopWorkers(children)
				return o.removePIDFile()
			}
		}
	}
}

// handled are the signals that are noted. Those that the runtime or the kernel raises on its own account are not.
func handled() []os.Signal {
	return []os.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGCONT, syscall.SIGWINCH,
	}
}
