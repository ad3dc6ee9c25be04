package locate

import (
	"fmt"

	"drover/internal/agent/instance"
	"drover/internal/agent/procfs"
	"drover/internal/agent/trail"
)

// ambiguousError is the error for a live process with the right name that may still be another process, whatever a pid
// file says.
type ambiguousError struct{ text string }

// Error implements error.
func (d *ambiguousError) Error() string { return d.text }

// verify returns nil if the pid file's claim about a process counts: the writer of that file decides which process
// gets signals. A process that drover started for this spec always counts. Any other process must run as the account,
// and only root and that account may be able to replace the file. If the account is root, the process may run as any
// account. That account may own the file too, because it could only make drover end its own process.
func (q Query) verify(id instance.Identity, info procfs.Info, file pidFile) error {
	if q.Own != nil && q.Own(id) {
		return nil
	}
	if !q.runs(info) {
		return &ambiguousError{
			fmt.Sprintf(
				"pid %d of pid file %s runs as uid %d, not as user %s: set the user of the spec to the account of the process, or start the process with drover",
				info.PID, file.path, other(info, q.Account.UID), q.Account.Name),
		}
	}
	trusted := trail.Trusted{UIDs: []uint32{q.Account.UID}, GIDs: []uint32{q.Account.GID}}
	who := "root"
	if q.Account.UID != 0 {
		who += " and " + q.Account.Name
	} else if info.Real == info.Saved && info.Real == info.UID {
		//nolint:gosec // ids of the kernel
		trusted.UIDs, trusted.GIDs = append(trusted.UIDs, uint32(info.Real)), append(trusted.GIDs, uint32(info.GID))
		who += fmt.Sprintf(" and uid %d, as which pid %d runs,", info.Real, info.PID)
	}
	if weak := file.trail.Weak(trusted); weak != "" {
		return &ambiguousError{
			fmt.Sprintf(
				"pid file %s is not believed, which names pid %d: %s; it counts once only %s can replace it (chown, chmod), or drover has started the process",
				file.path, info.PID, weak, who),
		}
	}
	return nil
}

// runs reports whether a process runs as the account, and can change to no other account.
func (q Query) runs(info procfs.Info) bool {
	account := int64(q.Account.UID)
	return account == 0 || int64(info.Real) == account && int64(info.Saved) == account
}

// other returns an id of a process that differs from the account.
func other(info procfs.Info, account uint32) int {
	if int64(info.Real) != int64(account) {
		return info.Real
	}
	return info.Saved
}
