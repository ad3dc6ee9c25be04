package liveness

import (
	"fmt"
	"os"
	"strings"
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

// Poke makes the loop look around.
func (w *Watcher) Poke() { w.interrupt() }

// Due makes the loop look for orphans after the events that it handles now.
func (w *Watcher) Due() { w.childDied.Store(true) }

// Pokes counts those that the loop has not taken note of yet.
func (w *Watcher) Pokes() (n int, err error) {
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", w.wake))
	if err != nil {
		return 0, err
	}
	_, count, _ := strings.Cut(string(info), "eventfd-count:")
	_, err = fmt.Sscanf(count, "%x", &n)
	return n, err
}
