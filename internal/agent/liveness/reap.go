package liveness

import (
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"drover/internal/agent/instance"
	"drover/internal/agent/pidfd"
)

// finished is the end of a target, with the watches that wait for it.
type finished struct {
	exit    Exit
	watches map[*watch]struct{}
}

// tell calls all watches. w.mu must not be held, because a callback may call the watcher.
func (e finished) tell() {
	for one := range e.watches {
		one.mu.Lock()
		if !one.done {
			one.done = true
			one.fn(e.exit)
		}
		one.mu.Unlock()
	}
}

// ended handles a target whose pidfd reports its end.
func (w *Watcher) ended(token uint64, now time.Time) { w.end(token, now).tell() }

// end ends a target whose pidfd reports its end. The result is empty while the exit status may still become known.
func (w *Watcher) end(token uint64, now time.Time) finished {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.tokens[token]
	if t == nil {
		return finished{}
	}
	fresh := t.ended.IsZero()
	if fresh {
		t.ended = now
	}
	exit, settled := w.settle(t, now)
	// Some kernels report the end too early when a thread replaces the program. An exit status is sufficient proof.
	if fresh && !exit.Known && w.fs.Same(t.id) {
		t.ended = time.Time{}
		return finished{}
	}
	if settled {
		return w.finish(t, exit)
	}
	// From now on only the reap wakes the loop: the end itself would wake it for ever.
	if err := unix.EpollCtl(w.epoll, unix.EPOLL_CTL_MOD, t.fd, event(0, t.token)); err != nil {
		return w.finish(t, exit)
	}
	w.timed[t] = struct{}{}
	return finished{}
}

// endTimed handles the targets without an event: those that waited long enough for their exit status and, if poll is
// set, those without a pidfd.
func (w *Watcher) endTimed(now time.Time, poll bool) {
	for _, e := range w.timedEndings(now, poll) {
		e.tell()
	}
}

func (w *Watcher) timedEndings(now time.Time, poll bool) (all []finished) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for t := range w.timed {
		switch {
		case !t.ended.IsZero() && now.Sub(t.ended) >= settleTime:
		case poll && t.fd < 0 && !w.fs.Same(t.id):
			t.ended = now
		default:
			continue
		}
		exit, _ := w.settle(t, now)
		all = append(all, w.finish(t, exit))
	}
	return all
}

// settle finds out how a target ended. It reports false while the exit status may still become known. The caller holds
// w.mu.
func (w *Watcher) settle(t *target, now time.Time) (Exit, bool) {
	unknown := Exit{At: t.ended}
	if t.fd < 0 {
		if end, ok := w.reapZombie(t.id); ok {
			return exitOf(end, t.ended), true
		}
		return unknown, true
	}
	end, err := pidfd.Reap(t.fd, t.id.PID)
	switch {
	case errors.Is(err, syscall.EINVAL):
		var ok bool
		if end, ok = w.reapZombie(t.id); !ok {
			return unknown, true
		}
		err = nil
	case errors.Is(err, syscall.ECHILD):
		if !w.tellsExit {
			return unknown, true
		}
		end.Status, err = pidfd.Exit(t.fd)
	}
	switch {
	case err == nil:
		return exitOf(end, t.ended), true
	case errors.Is(err, syscall.EAGAIN):
		// The parent, or for our own child a tracer, has not reaped the process yet.
		if now.Sub(t.ended) < settleTime {
			return unknown, false
		}
		if status, ok := w.fs.ZombieStatus(t.id); ok {
			return exitOf(pidfd.End{Status: status}, t.ended), true
		}
		return unknown, true
	default:
		return unknown, true
	}
}

// finish drops a target that has ended. The caller holds w.mu.
func (w *Watcher) finish(t *target, exit Exit) finished {
	w.remove(t)
	w.recent.put(t.id, exit)
	watches := t.watches
	t.watches = nil
	return finished{exit, watches}
}

