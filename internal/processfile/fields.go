package processfile

import (
	"strings"

	"drover/internal/spec"
)

// Class says when a changed field takes effect.
type Class string

// The classes: at once, without touching the running process; or at the next start of the process.
const (
	Live      Class = "live"
	AtRestart Class = "restart"
)

// Field describes one field of a process. The command `drover explain`, the reference page, the JSON Schema and the
// OpenAPI document are made from this table.
type Field struct {
	// Path is the name below the process, such as restart.delay.
	Path string
	// Value is the form of the value, Default the value of an absent field.
	Value, Default string
	// Class comes from spec.AtRestart. A part has the class of most of its fields.
	Class Class
	// Text is what the field does.
	Text string
	// Choices are all values of a field with a few fixed ones, or of each of its names.
	Choices []string
}

// Fields returns all fields of a process, in the order of the reference.
func Fields() (all []Field) {
	for _, part := range [][]Field{
		fieldsOfCommand(), fieldsOfEnvironment(), fieldsOfLimits(), fieldsOfKind(), fieldsOfReadiness(),
		fieldsOfRestart(), fieldsOfHealth(), fieldsOfStop(), fieldsOfLog(), fieldsOfRest(), fieldsOfRollout(),
		fieldsOfCompat(),
	} {
		all = append(all, part...)
	}
	for i := range all {
		if all[i].Class = Live; spec.AtRestart(all[i].Path) {
			all[i].Class = AtRestart
		}
	}
	return all
}

// afterStates are the values of after.
func afterStates() []string { return []string{"started", "ready", "finished"} }

// FileFields returns the fields of a file above those of a process. They have no class.
func FileFields() []Field {
	return []Field{
		{Path: "namespace", Value: "name", Default: "required", Text: "The namespace of the processes."},
		{
			Path: "revision", Value: "number", Default: "none",
			Text: "The revision that drover get shows. An apply ignores it.",
		},
		{
			Path: "defaults", Value: "names with values", Default: "none",
			Text: "Fields for all processes of the file: any but " + strings.Join(withoutDefault(), ", ") +
				". A process takes " + strings.Join(merging(), ", ") + " key by key from here. Any other field of the process replaces the default, " +
				"and null removes it.",
		},
		{
			Path: "processes", Value: "names with processes", Default: "required",
			Text: "The processes by name. drover explain without a field lists the fields of a process.",
		},
		{
			Path: "more", Value: "list of names with processes", Default: "none",
			Text: "Further forms of these processes, for other hosts. drover get -o json writes it; in YAML it is a document " +
				"of its own.",
		},
	}
}

func fieldsOfCommand() []Field {
	return []Field{
		{
			Path: "hosts", Value: "list of hosts or patterns, or `{select: EXPRESSION}`", Default: "required",
			Text: "The hosts that have the process: host ids, CLOUD:IP, or patterns with * and ?; or an expression about the " +
				"labels and facts of hosts, such as role=web,zone!=b.",
		},
		{
			Path: "run", Value: "command line", Default: "none",
			Text: "The command line of a foreground process. The command is the process; drover knows it from its birth. " +
				"A line with shell syntax ($, ~, *, ?, [, |, &, ;, <, >, parentheses, backquotes) runs under /bin/sh -c, and so " +
				"do several lines; write exec to leave no shell. drover splits every other line as a shell would and runs it " +
				"without one. " +
				"A process has either run or start.",
		},
		{
			Path: "start", Value: "command line", Default: "none",
			Text: "The command line that starts a daemon and returns. pid_file or process_name says who the daemon is.",
		},
		{
			Path: "pid_file", Value: "absolute path", Default: "none",
			Text: "The file with the pid of the daemon that start leaves.",
		},
		{
			Path: "process_name", Value: "name", Default: "none",
			Text: "The base name of the executable. If a process with run has another one, its start and drover drift tell both. " +
				"A start without pid_file needs the name: drover then finds the process that it has started by this name and directory.",
		},
		{
			Path: "directory", Value: "absolute path", Default: "/",
			Text: "The working directory of all commands. It must exist.",
		},
		{
			Path: "preflight", Value: "{run, timeout}", Default: "none",
			Text: "A command that checks whether the process could start, such as nginx -t. It runs before each restart and reload, and by " +
				"drover preflight. If it fails, drover ends nothing: the process runs on.",
		},
		{Path: "preflight.run", Value: "command line", Default: "required", Text: "The command."},
		{
			Path: "preflight.timeout", Value: "duration", Default: "30s",
			Text: "drover ends the command after this time; that is a failure.",
		},
		{
			Path: "before_start", Value: "{run, timeout}", Default: "none",
			Text: "A command that runs before each start. If it fails, the process does not start.",
		},
		{Path: "before_start.run", Value: "command line", Default: "required", Text: "The command."},
		{
			Path: "before_start.timeout", Value: "duration", Default: "60s",
			Text: "drover ends the command after this time; that is a failure.",
		},
		{
			Path: "version_command", Value: "command line", Default: "none",
			Text: "A command that prints the version of the process on one line.",
		},
	}
}

