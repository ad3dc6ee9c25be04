package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"drover/internal/idle"
	"drover/internal/server/access"
	"drover/internal/server/api/call"
)

// maxSocketPath is the kernel's longest path of a socket, in bytes.
const maxSocketPath = 107

// listenSocket listens on a socket that only the server's own account may open. It replaces the file of a killed
// server, because the caller holds the lock of the directory. It reaches a path longer than maxSocketPath through its
// directory.
func listenSocket(ctx context.Context, path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot replace socket: %w", err)
	}
	short := path
	if len(path) > maxSocketPath {
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
	return &socket{Listener: l, path: path, file: file}, nil
}

// socket is a listener that removes its file when it is closed.
type socket struct {
	net.Listener
	path string
	file fs.FileInfo
}

// Close stops listening and removes the file, unless it is another one by now.
func (s *socket) Close() error {
	var err error
	if s.there() {
		err = os.Remove(s.path)
	}
	return errors.Join(err, s.Listener.Close())
}

// there reports whether the file is still that of the listener: a cleaner may have removed it.
func (s *socket) there() bool {
	file, err := os.Lstat(s.path)
	return err == nil && os.SameFile(file, s.file)
}

// socketEvery is how often the server looks for the file of its socket.
const socketEvery = 2 * time.Second

// serveSocket answers calls on the socket until ctx ends. It listens again when somebody has removed or replaced the
// file; the connections of the old one end.
func (s *Server) serveSocket(ctx context.Context, serve func(net.Listener) func(context.Context) error) error {
	for {
		one, end := context.WithCancel(ctx)
		lost := make(chan struct{})
		go func() {
			defer close(lost)
			for idle.Sleep(one, socketEvery) {
				if !s.socket.(*socket).there() {
					end()
				}
			}
		}()
		err := serve(s.socket)(one)
		end()
		<-lost
		if err != nil || ctx.Err() != nil {
			return err
		}
		s.cfg.Log.WarnContext(ctx, "somebody has removed the local socket: listening again", "path", s.cfg.Socket)
		for told := false; ; told = true {
			next, err := listenSocket(ctx, s.cfg.Socket)
			if err == nil {
				s.socket = next
				break
			}
			if !told {
				s.cfg.Log.ErrorContext(ctx, "cannot listen on the local socket", "error", err)
			}
			if !idle.Sleep(ctx, socketEvery) {
				return nil
			}
		}
	}
}

// operator marks a connection of the socket as an operator's, if the kernel says that root or the server's own account
// opened it. Any other connection counts as remote. The mode of the file should prevent it, but may have been changed.
func (s *Server) operator(ctx context.Context, conn net.Conn) context.Context {
	uid, err := peer(conn)
	if err != nil {
		s.cfg.Log.WarnContext(ctx, "cannot identify the peer of the socket", "error", err)
		return ctx
	}
	if uid != 0 && uid != uint32(os.Geteuid()) {
		s.cfg.Log.WarnContext(ctx, "unknown user at the socket, treating the call as a remote call", "uid", uid)
		return ctx
	}
	return call.WithOperator(ctx, access.LocalAdmin(uid))
}

// peer returns the account of the process at the other end of a connection.
func peer(conn net.Conn) (uid uint32, err error) {
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
