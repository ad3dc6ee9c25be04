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

// supervisorPrograms are the programs that start their children again.
func supervisorPrograms() []string {
	return []string{"supervisord", "runsv", "s6-supervise", "supervise", "circusd", "process-compose"}
}

// unitsDirectory has a link invocation:UNIT for each unit that is active (systemd, core/unit.c: unit_unlink_state_files
// removes it when the unit becomes inactive).
const unitsDirectory = "/run/systemd/units"

// ForeignSupervisor implements operation.Claims.
func (h *Host) ForeignSupervisor(id instance.Identity) *instance.ForeignSupervisor {
	info, err := h.fs.Info(id.PID)
	if err != nil || !h.fs.Same(id) {
		return nil
	}
	if k := h.parentOf(info); k != nil { // it may run in a unit itself
		return k
	}
	if unit := h.unitOf(id.PID); unit != "" && unit != h.unitOf(os.Getpid()) {
		if k := (instance.ForeignSupervisor{Name: unit}); h.Supervises(k) {
			k.Main = h.mainOf(unit) == id.PID
			return &k
		}
	}
	return nil
}

// parentOf returns the program that has started a process and keeps it; nil if its parent is no such program.
func (h *Host) parentOf(info procfs.Info) *instance.ForeignSupervisor {
	parent, err := h.fs.Identify(info.PPID)
	if err != nil || info.PPID <= 1 {
		return nil
	}
	above, err := h.fs.Info(info.PPID)
	if err != nil {
		return nil
	}
	for _, name := range supervisorPrograms() {
		if locate.MatchName(above, name) {
			return &instance.ForeignSupervisor{Name: name, Parent: &parent, Program: h.programOf(info.PID)}
		}
	}
	return nil
}

// programOf returns the name that a process has in its supervisord, which tells it in the environment (supervisord(8));
// empty if it has none.
func (h *Host) programOf(pid int) string {
	environment, err := h.fs.Environ(pid)
	if err != nil {
		return ""
	}
	group, name := "", ""
	for _, variable := range environment {
		if value, ok := strings.CutPrefix(variable, "SUPERVISOR_GROUP_NAME="); ok {
			group = value
		} else if value, ok := strings.CutPrefix(variable, "SUPERVISOR_PROCESS_NAME="); ok {
			name = value
		}
	}
	if group == "" || name == "" {
		return ""
	}
	return group + ":" + name
}

// keptAsMain reports whether another supervisor keeps the process with a pid as its own, and not as one that such a
// process has started.
func (h *Host) keptAsMain(pid int) bool {
	id, err := h.fs.Identify(pid)
	if err != nil {
		return false
	}
	k := h.ForeignSupervisor(id)
	return k != nil && (k.Main || k.Parent != nil) && h.fs.Same(id)
}

// Supervises implements operation.Claims.
func (h *Host) Supervises(k instance.ForeignSupervisor) bool {
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

// SupervisedPID implements operation.Claims.
func (h *Host) SupervisedPID(k instance.ForeignSupervisor) int {
	switch {
	case k.Parent == nil && !k.Main: // it may have started several
		return 0
	case k.Parent == nil:
		return h.mainOf(k.Name)
	case k.Program == "":
		return -k.Parent.PID
	}
	pids, _ := h.fs.PIDs() // without them, any child may be it
	for _, pid := range pids {
		if st, err := h.fs.Stat(pid); err == nil && st.PPID == k.Parent.PID && h.programOf(pid) == k.Program {
			return pid
		}
	}
	return -k.Parent.PID
}

// mainOf returns the main pid of a unit; 0 if systemd does not say.
func (h *Host) mainOf(unit string) int {
	text, err := h.systemd(unit, "MainPID")
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
