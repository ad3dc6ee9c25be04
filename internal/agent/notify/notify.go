// Package notify receives what processes say of themselves at NOTIFY_SOCKET, in the protocol of sd_notify(3). It owns
// the socket, finds out which run a sender belongs to, and keeps the last word of each run. It decides nothing and does
// not survive the agent: its caller records what must last.
package notify

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"drover/internal/agent/instance"
	"drover/internal/agent/procfs"
	"drover/internal/idle"
)

// Config is what a Listener needs.
type Config struct {
	// Path is where the socket is made, in a directory that every account of the host can enter; at most 103 bytes.
	Path string
	FS   procfs.FS
	// RunOf returns the run that the process at a pid was born in; empty if it was none of ours. The process may be a
	// zombie.
	RunOf func(pid int) string
	// Clock is the time since boot.
	Clock func() time.Duration
	// Backlog is the file of what processes say while no agent runs, in a directory of the agent's own; empty keeps
	// nothing. Gate returns the program that writes it: see package gate.
	Backlog string
	Gate    func() (*os.File, error)
	Log     *slog.Logger
}

// State is what a run has said so far. Times are since boot.
type State struct {
	// Ready says that the run has said READY=1.
	Ready bool
	// Reloading says that RELOADING=1 was not yet followed by READY=1. Reloads counts those that were.
	Reloading bool
	Reloads   int
	// Stopping says that the run has said STOPPING=1.
	Stopping bool
	// Status is the text of the last STATUS=, without control characters, at most maxStatus bytes. HasStatus says that
	// there was one.
	Status    string
	HasStatus bool
	// Main is the process of the last MAINPID=, which belongs to the run; the zero value if there was none.
	Main instance.Identity
	// Extended is until when the last EXTEND_TIMEOUT_USEC=, which came at ExtendedAt, asks to wait; 0 if there was
	// none. The caller bounds it.
	Extended, ExtendedAt time.Duration
	// Watchdog is when the last WATCHDOG=1 came, and not before this agent began to listen, nor before the end of a
	// time in which messages waited. Triggered says that the run has said WATCHDOG=trigger, and no WATCHDOG=1 after
	// that.
	Watchdog  time.Duration
	Triggered bool
}

const (
	// maxMessage is the longest message, in bytes, as for systemd. A longer one is ignored.
	maxMessage = 4096
	// deafAfter is how long messages may wait without a break before silence is no evidence: a healthy sender may be
	// among those that wait.
	deafAfter = 500 * time.Millisecond
	// atOnce is how many messages that nobody needs are read without a pause: as many as the kernel keeps.
	atOnce = 10
	// maxStatus bounds a status text, in bytes.
	maxStatus = 256
	// maxRuns bounds the runs with a word: without control groups a process can name a run that never was.
	maxRuns = 1 << 16
	// maxSenders bounds the senders that are known by their pid.
	maxSenders = 1 << 14
	// The pause after a message that nobody needs grows from rest to longRest while no other comes, so that a flood
	// cannot take the processor from the agent.
	rest, longRest = time.Millisecond, 16 * time.Millisecond
	// A run has freely burst messages, and perSecond more in each second.
	burst, perSecond = 100, 50
)

// Listener listens. It is safe for concurrent use.
type Listener struct {
	cfg Config
	// conn is the socket at the path, file the path's file.
	conn  *net.UnixConn
	file  os.FileInfo
	began time.Duration
	wake  chan struct{}
	// closing has an entry for each message whose descriptors are being closed.
	closing chan struct{}

	standIn sync.Mutex
	// agent is the end of a pipe that is open while this process lives; nil if there is no stand-in. stale says that
	// words of an earlier stand-in are still in its file.
	agent *os.File
	stale bool

	mu      sync.Mutex
	runs    map[string]*talk
	senders map[int]sender
	// news are the runs with a word that Heard has not returned yet.
	news    map[string]bool
	ignored int64
	// barriers are closed when the message of their name is read.
	barriers map[string]chan struct{}
	// busySince is since when messages wait without a break at a socket; it has no entry if none does. deafUntil is the
	// end of the last such time that was longer than deafAfter.
	busySince map[*net.UnixConn]time.Duration
	deafUntil time.Duration
}

// talk is one run.
type talk struct {
	state   State
	changed chan struct{}
	// left is how many messages the run may send without a pause at the time at.
	left float64
	at   time.Duration
}

// sender is a process whose run is known; run is empty for a stranger.
type sender struct {
	id  instance.Identity
	run string
}

