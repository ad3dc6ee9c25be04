package liveness

import (
	"syscall"
	"time"
)

// WithoutHandles makes the watcher find none, as on a kernel before 5.3.
func (w *Watcher) WithoutHandles() {
	w.open = func(int) (int, error) { return -1, syscall.ENOSYS }
}

// WithoutExitInfo makes the watcher believe in a kernel before 6.15.
func (w *Watcher) WithoutExitInfo() { w.tellsExit = false }

// TellsExit reports whether the exit status of strangers can be known here.
func (w *Watcher) TellsExit() bool { return w.tellsExit }

// SleepAtRest is how long the loop would sleep now, in milliseconds, if no child of ours had died.
func (w *Watcher) SleepAtRest() int { return w.timeout(false, time.Now(), time.Now()) }
