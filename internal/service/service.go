// Package service is what a program that runs for months owes to whoever has started it: output that blocks nothing of
// it, and a sign of life for systemd. It owns the two output streams of the program and its watchdog.
package service

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// flushTime is how long Close waits for the readers of the output.
const flushTime = 2 * time.Second

// Service is the program as its environment sees it. Nil is a program that nobody watches, without output. Its methods
// may be called from any goroutine and do not block, except Close.
type Service struct {
	out, err *Queue
	watchdog watchdog
	stop     context.CancelFunc
}

// New takes over the output streams and the watchdog. environment returns the value of a variable. Until the first
// Beat, and again after Hold, Service itself tells the watchdog that the program lives: a start may wait for long.
//
// A reader that goes away no longer ends the program: by default a write to a broken pipe does that on these streams.
func New(out, err io.Writer, environment func(name string) string) *Service {
	// Notify, not Ignore: what the program starts would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := context.WithCancel(context.Background())
	s := &Service{out: NewQueue(out), err: NewQueue(err), watchdog: openWatchdog(environment), stop: stop}
	go s.watchdog.hold(ctx)
	return s
}

// Out and Err are the output streams. A write never blocks and never fails.
func (s *Service) Out() *Queue { return s.out }

// Err is the stream of the log.
func (s *Service) Err() *Queue { return s.err }

// LostSince is when the first line was lost, in Unix milliseconds; 0 if none was.
func (s *Service) LostSince() int64 {
	if s == nil {
		return 0
	}
	out, err := s.out.lostSince(), s.err.lostSince()
	if out != 0 && out < err || err == 0 {
		return out
	}
	return err
}

// Lost is how many writes of the output, which are lines of the log, nobody has received.
func (s *Service) Lost() uint64 {
	if s == nil {
		return 0
	}
	return s.out.Lost() + s.err.Lost()
}

// Beat tells the watchdog that the loop of the caller lives. From the first call on, only such calls do.
func (s *Service) Beat() {
	if s != nil {
		s.watchdog.beat()
	}
}

// Hold takes the watchdog back from a loop that has ended in order.
func (s *Service) Hold() {
	if s != nil {
		s.watchdog.beating.Store(false)
	}
}

// Say writes the last words of a program, and gives up after two seconds.
func Say(to io.Writer, text string) {
	q := NewQueue(to)
	_, _ = io.WriteString(q, text) // it cannot fail
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	q.Close(ctx)
}

// Flush writes what is left, before another program takes the place of this one. It gives up after two seconds.
func (s *Service) Flush() {
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	s.out.flush(ctx)
	s.err.flush(ctx)
}

// Close writes what is left. It gives up after two seconds, because a reader may have stopped for good.
func (s *Service) Close() {
	s.stop()
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	s.out.Close(ctx)
	s.err.Close(ctx)
}
