// Package socket is the local socket of a server, for the operators of its machine. It owns the file of the socket and
// the look at who has connected; what an operator may do is not its matter.
package socket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"drover/internal/idle"
)

// maxPath is the kernel's longest path of a socket, in bytes.
const maxPath = 107

// Socket listens at a path, and listens again when somebody has removed or replaced its file.
type Socket struct {
	path     string
	listener *listener
}

// Listen listens on a socket that only the server's own account may open. It replaces the file of a killed server, so
// the caller must hold the lock of the directory. It reaches a path longer than maxPath through its directory.
func Listen(ctx context.Context, path string) (*Socket, error) {
	l, err := listen(ctx, path)
	if err != nil {
		return nil, err
	}
	return &Socket{path: path, listener: l}, nil
}

// Close stops listening. It may be called after Serve, and on nil.
func (s *Socket) Close() error {
	if s == nil {
		return nil
	}
	return s.listener.Close()
}

// Serve calls serve with a listener until ctx ends. When somebody has removed or replaced the file, it ends the context
// of serve, which closes the connections, and calls serve again with a new listener. It returns the error of serve.
func (s *Socket) Serve(ctx context.Context, log *slog.Logger, serve func(context.Context, net.Listener) error) error {
	for {
		served, end := context.WithCancel(ctx)
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			for idle.Sleep(served, lookEvery) {
				if !s.listener.ownsFile() {
					end()
				}
			}
		}()
		err := serve(served, s.listener)
		end()
		<-watched
		if err != nil || ctx.Err() != nil {
			return err
		}
		log.WarnContext(ctx, "somebody has removed the local socket: listening again", "path", s.path)
		if !s.reopen(ctx, log) {
			return nil
		}
	}
}

// reopen listens again, and retries until that succeeds. It returns false if ctx has ended before.
func (s *Socket) reopen(ctx context.Context, log *slog.Logger) bool {
	for logged := false; ; logged = true {
		next, err := listen(ctx, s.path)
		if err == nil {
			s.listener = next
			return true
		}
		if !logged {
			log.ErrorContext(ctx, "cannot listen on the local socket", "error", err)
		}
		if !idle.Sleep(ctx, lookEvery) {
			return false
		}
	}
}

// lookEvery is how often the server looks for the file of its socket.
const lookEvery = 2 * time.Second

// listener is a listener that removes its file when it is closed.
type listener struct {
	net.Listener
	path string
	file fs.FileInfo
}

func listen(ctx context.Context, path string) (*listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot replace socket: %w", err)
	}
	short := path
	if len(path) > maxPath {
		dir, err := os.Open(filepath.Dir(path))
		if err != nil {
			return nil, fmt.Errorf("cannot listen on socket: %w", err)
		}
		defer dir.Close()
		short = fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path))
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", short)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on socket: %w", err)
	}
	// Go would remove the file by the path that it was bound with, which may no longer exist.
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	file, err := os.Lstat(path)
	if err == nil {
		err = os.Chmod(path, 0o600)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot protect socket: %w", err), l.Close())
	}
	return &listener{Listener: l, path: path, file: file}, nil
}

// Close stops listening and removes the file, unless it is another one by now.
func (l *listener) Close() error {
	var err error
	if l.ownsFile() {
		err = os.Remove(l.path)
	}
	return errors.Join(err, l.Listener.Close())
}

// ownsFile reports whether the file is still that of the listener: a cleaner may have removed it.
func (l *listener) ownsFile() bool {
	file, err := os.Lstat(l.path)
	return err == nil && os.SameFile(file, l.file)
}

// Account returns the account of the process at the other end of a connection.
func Account(conn net.Conn) (uid uint32, err error) {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, fmt.Errorf("%T is not a connection of a socket", conn)
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var failure error
	err = raw.Control(func(fd uintptr) {
		cred, failure = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err := errors.Join(err, failure); err != nil {
		return 0, err
	}
	return cred.Uid, nil
}
