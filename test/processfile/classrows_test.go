package processfile_test

import "maps"

// classRow is how TestClasses changes one field. All values are lines of the process; a line replaces an earlier one
// with the same key, and "-KEY" removes that line. NOTE is a command that notes a start, NAME the name of the process.
type classRow struct {
	from, to string
	// beside is what the field needs. shown is the field of the plan, if that is another one.
	beside, shown string
	// nothing says that the change leaves the process as it is, noProcess why no process runs: the plan judges alone.
	nothing   bool
	noProcess string
	// creates says that the change makes another process.
	creates bool
	// limit is the line of /proc/PID/limits that the change sets to a value.
	limit, value string
}

// simple returns the row of a field whose value is on one line with its name.
func simple(field, from, to, beside string) classRow {
	return classRow{from: field + ": " + from, to: field + ": " + to, beside: beside}
}

// within returns the row of a field inside of another one, beside further ones there.
func within(outer, field, from, to, further string) classRow {
	if further != "" {
		further += ", "
	}
	value := func(v string) string { return "{" + further + field + ": " + v + "}" }
	return simple(outer, value(from), value(to), "")
}

// classRows returns a row for each field of a process. The addresses accept connections, and
// secure is a URL whose certificate nobody trusts.
func classRows(web, secure, first, second string) map[string]classRow {
	rows := map[string]classRow{}
	for _, part := range []map[string]classRow{
		rowsOfCommand(), rowsOfEnvironment(), rowsOfLimits(), rowsOfKind(), rowsOfReadiness(web, secure, first, second),
		rowsOfRestart(), rowsOfHealth(web, secure, first, second), rowsOfStop(), rowsOfRest(), rowsOfRollout(),
		rowsOfCompat(),
	} {
		maps.Copy(rows, part)
	}
	return rows
}

// daemon are the lines of a process that a start command leaves, and whose pid it writes to two files.
const daemon = "-run\nprocess_name: sleep\n" +
	"start: NOTE; sleep 1000 >/dev/null 2>&1 & echo $! >DIR/NAME-1.pid; cp DIR/NAME-1.pid DIR/NAME-2.pid"

func rowsOfCommand() map[string]classRow {
	return map[string]classRow{
		"hosts": {from: "", to: "hosts: [\"0:127.0.*\"]", nothing: true},
		"run":   {from: "", to: "run: NOTE; exec sleep 1001"},
		"start": {
			from: daemon, to: daemon + "; true", beside: "pid_file: DIR/NAME-1.pid",
		},
		"pid_file": simple("pid_file", "DIR/NAME-1.pid", "DIR/NAME-2.pid", daemon),
		"process_name": {
			from: "", to: "process_name: sleep",
		},
		"directory":            simple("directory", "/", "DIR", ""),
		"preflight":            {from: "", to: "preflight: {run: \"true\"}"},
		"preflight.run":        within("preflight", "run", "\"true\"", "exit 0", ""),
		"preflight.timeout":    within("preflight", "timeout", "9s", "8s", "run: \"true\""),
		"before_start":         {from: "", to: "before_start: {run: \"true\"}"},
		"before_start.run":     within("before_start", "run", "\"true\"", "exit 0", ""),
		"before_start.timeout": within("before_start", "timeout", "9s", "8s", "run: \"true\""),
		"version_command":      simple("version_command", "echo 1", "echo 2", ""),
	}
}

func rowsOfEnvironment() map[string]classRow {
	return map[string]classRow{
		"user":              simple("user", "root", "daemon", ""),
		"group":             simple("group", "root", "daemon", ""),
		"groups":            simple("groups", "[daemon]", "[bin, daemon]", ""),
		"environment":       simple("environment", "{A: \"1\"}", "{A: \"2\"}", ""),
		"environment_files": simple("environment_files", "[DIR/a.env]", "[DIR/b.env]", ""),
		"umask":             simple("umask", "\"022\"", "\"027\"", ""),
		"nice":              simple("nice", "1", "2", ""),
		"oom_score_adjust":  simple("oom_score_adjust", "10", "20", ""),
		"no_new_privileges": simple("no_new_privileges", "false", "true", ""),
		"capabilities":      simple("capabilities", "[KILL]", "[CHOWN, KILL]", ""),
		"runtime_directory": simple("runtime_directory", "drover-test-BASE-1", "drover-test-BASE-2", ""),
	}
}