// Open takes the socket of an earlier agent over from its stand-in, or makes another in its place. It takes in what
// processes have said meanwhile. Until Run, the kernel keeps a few messages, and the other senders wait. Open blocks
// for at most five seconds.
func Open(cfg Config) (*Listener, error) {
	k := &Listener{
		cfg: cfg, began: cfg.Clock(), wake: make(chan struct{}, 1), runs: map[string]*talk{},
		senders: map[int]sender{}, news: map[string]bool{}, barriers: map[string]chan struct{}{},
		busySince: map[*net.UnixConn]time.Duration{},
		closing:   make(chan struct{}, maxClosing),
	}
	failed := func(err error) (*Listener, error) {
		return nil, fmt.Errorf("cannot listen for notifications: %w", err)
	}
	if err := makeRoom(cfg.Path); err != nil {
		return failed(err)
	}
	inherited, err := k.inherit()
	if err != nil {
		cfg.Log.Info("processes that hold a connection to NOTIFY_SOCKET have to open another", "error", err)
	}
	var old *net.UnixConn
	if !inherited {
		// It leads to the old socket also after its path leads to the new one.
		if old, err = net.DialUnix("unixgram", nil, &net.UnixAddr{Name: cfg.Path, Net: "unixgram"}); err == nil {
			defer old.Close() //nolint:errcheck // nothing is kept in it
		}
		if k.conn, err = listen(cfg.Path); err != nil {
			return failed(err)
		}
	}
	if k.file, err = os.Lstat(cfg.Path); err != nil {
		return failed(errors.Join(err, k.conn.Close()))
	}
	if cfg.Backlog == "" {
		return k, nil
	}
	err = k.takeOver(old, inherited)
	if inherited {
		err = errors.Join(err, k.drain())
	}
	if err != nil {
		cfg.Log.Warn("what processes have said while no agent ran is lost", "error", err)
	}
	return k, nil
}

// Path is the value of NOTIFY_SOCKET.
func (l *Listener) Path() string { return l.cfg.Path }

// Close removes the socket, unless there is a stand-in: it then listens.
func (l *Listener) Close() error {
	l.standIn.Lock()
	defer l.standIn.Unlock()
	if l.agent != nil {
		return errors.Join(l.conn.Close(), l.agent.Close())
	}
	var err error
	if file, gone := os.Lstat(l.cfg.Path); gone == nil && os.SameFile(file, l.file) {
		err = os.Remove(l.cfg.Path)
	}
	return errors.Join(l.conn.Close(), err)
}

// Expect says that a run begins with a process. So the last words of that process count even if it has ended before
// they are read.
func (l *Listener) Expect(run string, first instance.Identity) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remember(sender{first, run})
}

// State returns what a run has said so far; changed is closed when it says more.
func (l *Listener) State(run string) (said State, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	deaf := l.deaf(l.cfg.Clock())
	t := l.talkOf(run)
	if t == nil {
		return State{Watchdog: max(l.began, deaf)}, nil
	}
	said = t.state
	said.Watchdog = max(said.Watchdog, deaf)
	return said, t.changed
}

// AwaitNotice waits for a run that has said something new, beside WATCHDOG=1, since it was returned last; false if ctx
// ends.
func (l *Listener) AwaitNotice(ctx context.Context) (run string, ok bool) {
	for {
		l.mu.Lock()
		for run := range l.news {
			delete(l.news, run)
			l.mu.Unlock()
			return run, true
		}
		l.mu.Unlock()
		select {
		case <-l.wake:
		case <-ctx.Done():
			return "", false
		}
	}
}

// Keep forgets the runs that are over, and what an earlier agent did not hear: the caller has recorded it.
func (l *Listener) Keep(lasts func(run string) bool) {
	if err := l.dropKept(); err != nil {
		l.cfg.Log.Warn("cannot drop old notifications", "error", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for run := range l.runs {
		if !lasts(run) {
			delete(l.runs, run)
			delete(l.news, run)
		}
	}
	for pid, s := range l.senders {
		if s.run == "" || !lasts(s.run) {
			delete(l.senders, pid)
		}
	}
}

// barrier begins a message of this process to itself.
const barrier = "DROVER_BARRIER="

func newBarrier() string { return barrier + rand.Text() }

// Settle waits until everything that was sent before is read, at most for the limit. It needs Run to be running.
func (l *Listener) Settle(limit time.Duration) {
	passed, name := make(chan struct{}), newBarrier()
	l.mu.Lock()
	l.barriers[name] = passed
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.barriers, name)
	}()
	end := time.Now().Add(limit)
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: l.cfg.Path, Net: "unixgram"})
	if err != nil {
		return
	}
	defer conn.Close() //nolint:errcheck // nothing is kept in it
	if conn.SetWriteDeadline(end) != nil {
		return
	}
	if _, err := conn.Write([]byte(name)); err != nil {
		return
	}
	left := time.NewTimer(time.Until(end))
	defer left.Stop()
	select {
	case <-passed:
	case <-left.C:
	}
}

// Ignored counts the messages that belong to no run, or are none.
func (l *Listener) Ignored() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ignored
}

// talkOf returns the entry of a run, which it makes; nil if there are too many. The caller holds the lock.
func (l *Listener) talkOf(run string) *talk {
	t := l.runs[run]
	if t == nil && len(l.runs) < maxRuns {
		t = &talk{
			state: State{Watchdog: l.began}, changed: make(chan struct{}), left: burst, at: l.cfg.Clock(),
		}
		l.runs[run] = t
	}
	return t
}

