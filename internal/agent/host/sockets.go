package host

import (
	"fmt"
	"slices"

	"drover/internal/agent/instance"
)

// Listeners implements operation.Processes.
func (h *Host) Listeners(port uint16) []uint64 {
	sockets, err := h.fs.Listeners(port)
	if err != nil {
		h.log.Warn("cannot list the sockets that listen", "port", port, "error", err)
	}
	return sockets
}

// OtherHolder implements operation.Processes. What the first process of the host holds, it may pass to any other.
func (h *Host) OtherHolder(sockets []uint64, s instance.Scope) string {
	pids, err := h.fs.Holders(sockets)
	if err != nil {
		h.log.Warn("cannot tell whose sockets these are", "sockets", sockets, "error", err)
		return ""
	}
	own := map[int]bool{1: true, s.Root.PID: true}
	for _, p := range h.Survivors(s) {
		own[p.PID] = true
	}
	if slices.ContainsFunc(pids, func(pid int) bool { return own[pid] }) {
		return ""
	}
	if len(pids) == 0 {
		return "a program whose descriptors drover may not see"
	}
	info, err := h.fs.Info(pids[0])
	if err != nil {
		return fmt.Sprintf("pid %d", pids[0])
	}
	return fmt.Sprintf("pid %d (%s)", pids[0], info.Comm)
}