func fieldsOfEnvironment() []Field {
	return []Field{
		{
			Path: "user", Value: "account", Default: "the agent's",
			Text: "The account of the process: its name, or in quotes the number (uid) of an account of the host.",
		},
		{
			Path: "group", Value: "group", Default: "the user's",
			Text: "The primary group of the process.",
		},
		{
			Path: "groups", Value: "list of groups", Default: "the user's",
			Text: "The supplementary groups. They replace those of the user; [] means none.",
		},
		{
			Path: "environment", Value: "names with strings", Default: "none",
			Text: "Variables beside the fixed small environment (HOME, LANG, LOGNAME, PATH, SHELL, TZ, USER) and " +
				"DROVER_NAMESPACE, DROVER_NAME, DROVER_HOST and, in a copy, DROVER_COPY.",
		},
		{
			Path: "environment_files", Value: "list of absolute paths", Default: "none",
			Text: "Files on the host with lines NAME=value, read as systemd reads an EnvironmentFile: # and ; begin a comment, and quotes and " +
				"backslashes are removed. A backslash at the end joins two lines. Other lines are an error. A start fails without the file, " +
				"unless a - stands before its path. drover reads the files at each start. Their values never leave the host. " +
				"environment counts before the files, and a later file before an earlier one.",
		},
		{
			Path: "umask", Value: "octal digits in quotes", Default: "the host's",
			Text: "The file mode creation mask, such as \"022\". Without quotes YAML reads it as a number.",
		},
		{
			Path: "nice", Value: "-20 to 19", Default: "the host's",
			Text: "The scheduling priority; a higher number yields more.",
		},
		{
			Path: "oom_score_adjust", Value: "-1000 to 1000", Default: "the host's",
			Text: "How soon the kernel ends the process when memory is short; -1000 means never.",
		},
		{
			Path: "no_new_privileges", Value: "true or false", Default: "false",
			Text: "With true the process and its children gain no rights by executing a file.",
		},
		{
			Path: "capabilities", Value: "list of names", Default: "the account's",
			Text: "The capabilities that the process keeps, such as NET_BIND_SERVICE; [] means none.",
		},
		{
			Path: "runtime_directory", Value: "name", Default: "none",
			Text: "A directory below /run that drover makes for the account before a start and removes after the end. " +
				"With copies each has its own: NAME@1 and so on.",
		},
	}
}

