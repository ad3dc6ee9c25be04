package notify

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"drover/internal/agent/launch/gate"
	"drover/internal/agent/pidfd"
)

// standInName is the name of the stand-in in the list of processes, which has room for 15 bytes.
const standInName = "drover-stand-in"

// silence is how long the stand-in waits for a message. It is in the socket's options.
const silence = time.Hour

// A record of the stand-in is the control messages of a message, and the message or its beginning. Both end with zeros.
const (
	controlLength = 64
	textLength    = 512
	recordLength  = controlLength + textLength
)

// maxKept bounds the file of the stand-in, in bytes: 16 MiB. At the bound the stand-in ends, because a sender that is
// refused goes on, and one whose message nobody reads does not.
const maxKept = recordLength * maxMessages

// maxMessages bounds the messages that the stand-in keeps.
const maxMessages = 29_000

// takeoverTime bounds the wait for the stand-in of an earlier agent.
const takeoverTime = time.Second

// The descriptors of a stand-in.
const (
	scriptAt, keptAt, socketAt, agentAt, programAt = 0, 1, 3, 4, 5
)

// StandIn makes sure that somebody listens while no agent runs: a process that waits for the end of this one, and then
// writes what it hears to the file of Config.Kept. It does nothing if there is such a process already.
func (l *Listener) StandIn() error {
	l.standIn.Lock()
	defer l.standIn.Unlock()
	return l.standInLocked()
}

// moveStandIn has the stand-in, if there is one, listen at the new socket. The caller holds the lock.
func (l *Listener) moveStandIn() error {
	if l.agent == nil {
		return nil
	}
	kept, err := l.openOld()
	if kept != nil {
		defer kept.Close() //nolint:errcheck // nothing was written
		if pid := standsIn(kept); pid != 0 {
			err = l.relieve(kept, nil, pid)
		}
	}
	err = errors.Join(err, l.agent.Close())
	l.agent = nil
	return errors.Join(err, l.standInLocked())
}

// standInLocked is StandIn for a caller who holds the lock.
func (l *Listener) standInLocked() error {
	if l.agent != nil || l.cfg.Backlog == "" {
		return nil
	}
	agent, err := l.fork()
	if err != nil {
		return fmt.Errorf("cannot keep notifications while no agent runs: %w", err)
	}
	l.agent = agent
	return nil
}

// fork starts the stand-in. It returns the end of a pipe that the stand-in waits for.
func (l *Listener) fork() (agent *os.File, err error) {
	kept, err := openKept(l.cfg.Backlog)
	if err != nil {
		return nil, err
	}
	defer kept.Close() //nolint:errcheck // every write was checked
	info, err := kept.Stat()
	if err == nil { // a full disk may have cut the last record short
		err = kept.Truncate(info.Size() / recordLength * recordLength)
	}
	if err != nil {
		return nil, err
	}
	program, err := l.cfg.Gate()
	if err != nil {
		return nil, err
	}
	script, err := standInScript()
	if err != nil {
		return nil, err
	}
	defer script.Close() //nolint:errcheck // the stand-in has its own
	wait, agent, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer wait.Close() //nolint:errcheck // as above
	// Fd makes the pipe blocking: the stand-in has to wait.
	files := []uintptr{
		scriptAt: script.Fd(), keptAt: kept.Fd(), 2: ^uintptr(0), agentAt: wait.Fd(), programAt: program.Fd(),
	}
	raw, err := l.conn.SyscallConn()
	if err == nil {
		err = errors.Join(raw.Control(func(fd uintptr) {
			files[socketAt] = fd
			// A session of its own makes it an orphan, which the agent reaps.
			attr := &syscall.ProcAttr{Dir: "/", Files: files, Sys: &syscall.SysProcAttr{Setsid: true}}
			_, err = syscall.ForkExec(gate.Path(programAt), []string{standInName}, attr)
		}), err)
	}
	if err == nil { // once it has the lock, the next agent finds it
		err = await(func() bool { return standsIn(kept) != 0 })
	}
	if err != nil {
		return nil, errors.Join(err, agent.Close())
	}
	return agent, nil
}

