package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"drover/internal/agent/supervisor"
)

// shutdownSocket is the socket on which the agent hears that its host shuts down. Only the agent's account can open the
// directory.
const shutdownSocket = "shutdown.sock"

// shutdownTalk is how long a side of that socket waits for the other one, beyond the time of the shutdown.
const shutdownTalk = 5 * time.Second

// Ended is what a shutdown has made of a process.
type Ended = supervisor.Ended

// shutdownCall is what the caller says; the replies are shutdownReply, and Done marks the last one.
type (
	shutdownCall struct {
		Timeout time.Duration `json:"timeout"`
	}
	shutdownReply struct {
		Ended Ended `json:"ended"`
		Done  bool  `json:"done"`
	}
)

// atSocket calls do with a path to the socket of an agent that is short enough for the kernel.
func atSocket(dir string, do func(path string) error) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("cannot open the data directory: %w", err)
	}
	defer d.Close()
	return do(fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), shutdownSocket))
}

// hearShutdown ends the processes of the host when a caller of the socket says that the host shuts down. It returns
// when ctx ends.
func (a *Agent) hearShutdown(ctx context.Context) error {
	var l net.Listener
	err := os.Remove(filepath.Join(a.cfg.Dir, shutdownSocket)) // the file of an agent that was killed
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = atSocket(a.cfg.Dir, func(path string) error {
			l, err = (&net.ListenConfig{}).Listen(ctx, "unix", path)
			return err
		})
	}
	if err != nil {
		a.cfg.Log.WarnContext(ctx, "a shutdown of the host will not end the processes in order", "error", err)
		<-ctx.Done()
		return nil
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // the path of its descriptor may be another one by then
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	for ctx.Err() == nil {
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() == nil {
				a.cfg.Log.WarnContext(ctx, "cannot hear of a shutdown of the host", "error", err)
				<-ctx.Done()
			}
			return nil
		}
		a.shutDown(ctx, conn)
	}
	return nil
}

// shutDown answers one caller.
func (a *Agent) shutDown(ctx context.Context, conn net.Conn) {
	defer conn.Close() //nolint:errcheck // the answer has been sent or lost
	var call shutdownCall
	_ = conn.SetDeadline(time.Now().Add(shutdownTalk))
	if err := json.NewDecoder(conn).Decode(&call); err != nil {
		a.cfg.Log.WarnContext(ctx, "cannot read what a caller of the socket for a shutdown says", "error", err)
		return
	}
	a.cfg.Log.WarnContext(ctx, "the host shuts down: ending its processes in order", "timeout", call.Timeout)
	_ = conn.SetDeadline(time.Now().Add(call.Timeout + shutdownTalk))
	limited, cancel := context.WithTimeout(ctx, call.Timeout)
	defer cancel()
	out := json.NewEncoder(conn)
	a.super.Shutdown(limited, func(e Ended) { // a caller that is gone changes nothing
		if e.Left {
			a.cfg.Log.ErrorContext(ctx, "the shutdown of the host leaves a process", "process", e.ID, "why", e.Text)
		}
		_ = out.Encode(shutdownReply{Ended: e})
	})
	_ = out.Encode(shutdownReply{Done: true})
}

// Shutdown has the agent of a data directory end all hosted processes in order, because the host shuts down. It calls
// tell with each, and returns when all have ended or timeout is over. From then on the agent starts nothing.
func Shutdown(ctx context.Context, dir string, timeout time.Duration, tell func(Ended)) error {
	var conn net.Conn
	err := atSocket(dir, func(path string) (err error) {
		conn, err = (&net.Dialer{Timeout: shutdownTalk}).DialContext(ctx, "unix", path)
		return err
	})
	if err != nil {
		return fmt.Errorf("no agent answers in %s: %w", dir, err)
	}
	defer conn.Close() //nolint:errcheck // the answer has been sent or lost
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_ = conn.SetDeadline(time.Now().Add(timeout + 2*shutdownTalk))
	if err := json.NewEncoder(conn).Encode(shutdownCall{Timeout: timeout}); err != nil {
		return fmt.Errorf("cannot ask the agent: %w", err)
	}
	for in := json.NewDecoder(conn); ; {
		var reply shutdownReply
		switch err := in.Decode(&reply); {
		case errors.Is(err, io.EOF):
			return errors.New("the agent has stopped before the end")
		case err != nil:
			return fmt.Errorf("cannot read what the agent says: %w", err)
		case reply.Done:
			return nil
		}
		tell(reply.Ended)
	}
}