func fieldsOfLimits() []Field {
	kernel := func(path, value, text string) Field {
		return Field{Path: "limits." + path, Value: value, Default: "none", Text: text}
	}
	return []Field{
		{
			Path: "limits", Value: "names with values", Default: "none",
			Text: "Limits that the kernel enforces.",
		},
		kernel("memory", "size", "Memory of the process and its children, by the control group."),
		kernel("cpu", "percent",
			"Processor time of the process and its children, in percent of one processor."),
		kernel("tasks", "number", "Processes and threads of the process and its children."),
		kernel("open_files", "number or infinity", "Open descriptors of each process (RLIMIT_NOFILE). infinity is the most that the kernel allows."),
		kernel("core_size", "size or infinity", "The size of a core file (RLIMIT_CORE)."),
		kernel("locked_memory", "size or infinity", "Memory that a process may lock (RLIMIT_MEMLOCK)."),
		kernel("stack_size", "size or infinity", "The stack of the main thread (RLIMIT_STACK)."),
		kernel("processes", "number or infinity", "Processes of the account on the host (RLIMIT_NPROC)."),
		kernel("file_size", "size or infinity", "The size of a file that a process writes (RLIMIT_FSIZE)."),
		{
			Path: "limits.strict", Value: "true or false", Default: "false",
			Text: "Whether a start fails on a host that cannot give open_files and the limits below it, nice and oom_score_adjust exactly. " +
				"Otherwise the process gets the nearest values, and drover why tells them.",
		},
		{
			Path: "thresholds", Value: "names with values", Default: "none",
			Text: "Limits that drover judges: it ends and relaunches a process that stays above one.",
		},
		{
			Path: "thresholds.memory", Value: "percent", Default: "none",
			Text: "Memory, in percent of the host.",
		},
		{
			Path: "thresholds.cpu", Value: "percent", Default: "none",
			Text: "Processor time, in percent of the host.",
		},
		{
			Path: "copies", Value: "number from 1 to 1000", Default: "none",
			Text: "The number of copies of a process with run: NAME@1 to NAME@N, each a process of its own with its " +
				"number in DROVER_COPY. Without copies there is one process NAME. copies: 1 is NAME@1.",
		},
	}
}

func fieldsOfKind() []Field {
	return []Field{
		{
			Path: "once", Value: "true or false", Default: "false",
			Text: "With true the process runs once for each start, and is not relaunched.",
		},
		{
			Path: "on_demand", Value: "true or false", Default: "false",
			Text: "As once, and no apply starts the process: it runs when somebody or a schedule starts it.",
		},
		{
			Path: "schedule", Value: "{cron or every, …}", Default: "none",
			Text: "The process runs at times instead of always.",
		},
		{
			Path: "schedule.cron", Value: "five fields", Default: "none",
			Text: "A crontab expression: minute, hour, day of month, month, day of week. `CRON_TZ=Asia/Tokyo` may stand before it " +
				"in place of time_zone.",
		},
		{
			Path: "schedule.every", Value: "duration in whole seconds", Default: "none",
			Text: "The time between two runs, from begin to begin.",
		},
		{
			Path: "schedule.time_zone", Value: "name", Default: "the host's",
			Text: "The time zone of cron, such as Asia/Shanghai.",
		},
		{
			Path: "schedule.overlap", Value: "skip, wait or replace", Default: "skip",
			Choices: []string{"skip", "wait", "replace"},
			Text:    "What happens to a run that is due while the one before still runs.",
		},
		{
			Path: "schedule.missed", Value: "skip or run-once", Default: "skip",
			Choices: []string{"skip", "run-once"}, Text: "What happens to runs that were due while the host was down.",
		},
		{
			Path: "schedule.jitter", Value: "duration in whole seconds", Default: "0s",
			Text: "Each run begins later by a random time up to this one.",
		},
		{
			Path: "time_limit", Value: "duration", Default: "none",
			Text: "With once or schedule: drover ends a run after this time.",
		},
	}
}

