package processfile_test

import (
	"fmt"
	"strings"
	"testing"

	"drover/internal/processfile"
)

// TestBesideCompat: a process with compat runs as the GSE and JOB APIs demand it, so what they do not know is a fault.
func TestBesideCompat(t *testing.T) {
	const stands = "stands beside compat, with which the process runs as the GSE and JOB APIs demand it: remove compat, or use "
	for text, want := range map[string]string{
		"process_name: x": "", "start: x, process_name: x": "", "start: x, process_name: x, stop: y, reload: z": "",
		"start: x, process_name: x, health: {exec: y}": "", "start: x, process_name: x, thresholds: {cpu: 5%}": "",
		"start: x, process_name: x, expected_instances: 1000000": "",
		"start: x, process_name: x, schedule: {}":                "", // a register of GSE may come without a timetable
		"run: x": "run: " + stands + "start",
		"start: x, process_name: x, timeouts: {start: 1s}": "timeouts: " + stands + "compat.op_timeout",
		"start: x, process_name: x, restart: {delay: 5s}":  "restart: " + stands + "compat.start_retries",
		"start: x, process_name: x, stop_signals: []":      "stop_signals: " + stands + "compat.stop_check_secs",
		"start: x, process_name: x, ready: {alive: 5s}":    "ready: " + stands + "compat.start_check_begin",
		"start: x, process_name: x, labels: {drover.stop_scope: process}": "labels.drover.stop_scope: is a field of its own: " +
			"expected stop_scope",
	} {
		checkCompat(t, text+", compat: {}", want)
	}
	for text, want := range map[string]string{
		"op_timeout: 0, start_check_begin: 5, start_check_end: 9": "", "labels: '[1]'": "", "log_path: l, config_path: ''": "",
		"labels: '{'":           "compat.labels: is not JSON",
		"op_timeout: -1":        "compat.op_timeout: is -1: expected 0 or more",
		"start_check_begin: -1": "compat.start_check_begin: is -1: expected 0 or more",
		"start_check_end: -1":   "compat.start_check_end: is -1: expected 0 or more",
		"stop_check_secs: -1":   "compat.stop_check_secs: is -1: expected 0 or more",
		"start_retries: -1":     "compat.start_retries: is -1: expected 0 or more",
		"start_interval: -1":    "compat.start_interval: is -1: expected 0 or more",
	} {
		checkCompat(t, "start: x, process_name: x, compat: {"+text+"}", want)
	}
}

func checkCompat(t *testing.T, process, want string) {
	t.Helper()
	_, err := processfile.Read("", fmt.Appendf(nil, "namespace: a\nprocesses:\n  b: {hosts: [h], user: u, directory: /, %s}\n", process))
	got := ""
	if err != nil {
		got = strings.TrimPrefix(err.Error(), "line 3: processes.b.")
	}
	if got != want {
		t.Errorf("%s:\n%s\nwant\n%s", process, got, want)
	}
}
