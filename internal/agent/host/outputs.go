package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"drover/internal/agent/inotify"
	"drover/internal/agent/launch"
)

const (
	// breath is the pause after a look that found no large output, so that many short lines cost few looks.
	breath = 5 * time.Millisecond
	// lookEvery is the interval between looks if the kernel cannot report which files grow.
	lookEvery = 500 * time.Millisecond
)

// TrimOutputs cuts the outputs that daemons wrote while no agent was running. A missing directory counts as empty.
func TrimOutputs(dir string) error {
	files, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, f := range files {
		err = errors.Join(err, launch.TrimFile(filepath.Join(dir, f.Name())))
	}
	return err
}

// boundOutputs cuts each output and ready file as soon as it is too large, until ctx ends: a writer may be fast, and
// the disk belongs to the agent. It costs nothing while nobody writes.
func (h *Host) boundOutputs(ctx context.Context) error {
	events, err := inotify.Open()
	if err == nil {
		defer events.Close()
		_, err = events.AddWrites(h.outputs)
	}
	if err == nil {
		_, err = events.AddWrites(h.signals)
	}
	if err != nil {
		h.log.Warn("truncating outputs at intervals only", "interval", lookEvery, "error", err)
		return h.trimAtIntervals(ctx)
	}
	stop := context.AfterFunc(ctx, events.Stop)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- h.trimOnChange(events) }()
	return <-ended
}

// trimOnChange is the body of the trimming thread, until the events stop. The thread must run before all writers: it
// has a higher priority if that is allowed, and it waits in the kernel and not for a processor of the Go runtime.
func (h *Host) trimOnChange(events *inotify.Events) error {
	runtime.LockOSThread() // the thread ends with its goroutine, and so does its priority
	inotify.PreferThread()
	h.trimAll()
	buffer := make([]byte, inotify.BufferSize)
	for {
		n, open, err := events.Read(buffer, -1)
		if err != nil {
			return fmt.Errorf("cannot watch outputs: %w", err)
		}
		if !open {
			return nil
		}
		if !h.trimChanged(inotify.Parse(buffer[:n])) {
			events.Pause(breath)
		}
	}
}

func (h *Host) trimAtIntervals(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		h.trimAll()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// trimChanged cuts the outputs and the ready files that the events name, and reports whether one of them was too large.
func (h *Host) trimChanged(events []inotify.Event) (cut bool) {
	seen := map[string]bool{}
	for _, e := range events {
		if e.Overflow {
			h.trimAll()
			return true
		}
		if e.Name != "" && !seen[e.Name] {
			seen[e.Name] = true
			cut = h.trimOutput(e.Name) || cut
			cut = h.cutSignal(e.Name) || cut
		}
	}
	return cut
}

func (h *Host) trimAll() {
	files, err := os.ReadDir(h.outputs)
	if err != nil {
		h.log.Warn("cannot list outputs", "error", err)
	}
	for _, f := range files {
		h.trimOutput(f.Name())
	}
	if files, err = os.ReadDir(h.signals); err != nil {
		h.log.Warn("cannot list ready files", "error", err)
	}
	for _, f := range files {
		h.cutSignal(f.Name())
	}
}

// trimOutput cuts the output of a run if it is too large, and reports whether it was.
func (h *Host) trimOutput(id string) (was bool) {
	h.mu.Lock()
	r := h.runs[id]
	h.mu.Unlock()
	path := filepath.Join(h.outputs, id)
	info, err := os.Lstat(path)
	if err != nil || launch.DiskUsage(info) <= launch.MaxOutput {
		return false
	}
	if r != nil && r.output != nil {
		err = r.output.Trim()
	} else {
		err = launch.TrimFile(path)
	}
	if err != nil && !errors.Is(err, os.ErrClosed) {
		h.log.Warn("cannot truncate output", "run", id, "error", err)
		return false
	}
	return true
}