func fieldsOfReadiness() []Field {
	return []Field{
		{
			Path: "ready", Value: "one check, within, on_timeout", Default: "{alive: 1s}",
			Text: "When a start has succeeded and a relaunch counts as up; until then the status is not-ready. It has " +
				"exactly one of notify, notify_fd, http, tcp, log, exec and alive.",
		},
		{
			Path: "ready.notify", Value: "true", Default: "none",
			Text: "The process sends READY=1 to the socket in NOTIFY_SOCKET, as sd_notify(3) does.",
		},
		{
			Path: "ready.notify_fd", Value: "number from 3 to 255", Default: "none",
			Text: "The process, which needs run, writes a newline to this descriptor.",
		},
		{
			Path: "ready.http", Value: "URL", Default: "none",
			Text: "The URL answers a GET with a status from 200 to 399. Certificates are verified, unless insecure is true.",
		},
		{
			Path: "ready.insecure", Value: "true or false", Default: "false",
			Text: "With true drover accepts every certificate of an https URL, also one that has expired or that is for " +
				"another name.",
		},
		{
			Path: "ready.tcp", Value: "host:port", Default: "none",
			Text: "The address accepts a connection.",
		},
		{
			Path: "ready.log", Value: "regular expression (RE2)", Default: "none",
			Text: "A line of the output, or of log_file, matches.",
		},
		{
			Path: "ready.exec", Value: "command line", Default: "none",
			Text: "The command exits with status 0.",
		},
		{
			Path: "ready.alive", Value: "duration", Default: "1s",
			Text: "The process has run for this time; 0s means that it is ready as soon as it runs.",
		},
		{
			Path: "ready.within", Value: "duration in whole seconds", Default: "30s",
			Text: "How long drover waits. After that the start has failed. EXTEND_TIMEOUT_USEC= extends it.",
		},
		{
			Path: "ready.on_timeout", Value: "report or stop", Default: "report",
			Choices: []string{"report", "stop"},
			Text: "With report the process runs on and is not-ready. With stop drover ends it, and a relaunch counts as " +
				"one that did not last.",
		},
		{
			Path: "after", Value: "processes with started, ready or finished", Default: "none",
			Choices: afterStates(),
			Text:    "What must hold before a start: NAME or NAMESPACE/NAME of a process on the same host, and its state.",
		},
	}
}

func fieldsOfRestart() []Field {
	return []Field{
		{
			Path: "restart", Value: "names with values", Default: "as below",
			Text: "The policy of relaunches. A process with once or schedule has none.",
		},
		{
			Path: "restart.when", Value: "always, on-failure or never", Default: "always",
			Choices: []string{"always", "on-failure", "never"},
			Text:    "With on-failure a process that succeeds is finished.",
		},
		{
			Path: "restart.delay", Value: "duration", Default: "1s",
			Text: "The pause before the second relaunch; the first one after a healthy run is at once.",
		},
		{
			Path: "restart.max_delay", Value: "duration", Default: "5m",
			Text: "The longest pause; at least delay.",
		},
		{
			Path: "restart.factor", Value: "number from 1 to 100", Default: "2",
			Text: "Each pause is this many times as long as the one before.",
		},
		{
			Path: "restart.jitter", Value: "percent", Default: "10%",
			Text: "Each pause is longer or shorter by a random share up to this one.",
		},
		{
			Path: "restart.reset_after", Value: "duration", Default: "1m",
			Text: "A run of this length is healthy: the count and the pauses begin anew.",
		},
		{
			Path: "restart.give_up_after", Value: "number or never", Default: "never",
			Text: "drover gives the process up after this many relaunches without a healthy run.",
		},
		{
			Path: "restart.success_codes", Value: "list of exit codes and signals", Default: "[0]",
			Text: "The ends that count as success, such as [0, TERM].",
		},
		{
			Path: "restart.never_on", Value: "list of exit codes and signals", Default: "[]",
			Text: "The ends after which drover does not relaunch.",
		},
	}
}

