package main

import (
	"os"
	"os/signal"
	"syscall"
)

// startWorkers starts the children that the mode asks for. A session of their own takes them out of the daemon's
// process group, so that a signal to the group doesn't reach them.
func (o *options) startWorkers() ([]*os.Process, error) {
	if !o.is(workers) {
		return nil, nil
	}
	var children []*os.Process
	for range o.workers {
		child, err := again(stageWorker, os.Stdout, os.Stderr, nil)
		if err != nil {
			return nil, err
		}
		children = append(children, child)
	}
	return children, nil
}

// stopWorkers asks each child to end and waits for it. One that has ended already is fine.
func stopWorkers(children []*os.Process) {
	for _, c := range children {
		_ = c.Signal(syscall.SIGTERM)
		_, _ = c.Wait()
	}
}

// worker is the life of a child: it outlives the daemon unless it is told to end.
func (o *options) worker() error {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	if err := o.noteStart("worker"); err != nil {
		return err
	}
	<-end
	return nil
}