// limited returns the row of a limit of setrlimit(2) that falls: only some agents may raise it.
func limited(field, from, to, line, value string) classRow {
	row := within("limits", field, from, to, "")
	if from == "" {
		row.from = ""
	}
	row.limit, row.value = line, value
	return row
}

func rowsOfLimits() map[string]classRow {
	return map[string]classRow{
		"limits":               limited("open_files", "", "400", "Max open files", "400"),
		"limits.strict":        within("limits", "strict", "false", "true", "open_files: 444"),
		"limits.memory":        within("limits", "memory", "512MiB", "600MiB", ""),
		"limits.cpu":           within("limits", "cpu", "150%", "120%", ""),
		"limits.tasks":         within("limits", "tasks", "100", "90", ""),
		"limits.open_files":    limited("open_files", "444", "400", "Max open files", "400"),
		"limits.core_size":     limited("core_size", "1MiB", "0", "Max core file size", "0"),
		"limits.locked_memory": limited("locked_memory", "2MiB", "1MiB", "Max locked memory", "1048576"),
		"limits.stack_size":    within("limits", "stack_size", "8MiB", "4MiB", ""),
		"limits.processes":     limited("processes", "10000", "9000", "Max processes", "9000"),
		"limits.file_size":     limited("file_size", "2GiB", "1GiB", "Max file size", "1073741824"),
		"thresholds":           {from: "", to: "thresholds: {memory: 90}"},
		"thresholds.memory":    within("thresholds", "memory", "90", "91", ""),
		"thresholds.cpu":       within("thresholds", "cpu", "90", "91", ""),
		"copies": {
			from: "copies: 1", to: "copies: 2", creates: true,
			noProcess: "each copy has a name of its own: TestCopies looks at their pids",
		},
	}
}

func rowsOfKind() map[string]classRow {
	const away = "between two runs no process is there"
	cron := func(field, from, to string) classRow {
		row := within("schedule", field, from, to, "")
		row.noProcess = away
		return row
	}
	// A run that is due while the one before still runs is skipped, so the first run stays.
	running := func(field, from, to string) classRow { return within("schedule", field, from, to, "every: 2s") }
	zone := within("schedule", "time_zone", "Asia/Shanghai", "Europe/Berlin", "cron: 0 3 * * *")
	zone.noProcess = away
	return map[string]classRow{
		"once":               {from: "", to: "once: true"},
		"on_demand":          {from: "", to: "on_demand: true", noProcess: "an apply neither starts nor restarts it"},
		"schedule":           within("schedule", "every", "1s", "2s", ""),
		"schedule.cron":      cron("cron", "0 3 * * *", "0 4 * * *"),
		"schedule.every":     within("schedule", "every", "1s", "3s", ""),
		"schedule.time_zone": zone,
		"schedule.overlap":   running("overlap", "skip", "wait"),
		"schedule.missed":    running("missed", "skip", "run-once"),
		"schedule.jitter":    running("jitter", "0s", "1s"),
		"time_limit":         simple("time_limit", "1h", "2h", "once: true"),
	}
}

func rowsOfReadiness(web, secure, first, second string) map[string]classRow {
	logging := within("ready", "log", "up", "^up", "")
	logging.beside = "log_file: DIR/NAME.log\nrun: NOTE; echo up >>DIR/NAME.log; exec sleep 1000"
	descriptor := within("ready", "notify_fd", "3", "4", "")
	descriptor.beside = "run: NOTE; echo >&3; exec sleep 1000"
	return map[string]classRow{
		"ready":            {from: "", to: "ready: {alive: 1ms}"},
		"ready.notify":     {from: "", to: "ready: {notify: true}"},
		"ready.notify_fd":  descriptor,
		"ready.http":       within("ready", "http", web, web+"/ready", ""),
		"ready.insecure":   within("ready", "insecure", "true", "false", "http: \""+secure+"\""),
		"ready.tcp":        within("ready", "tcp", first, second, ""),
		"ready.log":        logging,
		"ready.exec":       within("ready", "exec", "\"true\"", "exit 0", ""),
		"ready.alive":      within("ready", "alive", "0s", "10ms", ""),
		"ready.within":     within("ready", "within", "20s", "21s", "alive: 0s"),
		"ready.on_timeout": within("ready", "on_timeout", "report", "stop", "alive: 0s"),
		"after":            simple("after", "{run: started}", "{run: ready}", ""),
	}
}

