package processfile

import (
	"fmt"
	"strings"

	"drover/internal/process"
)

// FaultsOf returns what makes a stored spec unfit for an operation, with the fields of files.
func FaultsOf(s *process.Spec, op process.Op) (faults Faults) {
	seen := map[string]bool{}
	found := s.Faults(op)
	if s.Stop != nil { // the compatible APIs accept any number
		found = append(s.PolicyFaults(), found...)
	}
	for _, f := range found {
		path := fieldOf(f.Field)
		if !seen[path] {
			seen[path] = true
			faults = append(faults, Fault{Path: path, Text: strings.TrimPrefix(f.Text, f.Field+" ")})
		}
	}
	return faults
}

// fieldOf returns the name in a file of a field that package process names.
func fieldOf(field string) string {
	if name, ok := fieldNamesOfProcess()[field]; ok {
		return name
	}
	for _, part := range [][2]string{
		{"spec.execution.", ""},
		{"spec.configmap[", "config_files["},
		{"spec.hard_limits.", "limits."},
		{"spec.ready.", "ready."},
		{"spec.schedule.", "schedule."},
		{"spec.policy.", "compat."},
		{"spec.limits.", "thresholds."},
		{"meta.labels", "labels"},
	} {
		if rest, ok := strings.CutPrefix(field, part[0]); ok {
			return part[1] + rest
		}
	}
	return strings.TrimPrefix(field, "spec.")
}

// fieldNamesOfProcess are the fields whose names differ.
func fieldNamesOfProcess() map[string]string {
	names := map[string]string{
		"spec.identity.proc_name": "process_name", "spec.identity.setup_path": "directory",
		"spec.identity.pid_path": "pid_file", "spec.identity.log_path": "log_file",
		"spec.identity.config_path": "compat.config_path",
		"spec.control.restart_cmd":  "compat.restart_cmd", "spec.control.kill_cmd": "compat.kill_cmd",
		"spec.control.version_cmd": "version_command", "spec.control.health_cmd": "health.exec",
		"spec.monitor_policy.crontab_rule": "schedule.cron", "spec.monitor_policy.cycle_time": "schedule.every",
		"spec.policy.instances": "expected_instances", "spec.policy.cycle_time": "schedule.every",
		"spec.policy.op_timeout":        "timeouts.start",
		"spec.policy.start_check_begin": "ready.alive", "spec.policy.start_check_end": "ready.within",
		"spec.policy.start_retries": "restart.give_up_after", "spec.policy.start_interval": "restart.delay",
		"spec.probes.health_interval": "health.every", "spec.probes.health_timeout": "health.timeout",
		"spec.limits.mem": "thresholds.memory",
	}
	for _, same := range []string{"start", "stop", "reload"} {
		names[fmt.Sprintf("spec.control.%s_cmd", same)] = same
	}
	for _, same := range []string{"run", "start", "stop", "reload"} {
		names["spec.control."+same] = same
	}
	for _, same := range []string{"grace", "failures"} {
		names["spec.probes."+same] = "health." + same
	}
	names["spec.identity.user"] = "user"
	return names
}
