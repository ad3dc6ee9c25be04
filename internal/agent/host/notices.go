package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"drover/internal/agent/instance"
	"drover/internal/agent/launch"
	"drover/internal/agent/notify"
	"drover/internal/durable"
	"drover/internal/process"
)

// maxSignal is how much a process may write to its ready file before the file is cut, in bytes.
const maxSignal = 64 << 10

// noticePath is where the socket for notifications is: other accounts cannot enter the directory of the agent. An agent
// that is not root has the processes of its own account only.
func noticePath(name, dir string) string {
	uid := os.Geteuid()
	if uid == 0 {
		return filepath.Join("/run/drover-notify", name)
	}
	own := filepath.Join("/run/user", strconv.Itoa(uid))
	if info, err := os.Stat(own); err == nil && info.IsDir() {
		return filepath.Join(own, "drover-notify", name)
	}
	return filepath.Join(dir, "notify")
}

// openNotices makes the socket at path, and the directory kept. A host without them can do everything else.
func (h *Host) openNotices(path, kept string) {
	notices, err := notify.Open(notify.Config{
		Path: path, FS: h.fs, RunOf: h.runAt, Clock: SinceBoot, Log: h.log, Gate: h.forker.Gate,
		Backlog: kept,
	})
	if err != nil {
		h.deaf = fmt.Errorf("processes cannot notify drover: %w", err)
		h.log.Warn("processes cannot notify drover", "error", err)
		return
	}
	h.notices = notices
}

// runNotices receives notifications until ctx ends.
func (h *Host) runNotices(ctx context.Context) error {
	if h.notices == nil {
		<-ctx.Done()
		return nil
	}
	return h.notices.Run(ctx)
}

// admit gives a command what it needs to say something of itself. The caller closes the file, which may be nil.
func (h *Host) admit(c *launch.Command, run string, spec *process.Spec) (signal *os.File, err error) {
	if spec.Notifies() {
		if h.notices == nil {
			return nil, h.noNotices()
		}
		if err := h.notices.StandIn(); err != nil {
			h.log.Warn("nobody will hear processes while no agent runs", "error", err)
		}
		c.Variables["NOTIFY_SOCKET"] = h.notices.Path()
	}
	if every := spec.WatchdogTime(); every > 0 {
		c.Variables["WATCHDOG_USEC"] = strconv.FormatInt(every.Microseconds(), 10)
	}
	at := spec.Ready.Descriptor()
	if at == 0 {
		return nil, nil //nolint:nilnil // nil means no file
	}
	err = h.urgent(func() error {
		const flags = os.O_WRONLY | os.O_APPEND | os.O_CREATE | os.O_TRUNC | unix.O_NOFOLLOW
		signal, err = durable.Open(h.readyFile(run), flags, 0o600)
		return err
	})
	if err != nil {
		return nil, process.Errorf(process.Failed, "spec.ready.notify_fd: cannot make the file for the descriptor: %v", err)
	}
	// The newline must fit even if the disk fills up meanwhile; not every file system supports that.
	_ = unix.Fallocate(int(signal.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, 1) //nolint:gosec // descriptors are small
	c.Signal, c.SignalFD = signal, at
	return signal, nil
}

// noNotices says why no process can notify drover.
func (h *Host) noNotices() error {
	return process.Errorf(process.Failed,
		"the process cannot notify drover: this host has no socket for notifications: %v", errors.Unwrap(h.deaf))
}

func (h *Host) readyFile(run string) string { return filepath.Join(h.signals, run) }

// signalled reports whether a process has written a newline to its ready file.
func (h *Host) signalled(run string) bool {
	f, err := os.OpenFile(h.readyFile(run), os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // opened only for reading
	text, _ := io.ReadAll(io.LimitReader(f, maxSignal))
	return bytes.IndexByte(text, '\n') >= 0
}

// cutSignal cuts a ready file that has grown too large: to its begin if that says that the process is ready, else
// whole. It reports whether the file was too large.
func (h *Host) cutSignal(run string) (was bool) {
	info, err := os.Lstat(h.readyFile(run))
	if err != nil || launch.DiskUsage(info) <= maxSignal {
		return false
	}
	kept := int64(0)
	if h.signalled(run) {
		kept = maxSignal
	}
	f, err := os.OpenFile(h.readyFile(run), os.O_WRONLY|unix.O_NOFOLLOW, 0)
	if err == nil {
		defer f.Close() //nolint:errcheck // nothing was written
		err = f.Truncate(kept)
	}
	if err != nil {
		h.log.Warn("cannot cut ready file", "error", fmt.Errorf("run %s: %w", run, err))
		return false
	}
	return true
}

// settleTime bounds Settle: a full socket must not hold up the end of a process.
const settleTime = 200 * time.Millisecond

// Expect implements operation.Notices.
func (h *Host) Expect(run string, first instance.Identity) {
	if h.notices != nil {
		h.notices.Expect(run, first)
	}
}

// State implements operation.Notices.
func (h *Host) State(run string) (said notify.State, changed <-chan struct{}) {
	if h.notices != nil {
		said, changed = h.notices.State(run)
	}
	said.Ready = said.Ready || h.signalled(run)
	return said, changed
}

// Settle implements operation.Notices.
func (h *Host) Settle() {
	if h.notices != nil {
		h.notices.Settle(settleTime)
	}
}

// AwaitNotice implements operation.Notices.
func (h *Host) AwaitNotice(ctx context.Context) (run string, ok bool) {
	if h.notices == nil {
		<-ctx.Done()
		return "", false
	}
	return h.notices.AwaitNotice(ctx)
}

// Ignored implements operation.Notices.
func (h *Host) Ignored() int64 {
	if h.notices == nil {
		return 0
	}
	return h.notices.Ignored()
}
