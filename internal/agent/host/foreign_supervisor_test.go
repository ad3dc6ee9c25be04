package host_test

import (
	"os"
	"path/filepath"
	"testing"

	"drover/internal/agent/host"
	"drover/internal/agent/instance"
	"drover/internal/test/harness"
)

func TestUnitIn(t *testing.T) {
	for text, unit := range map[string]string{
		"0::/system.slice/nginx.service\n":                                          "nginx.service",
		"0::/system.slice/system-postgresql.slice/postgresql@16-main.service\n":     "postgresql@16-main.service",
		"0::/system.slice/drover-agent.service/run-1\n":                             "drover-agent.service",
		"12:pids:/system.slice/a.service\n1:name=systemd:/system.slice/b.service\n": "b.service",
		"0::/user.slice/user-1000.slice/user@1000.service/app.slice/x.service\n":    "",
		"0::/system.slice/docker-0123.scope/nginx.service\n":                        "",
		"0::/\n": "",
		"":       "",
	} {
		if got := host.UnitIn(text); got != unit {
			t.Errorf("%q: %q, want %q", text, got, unit)
		}
	}
}

// TestKeeps: a unit keeps its processes while systemd has its link, and a program while it lives.
func TestKeeps(t *testing.T) {
	h, units := open(t, t.TempDir()), filepath.Join(t.TempDir(), "units")
	if err := os.Mkdir(units, 0o700); err != nil {
		t.Fatal(err)
	}
	h.SetUnits(units)
	unit := instance.ForeignSupervisor{Name: "nginx.service"}
	if h.Supervises(unit) {
		t.Error("a unit that is not active keeps its processes")
	}
	link := filepath.Join(units, "invocation:nginx.service")
	if err := os.Symlink("0123456789abcdef", link); err != nil {
		t.Fatal(err)
	}
	if !h.Supervises(unit) {
		t.Error("an active unit does not keep its processes")
	}
	who := start(t, harness.Sleeper(t, t.TempDir(), "supervisord"))
	if parent := (instance.ForeignSupervisor{Name: "supervisord", Parent: &who.Identity}); !h.Supervises(parent) ||
		h.SupervisedPID(parent) != -who.PID {
		t.Error("a program that lives does not keep its children")
	}
	who.StartTicks++
	if parent := (instance.ForeignSupervisor{Name: "supervisord", Parent: &who.Identity}); h.Supervises(parent) {
		t.Error("another program with the same pid keeps the processes")
	}
}

// TestKeepsBetweenRuns: systemd has no link for a unit that it is about to start again, but says so.
func TestKeepsBetweenRuns(t *testing.T) {
	h, dir, programs := open(t, t.TempDir()), t.TempDir(), t.TempDir()
	units := filepath.Join(dir, "units")
	for _, name := range []string{units, filepath.Join(dir, "system")} {
		if err := os.Mkdir(name, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	h.SetUnits(units)
	t.Setenv("PATH", programs)
	unit := instance.ForeignSupervisor{Name: "looper.service", Main: true}
	if !h.Supervises(unit) || h.SupervisedPID(unit) != 0 {
		t.Error("a systemd that cannot be asked lets go")
	}
	for state, keeps := range map[string]bool{
		"activating": true, "deactivating": true, "inactive": false, "failed": false, "": false,
	} {
		text := "#!/bin/sh\ncase $2 in\n--property=ActiveState) echo " + state + " ;;\n--property=MainPID) echo 4711 ;;\nesac\n"
		if err := harness.WriteProgram(filepath.Join(programs, "systemctl"), []byte(text)); err != nil {
			t.Fatal(err)
		}
		if another := (instance.ForeignSupervisor{Name: unit.Name}); h.SupervisedPID(another) != 0 {
			t.Error("the main process of a unit stands for another one of it")
		}
		if h.Supervises(unit) != keeps || h.SupervisedPID(unit) != 4711 {
			t.Errorf("state %q: keeps %t, want %t; main pid %d", state, h.Supervises(unit), keeps, h.SupervisedPID(unit))
		}
	}
}
