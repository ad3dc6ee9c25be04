package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	v1 "drover/api/v1"
	"drover/test/bench/lab"
)

// What each writer writes in bytes a second, and how long its log may become before it is rotated where it is.
const (
	pace    = 10_000
	rotated = 1 << 20
)

// writing measures what the logs of many writers cost the agent: with log files that are not full while it is looked,
// and with small ones, of which an equal share is full each second.
func (b *bench) writing(ctx context.Context) error {
	size := v1.Size(rotated)
	for _, row := range []struct {
		what string
		log  *v1.Log
	}{
		{"not rotated meanwhile", nil},
		{"rotated at 1 MiB, not compressed", &v1.Log{MaxSize: &size, Compress: new(false)}},
		{"rotated at 1 MiB, compressed", &v1.Log{MaxSize: &size}},
	} {
		if err := b.writingWith(ctx, row.what, row.log); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) writingWith(ctx context.Context, what string, log *v1.Log) error {
	b.arenas++
	name := fmt.Sprintf("writers-%d", b.arenas)
	s, err := b.side(name, b.Many, false)
	if err != nil {
		return err
	}
	defer s.end()
	for i := range s.specs {
		begin := 0
		if log != nil { // so that not all are full at the same time
			begin = i * rotated / b.Many
		}
		s.specs[i] = b.Spec(s.Stamps, s.specs[i].Name, false, "-w", strconv.Itoa(begin))
		s.specs[i].Log = log
	}
	server, err := b.Drover(ctx, name, false)
	if err != nil {
		return err
	}
	defer server.Close()
	if err := server.Start(s.specs...); err != nil {
		return fmt.Errorf("cannot start the writers: %w", err)
	}
	if _, err := s.Await(b.Many, lab.Patience); err != nil {
		return err
	}
	lab.Pause(10 * time.Second) // what follows a start is over then
	var writers []int
	for _, spec := range s.specs {
		writers = append(writers, s.PID(spec.Name))
	}
	before, began := lab.Written(writers), time.Now()
	use := lab.UseOf([]int{server.Agent.PID()}, b.Window)
	written := (lab.Written(writers) - before) / time.Since(began).Seconds() / float64(b.Many)
	if written < 0.9*pace {
		b.Note("%d writers, %s: they wrote only %s bytes a second each", b.Many, what, lab.Figure(written))
	}
	b.logs.Add(fmt.Sprint(b.Many), what, lab.Figure(use.Percent), lab.Figure(use.Wakeups), lab.Figure(use.PSS),
		"≤ 2 %", lab.YesNo(use.Percent <= 2))
	return nil
}
