package cgroup

import (
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"drover/internal/agent/procfs"
)

// agentGroup is the group of the agent itself in a delegated group. The name is that of DelegateSubgroup= in the unit.
const agentGroup = "agent"

// placesOf returns where the tree may be, best first. At the top of the hierarchy, a service manager that ends the
// agent's own group spares the processes. A group that a service manager has delegated to the agent comes first,
// because only there the manager leaves it alone; unless an earlier agent has made groups at the top.
func placesOf(proc procfs.FS, m procfs.Mount, mode Mode, controller, name string) []string {
	places := []string{m.Point}
	own, ok := proc.OwnCgroup(controller)
	if !ok {
		return places
	}
	own = below(m, own)
	if mode == ModeV2 {
		if earlier, err := subgroups(filepath.Join(m.Point, name)); err != nil || len(earlier) == 0 {
			if delegated, ok := delegatedFrom(own); ok {
				return []string{delegated, m.Point}
			}
		}
	}
	return append(places, own)
}

// delegatedFrom returns the group that a service manager has delegated: this one, or its parent. systemd marks it so
// (systemd.resource-control(5), Delegate=).
func delegatedFrom(own string) (string, bool) {
	for _, dir := range []string{own, filepath.Dir(own)} {
		for _, mark := range []string{"trusted.delegate", "user.delegate"} {
			value := make([]byte, 1)
			if n, err := unix.Getxattr(dir, mark, value); err == nil && n == 1 && value[0] == '1' {
				return dir, true
			}
		}
	}
	return "", false
}

// makeRoom moves this process out of the parent of the tree, if it is there: a group with processes of its own can hand
// no controller down (cgroups(7), "no internal processes"). Without that the tree still holds processes, and cannot
// limit them.
func makeRoom(proc procfs.FS, m procfs.Mount, base string) {
	own, ok := proc.OwnCgroup("")
	parent := filepath.Dir(base)
	if !ok || below(m, own) != parent || parent == filepath.Clean(m.Point) {
		return
	}
	group := filepath.Join(parent, agentGroup)
	_ = os.Mkdir(group, 0o755)
	_ = write(filepath.Join(group, procsFile), strconv.Itoa(os.Getpid()))
}
