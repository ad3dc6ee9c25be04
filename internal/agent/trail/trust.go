package trail

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Trusted are the accounts and groups that may decide where a trail leads. Root always may.
type Trusted struct {
	UIDs, GIDs []uint32
}

// Weak says which account or group, besides the trusted ones, can change where the trail leads or the file at its end:
// the owner of a step, or others with write access to a step. It is empty if nobody can. The text follows the name of
// a file. In a sticky directory only the owner of an entry can replace that entry.
func (t *Trail) Weak(trusted Trusted) string {
	for _, s := range t.Steps {
		if s.UID != 0 && !slices.Contains(trusted.UIDs, s.UID) && s.UID != outside() {
			return fmt.Sprintf("%s belongs to uid %d", s.Path, s.UID)
		}
		if s.Mode&fs.ModeSymlink != 0 || s.Mode&fs.ModeDir != 0 && s.Mode&fs.ModeSticky != 0 {
			continue
		}
		switch perm := s.Mode.Perm(); {
		case perm&0o002 != 0:
			return fmt.Sprintf("%s may be written by everybody: its mode is %#o", s.Path, perm)
		case perm&0o020 != 0 && s.GID != 0 && !slices.Contains(trusted.GIDs, s.GID) && s.GID != outside():
			return fmt.Sprintf("%s may be written by group %d: its mode is %#o", s.Path, s.GID, perm)
		}
	}
	return ""
}

// outside is the overflow id: it stands for all accounts without an id in the user namespace of this process. Nobody
// in the namespace can act as such an account. It is 0 if there are none.
func outside() uint32 {
	text, err := os.ReadFile("/proc/sys/kernel/overflowuid")
	if err != nil {
		return 0
	}
	id, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	if err != nil {
		return 0
	}
	ranges, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(ranges)) {
		var first, host, count uint64
		if n, err := fmt.Sscan(line, &first, &host, &count); n != 3 || err != nil || id >= first && id < first+count {
			return 0
		}
	}
	return uint32(id)
}
