package why

import (
	"slices"

	"drover/internal/process"
)

// Entry describes one kind of cause, independent of the process.
type Entry struct {
	ID process.CauseID
	// Title has a few words, Meaning has one sentence, and Remedy tells an operator what to do.
	Title, Meaning, Remedy string
	// Severity applies to a process that should run and does not.
	Severity Severity
}

// Page returns the path of the entry's page, relative to the root of the repository.
func (e Entry) Page() string { return "docs/why/" + string(e.ID) + ".md" }

// Entries lists every cause, by theme.
func Entries() []Entry {
	return slices.Concat(byRequest(), ends(), troubles(), limits(), starts(), refusals(), findings(), timetables(),
		server())
}

// Catalogue holds all causes and judges processes by them. It never changes; any goroutine may use it.
type Catalogue struct {
	entries map[process.CauseID]Entry
	ends    map[process.CauseID]bool
}

// Open returns the catalogue. A caller that judges many processes opens it once.
func Open() Catalogue {
	c := Catalogue{entries: map[process.CauseID]Entry{}, ends: map[process.CauseID]bool{}}
	for _, e := range Entries() {
		c.entries[e.ID] = e
	}
	for _, e := range ends() {
		c.ends[e.ID] = true
	}
	return c
}

// Lookup returns the entry of a cause.
func (c Catalogue) Lookup(id process.CauseID) (Entry, bool) {
	e, ok := c.entries[id]
	return e, ok
}

// byRequest returns the causes of states that a caller requested.
func byRequest() []Entry {
	return []Entry{
		{
			process.CauseStopped, "Stopped by an operation",
			"An operation stopped or killed the process, so it stays down.",
			"If the stop was intended, do nothing; otherwise run `drover start`.", Notice,
		},
		{
			process.CauseUnhosted, "Not hosted",
			"drover no longer relaunches the process, because an operation ended its hosting.",
			"Do nothing, or run `drover host` so that drover keeps it running again.", Notice,
		},
		{
			process.CauseNeverStarted, "Never started", "The process is registered, but nobody has started it yet.",
			"Run `drover start`.", Notice,
		},
		{
			process.CauseFinished, "Finished", "The process has done its work; drover does not start it again.",
			"Check its exit status; `drover start` runs it again.", Notice,
		},
		{
			process.CauseOutside, "Started from outside",
			"Something other than drover started the process; drover watches it nevertheless.",
			"Find out what starts it; `drover restart` replaces it with a run of drover.", Notice,
		},
		{
			process.CauseNotInForce, "Not in force", "The spec asks for something that drover stores but does not do.",
			"Remove it from the spec, or give the host what it lacks.", Notice,
		},
		{
			process.CauseOperating, "Operation under way", "An operation on the process is under way.",
			"Wait for the task, or follow it with `drover task watch`.", Notice,
		},
	}
}

// ends returns the causes by which a process ends by itself.
func ends() []Entry {
	return []Entry{
		{
			process.CauseExited, "Ended with status 0",
			"The process ended by itself with exit status 0, as if it had nothing left to do.",
			"If the command is the process, give it as run; let a start command leave a daemon behind. For a process that may end, " +
				"set restart.when to on-failure, or once.", Warning,
		},
		{
			process.CauseExitStatus, "Ended with an error",
			"The process ended by itself with an exit status other than 0.",
			"Read its last output and its log, and fix the error; then run `drover retry`.", Warning,
		},
		{
			process.CauseSignal, "Killed by a signal", "A signal that drover did not send ended the process.",
			"Find the sender: an operator, a script or another supervisor.", Warning,
		},
		{
			process.CauseCore, "Crashed", "A fault of the program ended the process.",
			"Give the core dump, if there is one, and the version to the developers of the program.", Warning,
		},
		{
			process.CauseOOM, "Out of memory", "The kernel's out-of-memory killer ended the process.",
			"Give the process or the host more memory, raise the hard limit, or fix the leak.", Warning,
		},
		{
			process.CauseUnseen, "Ended unseen", "The process has gone, and drover did not see how it ended.",
			"Read its own log and the kernel log of that time.", Warning,
		},
	}
}

