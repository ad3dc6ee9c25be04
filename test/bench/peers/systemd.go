package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"drover/test/bench/lab"
)

// systemd is the first process of a pid namespace, with mounts, control groups (version 2 only) and units of its own,
// and without the journal, a bus or any other service. Its users reach it by entering the namespaces. What it
// supervises is a child of it (Type=simple) or, with forking, a daemon that it finds by its pid file (Type=forking).
func systemd(name string, forking bool) *supervisor {
	ctl := func(dir, words string) []string {
		return shell("exec nsenter --target $(cat %s/pid) --mount --pid systemctl --no-pager %s", dir, words)
	}
	return &supervisor{
		name: name, source: "systemd", daemons: forking, isolated: true, program: "/lib/systemd/systemd",
		configure: func(dir string, units []lab.Spec) error { return systemdUnits(dir, units, forking) },
		run:       func(dir string) []string { return []string{"/bin/sh", "-e", dir + "/enter"} },
		status:    func(dir string, _ []lab.Spec) []string { return ctl(dir, "list-units --type=service --all") },
		stop:      func(dir string, _ []lab.Spec) []string { return ctl(dir, "stop 'w*.service'") },
		restart:   func(dir string, u lab.Spec) []string { return ctl(dir, "restart "+u.Name+".service") },
		tidy:      func(dir string) []string { return []string{"/bin/sh", "-e", dir + "/tidy"} },
	}
}

// systemdUnits writes the units and what starts systemd over them: enter joins a control group, boot makes that the
// root of all that systemd sees of them. Settings of the machine can't be changed, and the console is nobody's.
func systemdUnits(dir string, units []lab.Spec, forking bool) error {
	group := "drover-bench-" + strings.ReplaceAll(strings.Trim(dir, "/"), "/", "-")
	files := map[string]string{
		"enter": fmt.Sprintf(`mount --make-rprivate /
mount -t proc proc /proc
mkdir %[1]s/cgroup
mount -t cgroup2 cgroup2 %[1]s/cgroup
mkdir %[1]s/cgroup/%[2]s
echo 0 >%[1]s/cgroup/%[2]s/cgroup.procs
exec unshare --cgroup /bin/sh -e %[1]s/boot
`, dir, group),
		"boot": fmt.Sprintf(`mount -t tmpfs run /run
mount --bind -o ro /proc/sys /proc/sys
if [ -e /dev/console ]; then mount --bind /dev/null /dev/console; fi
umount -R -l /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
exec env -i PATH="$PATH" container=drover SYSTEMD_UNIT_PATH=%s/units /lib/systemd/systemd --system --unit=bench.target --log-target=null --show-status=no
`, dir),
		"tidy": fmt.Sprintf(`mount -t cgroup2 cgroup2 %[1]s/cgroup
find %[1]s/cgroup/%[2]s -depth -type d -exec rmdir {} +
umount %[1]s/cgroup
`, dir, group),
	}
	var wants strings.Builder
	for _, u := range units {
		kind := "ExecStart=" + u.Run
		if forking {
			kind = "Type=forking\nPIDFile=" + u.PIDFile + "\nExecStart=" + u.Start
		}
		files["units/"+u.Name+".service"] = "[Unit]\nDefaultDependencies=no\nStartLimitIntervalSec=0\n[Service]\n" +
			kind +
			"\nRestart=always\nRestartSec=0\nStandardOutput=null\nStandardError=null\n"
		fmt.Fprintf(&wants, "Wants=%s.service\n", u.Name)
	}
	files["units/bench.target"] = "[Unit]\nDefaultDependencies=no\n" + wants.String()
	if err := os.Mkdir(filepath.Join(dir, "units"), 0o755); err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