func fieldsOfHealth() []Field {
	return []Field{
		{
			Path: "health", Value: "one check, every, timeout, failures, grace, action", Default: "none",
			Text: "The check of a running process. It has exactly one of exec, http, tcp and watchdog.",
		},
		{
			Path: "health.exec", Value: "command line", Default: "none",
			Text: "The command exits with status 0.",
		},
		{
			Path: "health.http", Value: "URL", Default: "none",
			Text: "The URL answers a GET with a status from 200 to 399. Certificates are verified, unless insecure is true.",
		},
		{
			Path: "health.insecure", Value: "true or false", Default: "false",
			Text: "With true drover accepts every certificate of an https URL, also one that has expired or that is for " +
				"another name.",
		},
		{
			Path: "health.tcp", Value: "host:port", Default: "none",
			Text: "The address accepts a connection.",
		},
		{
			Path: "health.watchdog", Value: "true", Default: "none",
			Text: "The process sends WATCHDOG=1 to NOTIFY_SOCKET at least once in every.",
		},
		{
			Path: "health.every", Value: "duration in whole seconds", Default: "60s",
			Text: "The time between two checks.",
		},
		{
			Path: "health.timeout", Value: "duration in whole seconds", Default: "5s",
			Text: "A check that lasts longer has failed.",
		},
		{
			Path: "health.failures", Value: "number from 1 to 1000", Default: "3",
			Text: "This many failed checks in a row make the process unhealthy.",
		},
		{
			Path: "health.grace", Value: "duration in whole seconds", Default: "0s",
			Text: "Failed checks do not count for this time after a start.",
		},
		{
			Path: "health.action", Value: "report or restart", Default: "report",
			Choices: []string{"report", "restart"}, Text: "What drover does with an unhealthy process.",
		},
	}
}

func fieldsOfStop() []Field {
	return []Field{
		{
			Path: "stop", Value: "command line", Default: "none",
			Text: "The command that stops the process. After it the process has timeouts.stop before the first signal.",
		},
		{
			Path: "stop_signals", Value: "list of \"SIGNAL DURATION\"", Default: "[TERM 10s, KILL]",
			Text: "The signals of a stop, each with the time until the next one. Without KILL a process that remains is " +
				"a failed stop. Real-time signals are RTMIN+N and RTMAX-N, as kill(1) counts them.",
		},
		{
			Path: "stop_scope", Value: "tree or process", Default: "tree",
			Choices: []string{"tree", "process"},
			Text:    "What a stop ends: everything that the run has left, or the main process alone.",
		},
		{
			Path: "before_stop", Value: "{run, wait}", Default: "none",
			Text: "A command that takes the process out of use before a stop, such as out of a load balancer.",
		},
		{Path: "before_stop.run", Value: "command line", Default: "required", Text: "The command."},
		{
			Path: "before_stop.wait", Value: "duration", Default: "0s",
			Text: "The pause between the command and the stop.",
		},
		{
			Path: "reload", Value: "command line, or {signal: NAME}", Default: "none",
			Text: "How the process reads its configuration again.",
		},
		{
			Path: "timeouts", Value: "names with durations", Default: "as below",
			Text: "How long the commands of the process may run.",
		},
		{
			Path: "timeouts.start", Value: "duration in whole seconds", Default: "60s",
			Text: "The start command.",
		},
		{
			Path: "timeouts.stop", Value: "duration", Default: "60s",
			Text: "The stop command, and the process after it.",
		},
		{Path: "timeouts.reload", Value: "duration", Default: "60s", Text: "The reload command."},
		{Path: "timeouts.version", Value: "duration", Default: "5s", Text: "The version command."},
	}
}

func fieldsOfLog() []Field {
	return []Field{
		{
			Path: "log", Value: "names with values", Default: "as below",
			Text: "What drover keeps of the standard output and the standard error.",
		},
		{Path: "log.max_size", Value: "size", Default: "10MiB", Text: "A larger file is rotated."},
		{Path: "log.keep", Value: "number from 1 to 1000", Default: "5", Text: "How many files remain."},
		{Path: "log.max_age", Value: "duration", Default: "30d", Text: "drover removes older files."},
		{
			Path: "log.compress", Value: "true or false", Default: "true",
			Text: "drover compresses files that are rotated.",
		},
		{
			Path: "log.pipe", Value: "true or false", Default: "false",
			Text: "The run command writes to pipes, not to files: for a program that opens /dev/stdout or /dev/stderr by " +
				"name. While no agent runs, it waits when a pipe is full, at 1 MiB.",
		},
		{
			Path: "log_file", Value: "absolute path", Default: "none",
			Text: "A log that the process writes itself: a file, or a directory whose newest file counts. drover shows " +
				"it, and never rotates or removes it.",
		},
	}
}

