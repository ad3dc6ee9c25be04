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

// claims keep several drovers of one host from managing the same process: each process is a byte of one file, and the
// drover that manages it holds a lock on that byte (fcntl(2), F_SETLK). The kernel gives the locks back when a drover
// ends, however it ends.
type claims struct {
	// file is nil where none could be opened: then nobody is kept apart.
	file *os.File
	// namespace sets apart pid namespaces that share the file.
	namespace string
}

// claimsPath is where drovers of the same user meet: nobody else may lock what root manages.
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
		log.Warn("cannot detect another drover on this host", "error", err)
	}
	return c
}

// lock is the byte of a claim.
func (c claims) lock(claim string, kind int16) unix.Flock_t {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s\x00%s", c.namespace, claim)                 // it never fails
	return unix.Flock_t{Type: kind, Start: int64(h.Sum64() >> 2), Len: 1} //nolint:gosec // two bits shorter
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

// unseen stands for the pid of a drover that this one cannot see: it is in another pid namespace.
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