// troubles returns the causes of problems between two instances of a process.
func troubles() []Entry {
	return []Entry{
		{
			process.CauseRebooted, "Host rebooted", "The host rebooted, and the process is not up again yet.",
			"Wait: drover starts hosted processes a few at a time. If it stays down, read its start error.", Warning,
		},
		{
			process.CauseFlapping, "Flapping",
			"drover relaunched the process too often lately, whatever its state is now.",
			"Treat it as down: `drover events` shows how it ends.", Warning,
		},
		{
			process.CauseHeldBack, "Start held back",
			"drover will start the process as soon as the host's relaunch budget allows it.",
			"Wait, and find out why so many processes of the host ended at once.", Warning,
		},
		{
			process.CauseBreakerOpen, "Relaunch withheld on all hosts",
			"Too many hosts of the process failed at once from the same cause, so drover does not relaunch it on any host for now.",
			"Find the common cause; apply a good revision, start it by hand, or run `drover breaker reset`.", Warning,
		},
		{
			process.CauseWaitsForOthers, "Waits for other processes",
			"A process that this one is to start after is not up yet.",
			"Find out what the other process lacks: `drover why` with its name.", Warning,
		},
		{
			process.CauseStopFailed, "Would not stop",
			"A stop was requested, but the process was still alive at the end of its check time.",
			"Find out what it waits for; give it more time, or run `drover kill`.", Critical,
		},
	}
}

// limits returns the causes for exceeded limits.
func limits() []Entry {
	return []Entry{
		{
			process.CauseCPULimit, "Over its processor limit",
			"drover ended the process because it used more CPU than its spec allows.",
			"Find out what it computes, or raise `limits.cpu`; then run `drover retry` if drover gave it up.", Warning,
		},
		{
			process.CauseMemLimit, "Over its memory limit",
			"drover ended the process because it used more memory than its spec allows.",
			"Find out what it keeps, or raise `limits.mem`; then run `drover retry` if drover gave it up.", Warning,
		},
		{
			process.CauseGroupLimit, "Over the limit of its group",
			"The processes of its namespace used more than their pool, and drover ended this process.",
			"Raise the pool, or move processes to other hosts; the scores show why drover chose this process.", Warning,
		},
		{
			process.CauseTimeLimit, "Over its time limit",
			"drover ended the run because it took longer than `time_limit` allows.",
			"Find out what the run waited for, or raise `time_limit`.", Warning,
		},
	}
}

// starts returns the causes of failed starts.
func starts() []Entry {
	return []Entry{
		{
			process.CauseNoStartCommand, "No start command", "The spec has no start command.",
			"Register the process with a start command.", Critical,
		},
		{
			process.CauseCommandMissing, "Command not found", "The shell could not find the command (status 127).",
			"Install the program, or correct the path in the command.", Critical,
		},
		{
			process.CauseCommandDenied, "Command not executable",
			"The shell found the command but could not run it (status 126).",
			"Make the file executable for the account of the process, on a file system that allows it.", Critical,
		},
		{
			process.CauseCommandFailed, "Command failed", "The command ended with an exit status other than 0.",
			"Run the command by hand as that account; its output shows the error.", Critical,
		},
		{
			process.CauseCommandTimeout, "Command timed out",
			"The command ran longer than its time limit, so drover ended it.",
			"Let it run in the background, or raise `policy.op_timeout`.", Critical,
		},
		{
			process.CauseNoDirectory, "No such directory",
			"drover cannot enter the directory in which the command should run.",
			"Create the directory, give the account access to it, or correct `setup_path`.", Critical,
		},
		{
			process.CauseNoUser, "No such user", "The account of the process does not exist on the host.",
			"Create the account, or correct `user`.", Critical,
		},
		{
			process.CauseNoVariables, "Environment file unreadable",
			"drover cannot read a file of `environment_files`.",
			"Put the file in its place, or correct its rights or its lines.", Critical,
		},
		{
			process.CauseNeedsRoot, "Needs root",
			"The agent runs as an ordinary user and cannot run commands as another user.",
			"Run the agent as root, or the process as the agent's own user.", Critical,
		},
		{
			process.CausePolicy, "Refused by policy",
			"The policy of the host's owner does not allow drover to do this.",
			"Accept it, or ask the owner of the host to change the policy line that the text names.", Critical,
		},
		{
			process.CauseNoPIDFile, "No pid file", "The process did not write a pid file to the path in its spec.",
			"Correct `pid_path`, or configure the program to write the file there.", Critical,
		},
		{
			process.CauseOddPIDFile, "Odd pid file", "The pid file does not name a process that could be this one.",
			"Remove the file when nothing runs, and find out which program writes it.", Critical,
		},
		{
			process.CauseFileHangs, "File system hangs",
			"A file of the process is on a file system that does not respond, so drover cannot see its state.",
			"Repair the file server, or keep `pid_path` on a local disk.", Critical,
		},
	}
}

