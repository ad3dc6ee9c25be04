package host

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"drover/internal/agent/instance"
	"drover/internal/agent/launch"
	"drover/internal/agent/locate"
	"drover/internal/agent/procfs"
)

// keepers are the programs that start their children again.
func keepers() []string {
	return []string{"supervisord", "runsv", "s6-supervise", "supervise", "circusd", "process-compose"}
}

// unitsDirectory has a link invocation:UNIT for each unit that is active (systemd, core/unit.c: unit_unlink_state_files
// removes it when the unit becomes inactive).
const unitsDirectory = "/run/systemd/units"

// Keeper implements operation.Claims.
func (h *Host) Keeper(id procfs.Identity) *instance.Keeper {
	info, err := h.fs.Info(id.PID)
	if err != nil || !h.fs.Same(id) {
		return nil
	}
	if unit := h.unitOf(id.PID); unit != "" && unit != h.unitOf(os.Getpid()) {
		if k := (instance.Keeper{Name: unit}); h.Keeps(k) {
			return &k
		}
	}
	parent, err := h.fs.Identify(info.PPID)
	if err != nil || info.PPID <= 1 {
		return nil
	}
	above, err := h.fs.Info(info.PPID)
	if err != nil {
		return nil
	}
	for _, name := range keepers() {
		if locate.MatchName(above, name) {
			return &instance.Keeper{Name: name, Parent: &parent}
		}
	}
	return nil
}

// Keeps implements operation.Claims.
func (h *Host) Keeps(k instance.Keeper) bool {
	if k.Parent != nil {
		return h.fs.Same(*k.Parent)
	}
	if _, err := os.Lstat(filepath.Join(h.units, "invocation:"+k.Name)); err == nil {
		return true
	}
	// Between an end and the next start systemd has no link, but keeps the unit all the same.
	state, err := h.systemd(k.Name, "ActiveState")
	return err != nil || state != "" && state != "inactive" && state != "failed"
}

// Keeping implements operation.Claims.
func (h *Host) Keeping(k instance.Keeper) int {
	if k.Parent != nil {
		return -k.Parent.PID
	}
	text, err := h.systemd(k.Name, "MainPID")
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(text) // else systemd does not know
	return pid
}

// systemd returns a property of a unit; empty if no systemd runs.
func (h *Host) systemd(unit, property string) (string, error) {
	if _, err := os.Lstat(filepath.Join(filepath.Dir(h.units), "system")); err != nil { // sd_booted(3)
		return "", nil
	}
	return launch.UnitProperty(unit, property)
}

// unitOf returns the system service in whose control group a process runs; empty if it runs in none.
func (h *Host) unitOf(pid int) string {
	text, err := os.ReadFile(filepath.Join(h.proc, strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return ""
	}
	return unitIn(string(text))
}

// unitIn returns the service in the text of /proc/PID/cgroup.
func unitIn(text string) string {
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 || parts[1] != "" && parts[1] != "name=systemd" {
			continue
		}
		path, ok := strings.CutPrefix(parts[2], "/system.slice/")
		for part := range strings.SplitSeq(path, "/") {
			if ok && strings.HasSuffix(part, ".service") {
				return part
			}
			if !strings.HasSuffix(part, ".slice") {
				break
			}
		}
	}
	return ""
}