// standInScript returns the file with the script of the stand-in. The script ends with a call that executes it again,
// so each round has memory without a trace of the last.
func standInScript() (*os.File, error) {
	var s gate.Script
	text, record := s.Text(standInName), gate.Room(recordLength)
	word := func(values ...uint64) gate.Argument {
		var b []byte
		for _, v := range values {
			b = binary.NativeEndian.AppendUint64(b, v)
		}
		return s.Bytes(b)
	}
	s.May(unix.SYS_PRCTL, gate.Number(unix.PR_SET_NAME), text)
	const anyProcess = -1 // PR_SET_PTRACER_ANY
	// Where Yama guards processes (ptrace_scope), an agent that is not root may take the socket only with this.
	s.May(unix.SYS_PRCTL, gate.Number(unix.PR_SET_PTRACER), gate.Number(anyProcess))
	// The lock tells the next agent who stands in. A second one would be one too many.
	const wholeFile, lockSize = 0, 4
	lock := word(uint64(unix.F_WRLCK)|uint64(unix.SEEK_SET)<<16, wholeFile, wholeFile, 0)
	s.Must("", gate.NoError, unix.SYS_FCNTL, gate.Number(keptAt), gate.Number(unix.F_SETLK), lock)
	const ignore, maskSize = 1, 8 // without it, the bound ends the stand-in with a core
	s.May(unix.SYS_RT_SIGACTION, gate.Number(int(unix.SIGXFSZ)), word(ignore, 0, 0, 0), gate.Number(0),
		gate.Number(maskSize))
	s.Must("", gate.NoError, unix.SYS_PRLIMIT64, gate.Number(0), gate.Number(unix.RLIMIT_FSIZE),
		word(maxKept, maxKept), gate.Number(0))
	s.May(unix.SYS_READ, gate.Number(agentAt), gate.Room(recordLength), gate.Number(1))
	s.Must("", gate.NoError, unix.SYS_FCNTL, gate.Number(socketAt), gate.Number(unix.F_SETFL), gate.Number(0))
	// The pieces of a struct msghdr (recvmsg(2)).
	const atVector, atVectors, atControl, atControlLength = 2, 3, 4, 5
	header, vector := word(0, 0, 0, 1, 0, controlLength, 0), word(0, textLength)
	s.Put(vector, record.Plus(controlLength))
	s.Put(header.Plus(atVector*8), vector)
	s.Put(header.Plus(atControl*8), record)
	// The message leaves the socket once it is in the file: the next agent may end the stand-in between the two.
	s.Must("", gate.NoError, unix.SYS_RECVMSG, gate.Number(socketAt), header, gate.Number(unix.MSG_PEEK))
	s.Must("", recordLength, unix.SYS_WRITE, gate.Number(keptAt), record, gate.Number(recordLength))
	s.May(unix.SYS_RECVMSG, gate.Number(socketAt), header, gate.Number(unix.MSG_DONTWAIT))
	s.May(unix.SYS_LSEEK, gate.Number(scriptAt), gate.Number(0), gate.Number(unix.SEEK_SET))
	s.May(unix.SYS_EXECVE, s.Text(gate.Path(programAt)), gate.Vector(0), gate.Environment(1))
	s.Exit(gate.UnrunStatus)
	code, err := s.Encode()
	if err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate(standInName, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	file := os.NewFile(uintptr(fd), standInName)
	if _, err := file.WriteAt(code, 0); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

func openKept(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
}

// standsIn returns the pid of the process that has locked a file; 0 for none.
func standsIn(kept *os.File) int {
	lock := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(kept.Fd(), unix.F_GETLK, &lock); err != nil || lock.Type == unix.F_UNLCK {
		return 0
	}
	return int(lock.Pid)
}

// inherit takes the socket of an earlier agent from its stand-in, and ends the stand-in. So a process keeps its
// connection to the socket. inherited is false if there is no stand-in, or if the path leads nowhere.
func (l *Listener) inherit() (inherited bool, err error) {
	kept, err := l.openOld()
	if kept == nil || err != nil {
		return false, err
	}
	defer kept.Close() //nolint:errcheck // nothing was written
	pid := standsIn(kept)
	if _, err := os.Lstat(l.cfg.Path); pid == 0 || err != nil {
		return false, nil //nolint:nilerr // no sender finds the socket
	}
	holder, err := pidfd.Open(pid)
	if err != nil {
		return false, err
	}
	defer unix.Close(holder) //nolint:errcheck // nothing was written
	if standsIn(kept) != pid {
		return false, nil
	}
	fd, err := unix.PidfdGetfd(holder, socketAt, 0)
	if err != nil {
		return false, os.NewSyscallError("pidfd_getfd", err)
	}
	socket := os.NewFile(uintptr(fd), l.cfg.Path)
	defer socket.Close() //nolint:errcheck // the connection has a descriptor of its own
	if err := l.relieve(kept, nil, pid); err != nil {
		return false, err
	}
	if l.conn, err = connection(socket); err != nil {
		return false, err
	}
	return true, nil
}

// openOld opens the file of an earlier stand-in; nil if there is none.
func (l *Listener) openOld() (*os.File, error) {
	if l.cfg.Backlog == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	kept, err := os.OpenFile(l.cfg.Backlog, os.O_RDWR|os.O_APPEND|unix.O_NOFOLLOW, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil //nolint:nilnil // as above
	}
	return kept, err
}

// takeOver takes in all that is kept. If an earlier stand-in still listens at the old socket, which nobody finds any
// more, takeOver ends the stand-in once it has written what was sent there. It starts a stand-in of its own in place of
// the other, which may have been relieved before.
func (l *Listener) takeOver(old *net.UnixConn, relieved bool) error {
	kept, err := l.openOld()
	if kept == nil || err != nil {
		return err
	}
	defer kept.Close() //nolint:errcheck // every write was checked
	pid := standsIn(kept)
	if pid != 0 {
		err = l.relieve(kept, old, pid)
	}
	text, readErr := io.ReadAll(io.NewSectionReader(kept, 0, maxKept))
	if err := errors.Join(err, readErr); err != nil {
		return err
	}
	for record := range slices.Chunk(text, recordLength) {
		if len(record) == recordLength {
			l.recall(record)
		}
	}
	l.stale = len(text) > 0
	if pid == 0 && !relieved {
		return nil
	}
	return l.StandIn()
}

// relieve ends a stand-in. With a connection to the old socket it first waits until all that was sent there is kept.
func (l *Listener) relieve(kept *os.File, old *net.UnixConn, pid int) error {
	if old != nil {
		last := []byte(newBarrier())
		err := old.SetWriteDeadline(time.Now().Add(takeoverTime))
		if err == nil {
			_, err = old.Write(last)
		}
		if err == nil {
			err = await(func() bool {
				info, err := kept.Stat()
				if err != nil {
					return false
				}
				from := max(0, min(info.Size(), maxKept)-2*recordLength)
				text, err := io.ReadAll(io.NewSectionReader(kept, from, 2*recordLength))
				return err == nil && bytes.Contains(text, last)
			})
		}
		if err != nil {
			l.cfg.Log.Warn("some notifications may be lost", "error", err)
		}
	}
	err := pidfd.Signal(pid, syscall.SIGKILL, func() bool { return standsIn(kept) == pid })
	if err != nil && !errors.Is(err, os.ErrProcessDone) && !errors.Is(err, pidfd.ErrStranger) {
		return err
	}
	if err := await(func() bool { return standsIn(kept) == 0 }); err != nil {
		return fmt.Errorf("pid %d still stands in for an earlier agent: %w", pid, err)
	}
	return nil
}

// await waits until a condition holds, at most for takeoverTime.
func await(holds func() bool) error {
	tick, limit := time.NewTicker(time.Millisecond), time.NewTimer(takeoverTime)
	defer tick.Stop()
	defer limit.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-limit.C:
			return os.ErrDeadlineExceeded
		}
	}
	return nil
}

// recall takes in a message that the stand-in has written.
func (l *Listener) recall(record []byte) {
	pid, _, sent := parseControl(record[:controlLength])
	message := bytes.TrimRight(record[controlLength:], "\x00")
	if len(message) == textLength { // it was longer, and its last line may not be whole
		message = message[:bytes.LastIndexByte(message, '\n')+1]
	}
	if bytes.HasPrefix(message, []byte(barrier)) {
		return
	}
	// The wall clock may have been set since. Then the time is wrong by as much.
	at := time.Until(sent) + l.cfg.Clock()
	s, ok := l.find(pid)
	// A process that began later has the pid of the sender, and no more.
	l.take(s, ok && s.id.StartedAfterBoot() <= at, message, at)
}

// dropKept empties the file of the stand-in, whose words the caller has recorded.
func (l *Listener) dropKept() error {
	l.standIn.Lock()
	defer l.standIn.Unlock()
	if !l.stale {
		return nil
	}
	l.stale = false
	return os.Truncate(l.cfg.Backlog, 0)
}
