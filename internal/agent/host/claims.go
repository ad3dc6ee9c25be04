package host

import (
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"drover/internal/agent/procfs"
)

// claims keep two drovers of one host from managing the same process. Each process is a byte of one file, and the
// drover that manages the process holds a lock on that byte (fcntl(2), F_SETLK). The kernel releases the locks when a
// drover ends, even after a crash.
type claims struct {
	// file is nil if it could not be opened, because of fault: then drovers do not exclude each other.
	file  *os.File
	fault error
	// namespace separates pid namespaces that share the file.
	namespace string
}

// claimsPath is the file that all drovers of one user share. Nobody else can lock the processes that root manages.
func claimsPath() string {
	uid := os.Geteuid()
	if uid == 0 {
		return "/run/drover/claims"
	}
	return filepath.Join("/run/user", strconv.Itoa(uid), "drover", "claims")
}

func openClaims(path string, fs procfs.FS, log *slog.Logger) claims {
	c := claims{namespace: fs.PIDNamespace(os.Getpid())}
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		c.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	}
	if err != nil {
		c.fault = fmt.Errorf("cannot detect another drover on this host: %w", err)
		log.Warn("cannot detect another drover on this host", "error", err)
	}
	return c
}

// close gives up all claims: this process may live on to try another version of the agent.
func (c claims) close() {
	if c.file != nil {
		_ = c.file.Close() // it was never written
	}
}

// lock is the lock on the byte of a claim.
func (c claims) lock(claim string, kind int16) unix.Flock_t {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s\x00%s", c.namespace, claim)                 // it never fails
	return unix.Flock_t{Type: kind, Start: int64(h.Sum64() >> 2), Len: 1} //nolint:gosec // the shift removes two bits
}

// Take implements operation.Claims.
func (h *Host) Take(claim string) (rival int) {
	if h.claims.file == nil {
		return 0
	}
	for {
		l := h.claims.lock(claim, unix.F_WRLCK)
		err := unix.FcntlFlock(h.claims.file.Fd(), unix.F_SETLK, &l)
		if err == nil {
			return 0
		}
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES) {
			h.log.Warn("cannot claim process", "error", err)
			return 0
		}
		if rival = h.Rival(claim); rival != 0 {
			return rival
		}
	}
}

// unseen stands for the pid of a drover in another pid namespace, which this drover cannot see.
const unseen = -1

// Rival implements operation.Claims.
func (h *Host) Rival(claim string) int {
	if h.claims.file == nil {
		return 0
	}
	l := h.claims.lock(claim, unix.F_WRLCK)
	if err := unix.FcntlFlock(h.claims.file.Fd(), unix.F_GETLK, &l); err != nil || l.Type == unix.F_UNLCK {
		return 0
	}
	if l.Pid <= 0 {
		return unseen
	}
	return int(l.Pid)
}

// Drop implements operation.Claims.
func (h *Host) Drop(claim string) {
	if h.claims.file == nil {
		return
	}
	l := h.claims.lock(claim, unix.F_UNLCK)
	if err := unix.FcntlFlock(h.claims.file.Fd(), unix.F_SETLK, &l); err != nil {
		h.log.Warn("cannot release claim of process", "error", err)
	}
}