// Exited returns how a process ended, if it was watched or was a child of ours, and not longer ago than some thousand
// others. A child that has ended and was never watched is reaped by the question.
func (w *Watcher) Exited(id instance.Identity) (Exit, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if exit, ok := w.recent.get(id); ok {
		return exit, true
	}
	if w.targets[id] != nil {
		return Exit{}, false
	}
	status, ok := w.reapZombie(id)
	if !ok {
		return Exit{}, false
	}
	exit := exitOf(status, time.Now())
	w.recent.put(id, exit)
	return exit, true
}

// ExitedLast returns the last one of the processes with that pid whose end Exited knows, and how it ended.
func (w *Watcher) ExitedLast(pid int) (last instance.Identity, exit Exit, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, e := range w.recent.exits {
		if id.PID == pid && (!ok || id.StartTicks > last.StartTicks) {
			last, exit, ok = id, e, true
		}
	}
	return last, exit, ok
}

// reapZombie reaps a child that has ended. The caller holds w.mu, so nobody else can reap the child, and the pid stays
// valid.
func (w *Watcher) reapZombie(id instance.Identity) (pidfd.End, bool) {
	boot, err := w.fs.BootID()
	if err != nil || boot != id.BootID {
		return pidfd.End{}, false
	}
	st, err := w.fs.Stat(id.PID)
	if err != nil || st.StartTicks != id.StartTicks || !st.Zombie() || st.PPID != os.Getpid() {
		return pidfd.End{}, false
	}
	end, err := pidfd.ReapPID(id.PID)
	return end, err == nil
}

// reapOrphans reaps every ended orphan and reports whether there was one.
func (w *Watcher) reapOrphans() bool {
	// Each thread has a list of its children, which takes longer to read.
	if ended, err := pidfd.ChildEnded(); err == nil && !ended {
		return false
	}
	pids, err := w.fs.OwnChildren()
	if err != nil {
		w.log.Error("cannot list own children", "error", err)
		return false
	}
	boot, err := w.fs.BootID()
	if err != nil {
		w.log.Error("cannot identify orphans", "error", err)
		return false
	}
	session, err := unix.Getsid(0)
	if err != nil {
		w.log.Error("cannot read own session", "error", err)
		return false
	}
	watched := w.watched()
	found := false
	for _, pid := range pids {
		// With a thousand daemons as children, a look at each would delay the news of every death by milliseconds.
		if !watched[pid] {
			found = w.reapOrphan(boot, pid, session) || found
		}
	}
	return found
}

// watched returns the pids of the targets that are not known to have ended: such a pid still belongs to its target,
// and not to an orphan.
func (w *Watcher) watched() map[int]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	pids := make(map[int]bool, len(w.targets))
	for id, t := range w.targets {
		if t.ended.IsZero() {
			pids[id.PID] = true
		}
	}
	return pids
}

func (w *Watcher) reapOrphan(boot string, pid, session int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	st, err := w.fs.Stat(pid)
	if err != nil || !st.Zombie() || st.Session == session {
		return false
	}
	id := instance.Identity{BootID: boot, PID: pid, StartTicks: st.StartTicks}
	if w.targets[id] != nil {
		return false
	}
	// A zombie keeps its pid until it is reaped, and nobody else reaps it while w.mu is held.
	end, err := pidfd.ReapPID(pid)
	if err != nil {
		return false
	}
	exit := exitOf(end, time.Now()) // the loop may have read the clock before this child began
	w.recent.put(id, exit)
	w.log.Debug("reaped orphan", "pid", pid, "name", st.Comm, "exit", exit.String())
	return true
}

// remembered is how many exits are kept for Exited.
const remembered = 4096

// exitCache keeps the latest exits.
type exitCache struct {
	exits map[instance.Identity]Exit
	ring  []instance.Identity
	next  int
}

func newExitCache() *exitCache { return &exitCache{exits: make(map[instance.Identity]Exit)} }

func (c *exitCache) put(id instance.Identity, exit Exit) {
	if _, ok := c.exits[id]; !ok {
		if len(c.ring) < remembered {
			c.ring = append(c.ring, id)
		} else {
			delete(c.exits, c.ring[c.next])
			c.ring[c.next] = id
			c.next = (c.next + 1) % remembered
		}
	}
	c.exits[id] = exit
}

func (c *exitCache) get(id instance.Identity) (Exit, bool) {
	exit, ok := c.exits[id]
	return exit, ok
}