// refusals returns the causes of starts that somebody else or a check prevents.
func refusals() []Entry {
	return []Entry{
		{
			process.CauseOwnedByOther, "Hosted under another name",
			"The pid file names a process that drover already hosts under another name.",
			"Keep one of the two names: unhost or unregister the other.", Critical,
		},
		{
			process.CauseRival, "Managed by another drover",
			"Another drover on this host manages the process; this drover only watches it.",
			"Keep one of the two: unhost the process in the other drover, or stop that drover.", Warning,
		},
		{
			process.CauseCopy, "A copy runs",
			"A process with the same account and executable runs that drover did not start.",
			"Take it over with `drover apply --take-over`, or end it, or start beside it with `--beside`.", Critical,
		},
		{
			process.CauseKept, "Kept by another supervisor",
			"drover has taken the process over, and another supervisor still keeps it.",
			"Let the other supervisor go, as `drover import --adopt` printed.", Warning,
		},
		{
			process.CauseDiedEarly, "Died in its start check", "The process started, but ended within its check time.",
			"Read its last output, and run its start command by hand.", Critical,
		},
		{
			process.CauseNotReady, "Not ready", "The process runs, but it is not ready: not yet, or not in time.",
			"Find out what its readiness test waits for, or give it more time.", Critical,
		},
	}
}

// findings returns the causes of problems in a running process.
func findings() []Entry {
	return []Entry{
		{
			process.CauseUnhealthy, "Unhealthy", "The process runs, but its health command fails.",
			"Run the health command by hand; restart the process if that helps.", Warning,
		},
		{
			process.CauseDrift, "Configuration drifted", "A configuration file differs from the checksum in the spec.",
			"Restore the file and reload the process, or register the new checksum.", Warning,
		},
		{
			process.CauseWorkerOOM, "Worker out of memory",
			"The main process runs, but the kernel's out-of-memory killer ended another process of its run.",
			"Give it more memory, raise its hard limit, or run fewer workers. Check the lost worker.", Warning,
		},
		{
			process.CauseTooFew, "Too few instances", "Fewer instances of the process run than the spec expects.",
			"Start the missing instances, or correct `policy.instances`.", Warning,
		},
	}
}

// timetables returns the causes of periodic processes.
func timetables() []Entry {
	return []Entry{
		{
			process.CauseWaitsForSchedule, "Waits for its time",
			"The process is periodic, and its next run is not due yet.",
			"Do nothing, or run it now with `drover start`.", Notice,
		},
		{
			process.CauseRunFailed, "Run failed", "The last run of the timetable failed.",
			"Read the output of the run; the timetable continues.", Warning,
		},
		{
			process.CauseRunSkipped, "Run skipped", "A run was due before the previous run had ended.",
			"Make the runs shorter or less frequent, or choose another `schedule.overlap`.", Warning,
		},
		{
			process.CauseRunMissed, "Run missed", "A run was due while the host or its agent was down.",
			"Run it now with `drover start`; `schedule.missed: run-once` does so automatically.", Warning,
		},
		{
			process.CauseBadSchedule, "Bad timetable", "drover cannot read the timetable, so the process never runs.",
			"Correct the rule that the text names, and register the process again.", Critical,
		},
	}
}

// server returns the causes that only the server can find.
func server() []Entry {
	return []Entry{
		{
			process.CauseAgentAway, "Agent away",
			"The agent of the host does not respond, so drover does not know the state of the process.",
			"Check whether the host is up, and whether the agent runs and reaches the server.", Critical,
		},
		{
			process.CauseAgentUnknown, "Agent unknown", "No agent has joined under the name of the host.",
			"Correct the host name, or let its agent join.", Critical,
		},
		{
			process.CauseUnknown, "Process unknown", "The agent of the host does not know this process.",
			"Correct the name, or register the process on the host.", Critical,
		},
		{
			process.CauseQueued, "Operation queued", "An operation on the process waits and has not begun.",
			"Run `drover task get` to see what it waits for.", Warning,
		},
	}
}