// remember notes the run of a sender. The caller holds the lock.
func (l *Listener) remember(s sender) {
	if len(l.senders) >= maxSenders {
		clear(l.senders) // they are found again
	}
	l.senders[s.id.PID] = s
}

// receive takes in one message. It reports whether the agent needs the message: a run may say only so much.
func (l *Listener) receive(message, control []byte, flags int) (needed bool) {
	pid, fds, _ := parseControl(control)
	defer l.discard(fds)
	if pid == os.Getpid() && l.pass(string(message)) {
		return true
	}
	if flags&unix.MSG_TRUNC != 0 || len(message) > maxMessage {
		pid = 0
	}
	s, ok := l.find(pid)
	return l.take(s, ok, message, l.cfg.Clock())
}

// discard closes the descriptors of a stranger, after their message is taken in: a sender with BARRIER=1 waits for
// that. To close a file may take as long as the stranger likes, so the reader waits for none of them until maxClosing
// do.
func (l *Listener) discard(fds []int) {
	if len(fds) == 0 {
		return
	}
	l.closing <- struct{}{}
	go func() { // nothing waits for it: it ends with this process at the latest
		defer func() { <-l.closing }()
		for _, fd := range fds {
			// A socket waits until its data is sent (SO_LINGER in socket(7)), unless it is told not to.
			_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{})
			unix.Close(fd) //nolint:errcheck // a stranger's descriptor
		}
	}()
}

// maxClosing bounds the messages whose descriptors are closed at the same time.
const maxClosing = 64

// maxWaiting bounds the messages that drain takes in.
const maxWaiting = 1000

// drain takes in the messages that wait in the socket.
func (l *Listener) drain() error {
	raw, err := l.conn.SyscallConn()
	if err != nil {
		return err
	}
	message, control := make([]byte, maxMessage+1), make([]byte, controlSize())
	return raw.Read(func(fd uintptr) bool {
		for range maxWaiting {
			n, c, flags, _, err := syscall.Recvmsg(int(fd), message, control, unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
			if err != nil {
				break // there is none
			}
			l.receive(message[:n], control[:c], flags)
		}
		return true
	})
}

// take takes in a message that was sent at a time since boot; known says that its sender belongs to a run. It reports
// whether the agent needs the message.
func (l *Listener) take(s sender, known bool, message []byte, at time.Duration) (needed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var t *talk
	if known {
		t = l.talkOf(s.run)
	}
	if t == nil {
		l.ignored++
		return false
	}
	words := read(message, at)
	if words.mainPID != 0 {
		main, err := l.cfg.FS.Identify(words.mainPID)
		if err == nil && main.StartedAfterBoot() <= at && l.cfg.RunOf(main.PID) == s.run && l.cfg.FS.Same(main) {
			words.main = main
		} else {
			l.ignored++
		}
	}
	before := t.state
	words.apply(&t.state)
	if t.state != before {
		close(t.changed)
		t.changed = make(chan struct{})
		if after := t.state; after.Triggered || !sameButWatchdog(before, after) {
			l.news[s.run] = true
			idle.Wake(l.wake)
		}
	}
	return t.spend(l.cfg.Clock())
}

// pass lets the caller of Settle go on that has sent this message.
func (l *Listener) pass(message string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	passed, ok := l.barriers[message]
	if ok {
		close(passed)
		delete(l.barriers, message)
	}
	return ok
}

// spend takes one message from the budget of the run.
func (t *talk) spend(now time.Duration) bool {
	t.left = min(t.left+(now-t.at).Seconds()*perSecond, burst)
	t.at = now
	if t.left < 1 {
		return false
	}
	t.left--
	return true
}

func sameButWatchdog(a, b State) bool {
	a.Watchdog, a.Triggered = b.Watchdog, b.Triggered
	return a == b
}

// find returns the sender at a pid, if it belongs to a run. The pid is the kernel's word.
func (l *Listener) find(pid int) (sender, bool) {
	if pid <= 1 {
		return sender{}, false
	}
	l.mu.Lock()
	s, known := l.senders[pid]
	l.mu.Unlock()
	id, err := l.identify(pid)
	if err != nil || known && s.id == id {
		return s, s.run != "" // after an error: it has ended since, and no other process has its pid
	}
	s = sender{id, l.cfg.RunOf(pid)}
	if after, err := l.identify(pid); err != nil || after != id {
		return sender{}, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remember(s)
	return s, s.run != ""
}

// identify returns the identity of the process at a pid. A sender may be a zombie already.
func (l *Listener) identify(pid int) (instance.Identity, error) {
	boot, err := l.cfg.FS.BootID()
	if err != nil {
		return instance.Identity{}, err
	}
	st, err := l.cfg.FS.Stat(pid)
	return instance.Identity{BootID: boot, PID: pid, StartTicks: st.StartTicks}, err
}