func rowsOfRestart() map[string]classRow {
	row := func(field, from, to string) classRow { return within("restart", field, from, to, "") }
	return map[string]classRow{
		"restart":               {from: "", to: "restart: {delay: 2s}"},
		"restart.when":          row("when", "always", "on-failure"),
		"restart.delay":         row("delay", "1s", "2s"),
		"restart.max_delay":     row("max_delay", "1m", "2m"),
		"restart.factor":        row("factor", "2", "3"),
		"restart.jitter":        row("jitter", "10%", "20%"),
		"restart.reset_after":   row("reset_after", "1m", "2m"),
		"restart.give_up_after": row("give_up_after", "never", "5"),
		"restart.success_codes": row("success_codes", "[0]", "[0, TERM]"),
		"restart.never_on":      row("never_on", "[3]", "[3, KILL]"),
	}
}

func rowsOfHealth(web, secure, first, second string) map[string]classRow {
	row := func(field, from, to string) classRow { return within("health", field, from, to, "exec: \"true\"") }
	return map[string]classRow{
		"health":          {from: "", to: "health: {exec: \"true\"}"},
		"health.exec":     within("health", "exec", "\"true\"", "exit 0", ""),
		"health.http":     within("health", "http", web, web+"/health", ""),
		"health.insecure": within("health", "insecure", "true", "false", "http: \""+secure+"\""),
		"health.tcp":      within("health", "tcp", first, second, ""),
		"health.watchdog": {from: "health: {exec: \"true\"}", to: "health: {watchdog: true}"},
		"health.every":    row("every", "60s", "50s"),
		"health.timeout":  row("timeout", "5s", "4s"),
		"health.failures": row("failures", "3", "4"),
		"health.grace":    row("grace", "0s", "5s"),
		"health.action":   row("action", "report", "restart"),
	}
}

func rowsOfStop() map[string]classRow {
	return map[string]classRow{
		"stop":             simple("stop", "exit 0", "\"true\"", ""),
		"stop_signals":     simple("stop_signals", "[TERM 10s, KILL]", "[TERM 5s, KILL]", ""),
		"stop_scope":       simple("stop_scope", "tree", "process", ""),
		"before_stop":      {from: "", to: "before_stop: {run: \"true\"}"},
		"before_stop.run":  within("before_stop", "run", "\"true\"", "exit 0", ""),
		"before_stop.wait": within("before_stop", "wait", "0s", "1s", "run: \"true\""),
		"reload":           simple("reload", "{signal: HUP}", "{signal: USR1}", ""),
		"timeouts":         {from: "", to: "timeouts: {reload: 9s}"},
		"timeouts.start":   within("timeouts", "start", "60s", "50s", ""),
		"timeouts.stop":    within("timeouts", "stop", "60s", "50s", ""),
		"timeouts.reload":  within("timeouts", "reload", "60s", "50s", ""),
		"timeouts.version": within("timeouts", "version", "5s", "4s", ""),
	}
}

