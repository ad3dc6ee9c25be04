package notify

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"drover/internal/idle"
)

// makeRoom makes the directory of the socket.
func makeRoom(path string) error {
	return os.MkdirAll(filepath.Dir(path), 0o755) //nolint:gosec // every account may send
}

// listen makes a datagram socket that tells who has sent a message, and when. It takes its path over at once: there is
// no moment without a socket.
func listen(path string) (*net.UnixConn, error) {
	next := path + ".new"
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	conn, err := bind(next)
	if err != nil {
		return nil, err
	}
	err = os.Chmod(next, 0o666) //nolint:gosec // every account may send
	if err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

func bind(path string) (*net.UnixConn, error) {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close() //nolint:errcheck // the connection has a descriptor of its own
	// Before bind: a message that comes before an option is set has no sender, or no time.
	for _, option := range []int{syscall.SO_PASSCRED, syscall.SO_TIMESTAMP} {
		if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, option, 1); err != nil {
			return nil, os.NewSyscallError("setsockopt", err)
		}
	}
	limit := syscall.NsecToTimeval(int64(silence))
	if err := syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &limit); err != nil {
		return nil, os.NewSyscallError("setsockopt", err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}); err != nil {
		return nil, fmt.Errorf("%s: %w", path, os.NewSyscallError("bind", err))
	}
	return connection(file)
}

// connection returns a connection with a descriptor of its own.
func connection(file *os.File) (*net.UnixConn, error) {
	conn, err := net.FilePacketConn(file)
	own, _ := conn.(*net.UnixConn)
	return own, err
}

// lookEvery is how often Run looks for the file of the socket. maxFormer bounds the sockets whose file is gone.
const (
	lookEvery = 2 * time.Second
	maxFormer = 8
)

// Run receives until ctx ends. It listens again if somebody has removed or replaced the file of the socket. A process
// that is connected to a former socket is heard there while this agent lives and keeps the socket.
func (l *Listener) Run(ctx context.Context) error {
	ears, ctx := errgroup.WithContext(ctx)
	first := l.conn
	open := []*net.UnixConn{first}
	ears.Go(func() error { return l.hear(ctx, first) })
	ears.Go(func() error {
		for told := false; idle.Sleep(ctx, lookEvery); {
			next, err := l.listenAgain()
			if err != nil && !told {
				l.cfg.Log.Error("cannot listen for notifications", "error", err)
			}
			told = err != nil
			if next == nil {
				continue
			}
			ears.Go(func() error { return l.hear(ctx, next) })
			if open = append(open, next); len(open) > maxFormer {
				_ = open[0].Close() // who speaks there has to connect again
				open = open[1:]
			}
		}
		return nil
	})
	err := ears.Wait()
	for _, former := range open[:len(open)-1] {
		_ = former.Close() // nobody finds it
	}
	return err
}

// listenAgain returns a new socket at the path if somebody has removed or replaced the file of the last one; nil if
// not.
func (l *Listener) listenAgain() (next *net.UnixConn, err error) {
	l.standIn.Lock()
	defer l.standIn.Unlock()
	if file, err := os.Lstat(l.cfg.Path); err == nil && os.SameFile(file, l.file) {
		return nil, nil //nolint:nilnil // there is none
	}
	if err := makeRoom(l.cfg.Path); err != nil {
		return nil, err
	}
	if next, err = listen(l.cfg.Path); err != nil {
		return nil, err
	}
	file, err := os.Lstat(l.cfg.Path)
	if err != nil {
		return nil, errors.Join(err, next.Close())
	}
	l.cfg.Log.Warn("somebody has removed the socket for notifications: listening again", "path", l.cfg.Path)
	l.conn, l.file = next, file
	return next, l.moveStandIn()
}

// hear receives from a socket until ctx ends, or until the socket is closed.
func (l *Listener) hear(ctx context.Context, conn *net.UnixConn) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	defer l.waits(conn, false)
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	pause := time.NewTimer(rest)
	defer pause.Stop()
	tired, needless := rest, 0
	message, control := make([]byte, maxMessage+1), make([]byte, controlSize())
	for {
		var n, c, flags int
		var failed error
		err := raw.Read(func(fd uintptr) bool {
			n, c, flags, _, failed = syscall.Recvmsg(int(fd), message, control, unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC) //nolint:gosec // descriptors are small
			waits := !errors.Is(failed, unix.EAGAIN)
			l.waits(conn, waits)
			return waits
		})
		switch {
		case ctx.Err() != nil, errors.Is(err, net.ErrClosed):
			return nil
		case errors.Is(failed, unix.EINTR):
			continue
		case err != nil || failed != nil:
			return fmt.Errorf("cannot receive notifications: %w", errors.Join(err, failed))
		}
		if l.receive(message[:n], control[:c], flags) {
			tired, needless = rest, 0
			continue
		}
		if needless++; needless%atOnce != 0 {
			continue
		}
		pause.Reset(tired)
		tired = min(2*tired, longRest)
		select {
		case <-pause.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// deaf returns until when silence is no evidence. The caller holds the lock.
func (l *Listener) deaf(now time.Duration) time.Duration {
	for _, since := range l.busySince {
		if now-since >= deafAfter {
			l.deafUntil = now
		}
	}
	return l.deafUntil
}

// waits notes whether a message waits at a socket.
func (l *Listener) waits(conn *net.UnixConn, waits bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.cfg.Clock()
	if !waits {
		l.deaf(now)
		delete(l.busySince, conn)
	} else if _, busy := l.busySince[conn]; !busy {
		l.busySince[conn] = now
	}
}