func fieldsOfRest() []Field {
	return []Field{
		{
			Path: "config_files", Value: "list of {path, sha256 or md5}", Default: "none",
			Text: "Files of the process whose checksums drover compares.",
		},
		{Path: "config_files.path", Value: "absolute path", Default: "required", Text: "The file."},
		{
			Path: "config_files.sha256", Value: "64 hexadecimal digits", Default: "none",
			Text: "Its expected SHA-256.",
		},
		{
			Path: "config_files.md5", Value: "32 hexadecimal digits", Default: "none",
			Text: "Its expected MD5.",
		},
		{
			Path: "labels", Value: "names with strings", Default: "none",
			Text: "Labels to select processes by. They grant no rights.",
		},
		{
			Path: "alarm_id", Value: "number", Default: "0",
			Text: "The report id in alarms (GSE report_id).",
		},
		{
			Path: "expected_instances", Value: "number from 1", Default: "1",
			Text: "How many processes with process_name there should be of a daemon with start. A smaller number shows in the " +
				"status. For several processes with run use copies.",
		},
		{
			Path: "leave", Value: "keep or stop", Default: "keep", Choices: []string{"keep", string(spec.LeaveStop)},
			Text: "What becomes of the process on a host that hosts.select no longer matches: the host keeps it, or " +
				"drover stops and removes it.",
		},
		{
			Path: "drift", Value: "report or mend", Default: "report",
			Choices: []string{"report", string(spec.DriftMend)},
			Text: "What drover does if the running process differs from its spec: it reports the difference, or also " +
				"restarts the process.",
		},
	}
}

func fieldsOfCompat() []Field {
	field := func(path, value, text string) Field {
		return Field{
			Path: strings.TrimSuffix("compat."+path, "."), Value: value, Default: "none",
			Text: text,
		}
	}
	return []Field{
		field("", "names with values", "What only the GSE and JOB APIs know of a process. With it drover runs the process "+
			"as these APIs demand it. drover get writes it for processes of these APIs; do not write it yourself."),
		field("restart_cmd", "command line", "The command of a restart."),
		field("kill_cmd", "command line", "The command of drover kill. Without it drover sends KILL."),
		field("op_timeout", "seconds", "The time limit of each command."),
		field("start_check_begin", "seconds", "When the process must have appeared; it must run on until start_check_end."),
		field("start_check_end", "seconds", "The end of the check of a start, if it is after start_check_begin."),
		field("stop_check_secs", "seconds", "The time in which the process must end after its stop command."),
		field("start_retries", "number", "How often drover relaunches the process in a row."),
		field("start_interval", "seconds", "The pause before a relaunch."),
		field("config_path", "text", "GSE config_path. It has no effect."),
		field("log_path", "text", "GSE log_path, if it is not an absolute path."),
		field("resource", "names with numbers", "Numbers of GSE resource that limit nothing."),
		field("resource.cpu", "number", "A limit that is not from 0 to 100 percent."),
		field("resource.mem", "number", "A limit that is not from 0 to 100 percent."),
		field("resource.fd", "number", "GSE resource.fd. It limits nothing."),
		field("resource.disk", "number", "GSE resource.disk. It limits nothing."),
		field("resource.net", "number", "GSE resource.net. It limits nothing."),
		field("crontab_rule", "text", "A crontab rule of a process without schedule. It has no effect."),
		field("cycle_time", "seconds", "JOB cycle_time of a process without schedule. It has no effect."),
		field("kind_assumed", "true or false", "The caller did not say whether the process is resident."),
		field("func_id", "text", "JOB func_id."),
		field("instance_id", "text", "JOB instance_id."),
		field("contact", "text", "JOB contact."),
		field("labels", "JSON", "Labels that are not names with strings."),
	}
}