func rowsOfRest() map[string]classRow {
	const (
		sha = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" // of an empty file
		md5 = "d41d8cd98f00b204e9800998ecf8427e"
	)
	config := func(from, to string) classRow {
		row := simple("config_files", "[{path: "+from+"}]", "[{path: "+to+"}]", "")
		row.shown = "config_files" // a list changes as a whole
		return row
	}
	return map[string]classRow{
		"log":                 {from: "", to: "log: {keep: 4}"},
		"log.max_size":        within("log", "max_size", "10MiB", "9MiB", ""),
		"log.keep":            within("log", "keep", "5", "4", ""),
		"log.pipe":            within("log", "pipe", "false", "true", ""),
		"log.max_age":         within("log", "max_age", "30d", "20d", ""),
		"log.compress":        within("log", "compress", "true", "false", ""),
		"log_file":            simple("log_file", "DIR/a.conf", "DIR/b.conf", ""),
		"config_files":        {from: "", to: "config_files: [{path: DIR/a.conf, md5: " + md5 + "}]"},
		"config_files.path":   config("DIR/a.conf, md5: "+md5, "DIR/b.conf, md5: "+md5),
		"config_files.sha256": config("DIR/a.conf, sha256: "+sha, "DIR/a.conf, sha256: "+sha[32:]+sha[:32]),
		"config_files.md5":    config("DIR/a.conf, md5: "+md5, "DIR/a.conf, md5: "+md5[16:]+md5[:16]),
		"labels":              simple("labels", "{a: one}", "{a: two}", ""),
		"alarm_id":            simple("alarm_id", "1", "2", ""),
		"leave":               simple("leave", "keep", "stop", ""),
		"drift":               simple("drift", "report", "mend", ""),
		"expected_instances":  simple("expected_instances", "1", "2", daemon+"\npid_file: DIR/NAME-1.pid"),
	}
}

func rowsOfRollout() map[string]classRow {
	row := func(field, from, to string) classRow {
		return within("rollout", field, from, to, "batch: 1, canary: 1")
	}
	return map[string]classRow{
		"rollout":                 {from: "", to: "rollout: {batch: 1}"},
		"rollout.batch":           within("rollout", "batch", "1", "10%", ""),
		"rollout.canary":          within("rollout", "canary", "1", "2", "batch: 1"),
		"rollout.bake":            row("bake", "1s", "2s"),
		"rollout.pause":           row("pause", "1s", "2s"),
		"rollout.max_failures":    row("max_failures", "1", "5%"),
		"rollout.max_unavailable": row("max_unavailable", "1", "5%"),
		"rollout.order":           row("order", "zone", "os"),
		"rollout.spread":          row("spread", "zone", "os"),
		"rollout.canary_select":   row("canary_select", "os", "arch"),
		"rollout.skip_away":       row("skip_away", "false", "true"),
		"rollout.canary_approval": row("canary_approval", "false", "true"),
		"rollout.undo_on_failure": row("undo_on_failure", "false", "true"),
	}
}

func rowsOfCompat() map[string]classRow {
	rows := map[string]classRow{
		"compat":              {from: "", to: "compat: {contact: b}"},
		"compat.resource":     {from: "", to: "compat: {resource: {fd: 2}}"},
		"compat.kind_assumed": within("compat", "kind_assumed", "false", "true", ""),
		"compat.labels":       within("compat", "labels", `'{"a":1}'`, `'{"a":2}'`, ""),
	}
	for _, field := range []string{
		"restart_cmd", "kill_cmd", "config_path", "log_path", "crontab_rule", "func_id", "instance_id", "contact",
	} {
		rows["compat."+field] = within("compat", field, "a", "b", "")
	}
	for _, field := range []string{
		"op_timeout", "start_check_begin", "start_check_end", "stop_check_secs", "start_retries", "start_interval",
		"cycle_time",
	} {
		rows["compat."+field] = within("compat", field, "6", "7", "")
	}
	for _, field := range []string{"fd", "disk", "net"} {
		rows["compat.resource."+field] = simple("compat", "{resource: {"+field+": 1}}", "{resource: {"+field+": 2}}", "")
	}
	for _, field := range []string{"cpu", "mem"} {
		rows["compat.resource."+field] = simple("compat", "{resource: {"+field+": 101}}", "{resource: {"+field+": 102}}", "")
	}
	for path, row := range rows {
		row.beside = "-ready\ndirectory: /\npid_file: DIR/NAME-1.pid\n" + daemon
		rows[path] = row
	}
	return rows
}
