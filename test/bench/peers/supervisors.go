package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"drover/test/bench/lab"
)

// supervisor is one of those that are compared, as its users would configure it for the quickest restart that it has.
type supervisor struct {
	name string
	kind kind
	// daemons says that it supervises daemons by pid files; others supervise children.
	daemons bool
	// program must be installed; source is what tools/bench-deps.sh calls it where that is another name.
	program, source string
	// isolated says that it is the first process of a pid namespace, and tidy what is to be run after its end.
	isolated bool
	tidy     func(dir string) []string
	// configure writes what the supervisor reads below dir, and run is what to start then; it stays in the foreground
	// unless pidFile says where the real one is to be found.
	configure func(dir string, units []lab.Spec) error
	run       func(dir string) []string
	pidFile   string
	env       func(dir string) []string
	// What users type. Restart is of one, the others are of all.
	status, stop func(dir string, units []lab.Spec) []string
	restart      func(dir string, u lab.Spec) []string
}

// missing says why it is not here; empty where it is. dir is where tools/bench-deps.sh has left its reasons.
func (s *supervisor) missing(dir string) string {
	if s.kind != 0 {
		return ""
	}
	_, err := exec.LookPath(s.program)
	if err == nil {
		return ""
	}
	if why, err := os.ReadFile(filepath.Join(dir, cmp.Or(s.source, s.name)+".why")); err == nil {
		return strings.TrimSpace(string(why))
	}
	return err.Error()
}

// kind says what a supervisor is: a foreign program if it is neither of these.
type kind int

const (
	theFloor kind = iota + 1
	drover
)

// supervisors are all there are, in the order of the table. dir holds those that are no packages.
func supervisors(dir string) []*supervisor {
	return []*supervisor{
		{name: "floor child", kind: theFloor},
		{name: "drover child", kind: drover},
		{name: "floor", kind: theFloor, daemons: true},
		{name: "drover", kind: drover, daemons: true},
		runit(), daemontools(), s6(), systemd("systemd", false), systemd("systemd forking", true), supervisord(),
		monit(),
		pm2(filepath.Join(dir, "pm2/node_modules/.bin/pm2")),
		goSupervisord(filepath.Join(dir, "go-supervisord")),
		processCompose(filepath.Join(dir, "process-compose")),
	}
}

// shell is a command line.
func shell(format string, args ...any) []string {
	return []string{"/bin/sh", "-c", fmt.Sprintf(format, args...)}
}

// runScripts writes a directory with a run script for each unit.
func runScripts(dir string, units []lab.Spec) error {
	for _, u := range units {
		service := filepath.Join(dir, "svc", u.Name)
		if err := os.MkdirAll(service, 0o755); err != nil {
			return err
		}
		script := "#!/bin/sh\nexec " + u.Run + "\n"
		if err := os.WriteFile(filepath.Join(service, "run"), []byte(script), 0o755); err != nil {
			return err
		}
	}
	return nil
}

func runit() *supervisor {
	return &supervisor{
		name: "runit", program: "runsvdir", configure: runScripts,
		run:    func(dir string) []string { return []string{"runsvdir", dir + "/svc"} },
		status: func(dir string, _ []lab.Spec) []string { return shell("sv status %s/svc/*", dir) },
		stop:   func(dir string, _ []lab.Spec) []string { return shell("sv -w 30 down %s/svc/*", dir) },
		restart: func(dir string, u lab.Spec) []string {
			return []string{"sv", "-w", "30", "restart", dir + "/svc/" + u.Name}
		},
	}
}

func daemontools() *supervisor {
	return &supervisor{
		name: "daemontools", program: "svscan", configure: runScripts,
		run:     func(dir string) []string { return []string{"svscan", dir + "/svc"} },
		status:  func(dir string, _ []lab.Spec) []string { return shell("svstat %s/svc/*", dir) },
		stop:    func(dir string, _ []lab.Spec) []string { return shell("svc -d %s/svc/*", dir) },
		restart: func(dir string, u lab.Spec) []string { return []string{"svc", "-t", dir + "/svc/" + u.Name} },
	}
}

func s6() *supervisor {
	return &supervisor{
		name: "s6", program: "s6-svscan", configure: runScripts,
		run:     func(dir string) []string { return []string{"s6-svscan", "-c", "2000", dir + "/svc"} },
		status:  func(dir string, _ []lab.Spec) []string { return shell("for s in %s/svc/*; do s6-svstat $s; done", dir) },
		stop:    func(dir string, _ []lab.Spec) []string { return shell("for s in %s/svc/*; do s6-svc -d $s; done", dir) },
		restart: func(dir string, u lab.Spec) []string { return []string{"s6-svc", "-wr", "-r", dir + "/svc/" + u.Name} },
	}
}

func supervisord() *supervisor {
	ctl := func(dir, words string) []string { return shell("supervisorctl -c %s/conf %s", dir, words) }
	return &supervisor{
		name: "supervisord", source: "supervisor", program: "supervisord",
		configure: func(dir string, units []lab.Spec) error {
			head := fmt.Sprintf(
				"[unix_http_server]\nfile=%[1]s/sock\n[supervisord]\nnodaemon=true\nuser=root\nminfds=8192\nlogfile=%[1]s/log\npidfile=%[1]s/pid\nchildlogdir=%[1]s\n"+
					"[rpcinterface:supervisor]\nsupervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface\n[supervisorctl]\nserverurl=unix://%[1]s/sock\n", dir)
			return programs(dir, head, "startsecs=0\nstartretries=1000000\nstdout_logfile=NONE\nstderr_logfile=NONE\n",
				units)
		},
		run:     func(dir string) []string { return []string{"supervisord", "-c", dir + "/conf"} },
		status:  func(dir string, _ []lab.Spec) []string { return ctl(dir, "status") },
		stop:    func(dir string, _ []lab.Spec) []string { return ctl(dir, "stop all") },
		restart: func(dir string, u lab.Spec) []string { return ctl(dir, "restart "+u.Name) },
	}
}

