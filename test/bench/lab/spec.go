package lab

import (
	"path/filepath"
	"strings"
	"time"

	v1 "drover/api/v1"
)

// Spec is a process to be supervised: a child, which is the command Run itself, or a daemon, which the command Start
// begins and which writes PIDFile.
type Spec struct {
	Name, Run, Start, PIDFile string
	// Log bounds what drover keeps of the output; nil is the default.
	Log *v1.Log
}

// Spec is a worker that notes its starts in stamps. The flags are those of the worker but -d.
func (l *Lab) Spec(stamps *Stamps, id string, daemon bool, flags ...string) Spec {
	words := append([]string{l.Worker}, flags...)
	if !daemon {
		return Spec{Name: id, Run: strings.Join(append(words, stamps.Path, id), " ")}
	}
	file := filepath.Join(filepath.Dir(stamps.Path), id+".pid")
	return Spec{Name: id, PIDFile: file, Start: strings.Join(append(words, "-d", file, stamps.Path, id), " ")}
}

// KindOf names the kind of a process.
func KindOf(daemon bool) string {
	if daemon {
		return "daemon"
	}
	return "child"
}

// healthy is the run time after which drover relaunches a process at once. Each worker runs longer before it is killed.
const healthy = time.Second

// process is the form of process files.
func (s Spec) process() v1.Spec {
	return v1.Spec{
		Hosts: v1.Hosts{Names: []string{AgentName}}, Run: s.Run, Start: s.Start, PIDFile: s.PIDFile, Log: s.Log,
		Ready:   &v1.Ready{Alive: new(v1.Duration(0))},
		Restart: &v1.Restart{ResetAfter: new(v1.Duration(healthy))},
	}
}

// Request is the request of the GSE API for an operation on a daemon.
func (s Spec) Request(op int) Object {
	return Object{
		"meta": Object{"namespace": Namespace, "name": s.Name}, "op_type": op,
		"agent_id_list": []string{AgentName},
		"spec": Object{
			"identity": Object{"proc_name": "worker", "setup_path": "/", "pid_path": s.PIDFile, "user": "root"},
			"control":  Object{"start_cmd": s.Start, "stop_cmd": ""},
			"alive_monitor_policy": Object{
				"auto_type": 1, "start_check_secs": 1, "stop_check_secs": 10, "start_retries": 1_000_000,
				"start_interval": 1, "op_timeout": 60,
			},
		},
	}
}
