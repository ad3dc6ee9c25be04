package main

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// startHog begins to use too much, or has a grandchild do so.
func (o *options) startHog() error {
	if !o.is(grandchild) {
		go o.hog()
		return nil
	}
	_, err := again(stageParent, os.Stdout, os.Stderr, nil)
	return err
}

// parent is the life of the process between the daemon and its grandchild.
func (o *options) parent() error {
	if _, err := again(stageHog, os.Stdout, os.Stderr, nil); err != nil {
		return err
	}
	return o.worker()
}

// spin is how long a hog is busy at a time. It rests for four times as long, for those who share the machine.
const spin = 10 * time.Millisecond

// hog uses too much for a time.
func (o *options) hog() {
	<-time.After(o.delay)
	var end <-chan time.Time
	if o.span > 0 {
		end = time.After(o.span)
	}
	if o.is(hogMem) {
		// Not from the heap, which would give it back in its own time.
		held, err := unix.Mmap(-1, 0, o.mb<<20, unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_POPULATE)
		if err != nil {
			fmt.Fprintln(os.Stderr, "oddd: no memory:", err)
			return
		}
		defer unix.Munmap(held) //nolint:errcheck // it is ours
	}
	if !o.is(hogCPU) {
		<-end
		return
	}
	for {
		select {
		case <-end:
			return
		case <-time.After(4 * spin):
		}
		for begun := time.Now(); time.Since(begun) < spin; { //nolint:revive // to spin is what it is for
		}
	}
}