// programs writes a configuration in the manner of supervisord.
func programs(dir, head, each string, units []lab.Spec) error {
	var conf strings.Builder
	conf.WriteString(head)
	for _, u := range units {
		fmt.Fprintf(&conf, "[program:%s]\ncommand=%s\nautostart=true\nautorestart=true\n%s", u.Name,
			u.Run, each)
	}
	return os.WriteFile(filepath.Join(dir, "conf"), []byte(conf.String()), 0o600)
}

func goSupervisord(binary string) *supervisor {
	ctl := func(dir, words string) []string { return shell("%s ctl -c %s/conf %s", binary, dir, words) }
	return &supervisor{
		name: "Go supervisord", source: "go-supervisord", program: binary,
		configure: func(dir string, units []lab.Spec) error {
			head := fmt.Sprintf(
				"[unix_http_server]\nfile=%[1]s/sock\n[supervisord]\nlogfile=/dev/null\npidfile=%[1]s/pid\n[supervisorctl]\nserverurl=unix://%[1]s/sock\n", dir)
			return programs(dir, head, "startsecs=0\nstartretries=1000000\n", units)
		},
		run:     func(dir string) []string { return []string{binary, "-c", dir + "/conf"} },
		status:  func(dir string, _ []lab.Spec) []string { return ctl(dir, "status") },
		stop:    func(dir string, _ []lab.Spec) []string { return ctl(dir, "stop all") },
		restart: func(dir string, u lab.Spec) []string { return ctl(dir, "restart "+u.Name) },
	}
}

func monit() *supervisor {
	ctl := func(dir, words string) []string { return shell("monit -c %s/conf %s", dir, words) }
	return &supervisor{
		name: "monit", daemons: true, program: "monit",
		configure: func(dir string, units []lab.Spec) error {
			var conf strings.Builder
			fmt.Fprintf(&conf,
				"set daemon 1\nset log %[1]s/log\nset pidfile %[1]s/pid\nset idfile %[1]s/id\nset statefile %[1]s/state\nset httpd unixsocket %[1]s/sock\n  allow root:root\n", dir)
			for _, u := range units {
				fmt.Fprintf(&conf,
					"check process %s with pidfile %s\n  start program = \"%s\"\n  stop program = \"/bin/sh -c 'kill $(cat %s)'\"\n", u.Name, u.PIDFile, u.Start, u.PIDFile)
			}
			return os.WriteFile(filepath.Join(dir, "conf"), []byte(conf.String()), 0o600)
		},
		run:     func(dir string) []string { return []string{"monit", "-I", "-c", dir + "/conf"} },
		status:  func(dir string, _ []lab.Spec) []string { return ctl(dir, "summary") },
		stop:    func(dir string, _ []lab.Spec) []string { return ctl(dir, "stop all") },
		restart: func(dir string, u lab.Spec) []string { return ctl(dir, "restart "+u.Name) },
	}
}

func pm2(binary string) *supervisor {
	return &supervisor{
		name: "pm2", program: binary, pidFile: "pm2.pid",
		configure: func(dir string, units []lab.Spec) error {
			var apps []lab.Object
			for _, u := range units {
				words := strings.Fields(u.Run)
				apps = append(apps, lab.Object{
					"name": u.Name, "script": words[0], "args": words[1:], "interpreter": "none", "exec_mode": "fork",
					"restart_delay": 0,
					"max_restarts":  1000000, "min_uptime": 0, "out_file": "/dev/null", "error_file": "/dev/null",
				})
			}
			data, err := json.Marshal(lab.Object{"apps": apps})
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, "ecosystem.json"), data, 0o600)
		},
		run:     func(dir string) []string { return []string{binary, "start", dir + "/ecosystem.json"} },
		env:     func(dir string) []string { return []string{"PM2_HOME=" + dir, "PM2_DISCRETE_MODE=true"} },
		status:  func(string, []lab.Spec) []string { return []string{binary, "ls"} },
		stop:    func(string, []lab.Spec) []string { return []string{binary, "stop", "all"} },
		restart: func(_ string, u lab.Spec) []string { return []string{binary, "restart", u.Name} },
	}
}

func processCompose(binary string) *supervisor {
	ctl := func(dir string, words ...string) []string {
		return append([]string{binary, "-U", "-u", dir + "/sock"}, words...)
	}
	return &supervisor{
		name: "process-compose", program: binary,
		configure: func(dir string, units []lab.Spec) error {
			list := lab.Object{}
			for _, u := range units {
				list[u.Name] = lab.Object{
					"command":      u.Run,
					"availability": lab.Object{"restart": "always", "backoff_seconds": 0},
				}
			}
			// YAML, too
			data, err := json.Marshal(lab.Object{"version": "0.5", "log_location": "/dev/null", "processes": list})
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, "conf.yaml"), data, 0o600)
		},
		run:     func(dir string) []string { return ctl(dir, "-t=false", "-f", dir+"/conf.yaml", "up") },
		status:  func(dir string, _ []lab.Spec) []string { return ctl(dir, "process", "list") },
		stop:    func(dir string, _ []lab.Spec) []string { return ctl(dir, "down") },
		restart: func(dir string, u lab.Spec) []string { return ctl(dir, "process", "restart", u.Name) },
	}
}
