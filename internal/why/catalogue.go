package why

import (
	"slices"

	"drover/internal/process"
)

// Entry is what is known of one kind of cause, whatever the process.
type Entry struct {
	ID process.CauseID
	// Title is a few words, Meaning one sentence, Remedy what an operator can do.
	Title, Meaning, Remedy string
	// Severity is that of a process which should run and does not.
	Severity Severity
}

// Page is where the entry is described in full, below the root of the repository.
func (e Entry) Page() string { return "docs/why/" + string(e.ID) + ".md" }

// Entries lists every cause there is, by theme.
func Entries() []Entry {
	return slices.Concat(byRequest(), ends(), troubles(), limits(), starts(), findings(), timetables(), server())
}

// Catalogue is all causes, and the judge who knows them. It does not change, and may be used from any goroutine.
type Catalogue struct {
	entries map[process.CauseID]Entry
	ends    map[process.CauseID]bool
}

// Open returns the catalogue. Whoever judges many processes opens it once.
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

// Lookup finds an entry.
func (c Catalogue) Lookup(id process.CauseID) (Entry, bool) {
	e, ok := c.entries[id]
	return e, ok
}

// byRequest are the states that somebody has asked for.
func byRequest() []Entry {
	return []Entry{
		{
			process.CauseStopped, "Stopped by an operation", "Somebody stopped or killed it, so it stays down.",
			"Nothing, or `drover start` it.", Notice,
		},
		{
			process.CauseUnhosted, "Not hosted", "It was taken out of hosting: nobody starts it again when it ends.",
			"Nothing, or `drover host` it to have it watched again.", Notice,
		},
		{
			process.CauseNeverStarted, "Never started", "It is registered, and nobody has started it yet.",
			"`drover start` it.", Notice,
		},
		{
			process.CauseFinished, "Finished", "A single run is over; it is not started again.",
			"Look at its exit status; `drover start` runs it once more.", Notice,
		},
		{
			process.CauseOutside, "Started from outside",
			"It was started by somebody else than drover, who watches it all the same.",
			"Find out who starts it; `drover restart` puts it under drover's own run.", Notice,
		},
		{
			process.CauseNotInForce, "Not in force", "Its spec asks for something that is stored and not done.",
			"Take it out of the spec, or give the host what it lacks.", Notice,
		},
		{
			process.CauseOperating, "Operation under way", "An operation holds it at this moment.",
			"Wait for the task, or follow it with `drover task watch`.", Notice,
		},
	}
}

// ends are the ways in which a process ends by itself.
func ends() []Entry {
	return []Entry{
		{
			process.CauseExited, "Ended with status 0", "It ended by itself, and as if all was well.",
			"Let its start command leave a daemon behind, or make it a single run.", Warning,
		},
		{
			process.CauseExitStatus, "Ended with an error", "It ended by itself with an exit status other than 0.",
			"Read its last output and its log, and set right what it names; then `drover retry`.", Warning,
		},
		{
			process.CauseSignal, "Killed by a signal", "A signal ended it that drover has not sent.",
			"Find out who sends it: an operator, a script, another supervisor.", Warning,
		},
		{
			process.CauseCore, "Crashed", "A fault of the program ended it, and left a memory image.",
			"Take the core and the version to those who make the program.", Warning,
		},
		{
			process.CauseOOM, "Out of memory", "The kernel's out-of-memory killer ended it.",
			"Give it, or the host, more memory, raise its hard limit, or find the leak.", Warning,
		},
		{
			process.CauseUnseen, "Ended unseen", "It is gone, and nobody saw how it ended.",
			"Look into its own log and that of the kernel at that time.", Warning,
		},
	}
}

// troubles are what goes wrong between two lives of a process.
func troubles() []Entry {
	return []Entry{
		{
			process.CauseRebooted, "Host rebooted", "The host was restarted, and it has not come up again yet.",
			"Wait: hosted processes are started a few at a time; else look at what its start says.", Warning,
		},
		{
			process.CauseFlapping, "Flapping", "It was started again too often lately, whatever it is doing right now.",
			"Treat it as down: look at how it ends with `drover events`.", Warning,
		},
		{
			process.CauseHeldBack, "Start held back",
			"It will be started as soon as the host's budget of restarts has room.",
			"Wait, and find out what made so many processes of the host end at once.", Warning,
		},
		{
			process.CauseStopFailed, "Would not stop",
			"It was told to stop and was still there when its time was over.",
			"See what it waits for; give it more time, or `drover kill` it.", Critical,
		},
	}
}

// limits are what is exceeded.
func limits() []Entry {
	return []Entry{
		{
			process.CauseCPULimit, "Over its processor limit",
			"It used more of the processors than its spec allows, and was ended for it.",
			"Find out what it computes, or raise `limits.cpu`; then `drover retry` if it was given up.", Warning,
		},
		{
			process.CauseMemLimit, "Over its memory limit",
			"It used more memory than its spec allows, and was ended for it.",
			"Find out what it keeps, or raise `limits.mem`; then `drover retry` if it was given up.", Warning,
		},
		{
			process.CauseGroupLimit, "Over the limit of its group",
			"The processes of its namespace used more than their pool, and it was chosen to be ended.",
			"Raise the pool, or move processes elsewhere; the scores say why it was this one.", Warning,
		},
	}
}

// starts are the ways in which a start fails.
func starts() []Entry {
	return []Entry{
		{
			process.CauseNoStartCommand, "No start command", "Its spec has no command that could start it.",
			"Register it with a start command.", Critical,
		},
		{
			process.CauseCommandMissing, "Command not found", "The shell could not find the command (status 127).",
			"Install the program, or correct the path in the command.", Critical,
		},
		{
			process.CauseCommandDenied, "Command not executable",
			"The shell found the command and could not run it (status 126).",
			"Make the file executable for the user of the process, on a file system that allows it.", Critical,
		},
		{
			process.CauseCommandFailed, "Command failed", "The command ended with an error of its own.",
			"Run the command by hand as that user; its output says what is wrong.", Critical,
		},
		{
			process.CauseCommandTimeout, "Command timed out",
			"The command had not ended when its time was over, and was ended.",
			"Let it put itself in the background, or raise `policy.op_timeout`.", Critical,
		},
		{
			process.CauseNoDirectory, "No such directory",
			"The directory that the command is to run in cannot be entered.",
			"Make the directory, give the user access to it, or correct `setup_path`.", Critical,
		},
		{
			process.CauseNoUser, "No such user",
			"The account that the process is to run as does not exist on the host.",
			"Make the account, or correct `user`.", Critical,
		},
		{
			process.CauseNeedsRoot, "Needs root",
			"The agent runs as an ordinary user and cannot run commands as another one.",
			"Run the agent as root, or the process as the agent's own user.", Critical,
		},
		{
			process.CausePolicy, "Refused by policy", "The owner of the host does not let drover do this there.",
			"Leave it, or have the owner of the host change the line of the policy that is named.", Critical,
		},
		{
			process.CauseNoPIDFile, "No pid file", "The process wrote no pid file where its spec says.",
			"Correct `pid_path`, or have the program write it there.", Critical,
		},
		{
			process.CauseOddPIDFile, "Odd pid file", "The pid file names nothing that could be this process.",
			"Remove the file once nothing runs, and see who writes it.", Critical,
		},
		{
			process.CauseFileHangs, "File system hangs",
			"A file of the process is on a file system that does not answer, so nobody can tell whether it runs.",
			"Bring the file server back, or keep `pid_path` on a disk of the host.", Critical,
		},
		{
			process.CauseOwnedByOther, "Hosted under another name",
			"What its pid file names is another process of drover already.",
			"Keep one of the two names: unhost or unregister the other.", Critical,
		},
		{
			process.CauseRival, "Managed by another drover",
			"Another drover on this host manages the process; this one only looks.",
			"Keep one of the two: unhost the process in the other, or stop that drover.", Warning,
		},
		{
			process.CauseDiedEarly, "Died in its start check",
			"It came up and had ended before its check time was over.",
			"Read its last output; run its start command by hand.", Critical,
		},
		{
			process.CauseNotReady, "Not ready", "It came up and was not ready by the end of its check time.",
			"See what its readiness waits for, or give it more time.", Critical,
		},
	}
}

// findings are what is wrong with a process that runs.
func findings() []Entry {
	return []Entry{
		{
			process.CauseUnhealthy, "Unhealthy", "It runs, and its health command says that it is not well.",
			"Run the health command by hand; restart it if that helps.", Warning,
		},
		{
			process.CauseDrift, "Configuration drifted", "A configuration file is not the one that the spec names.",
			"Put the file right and reload, or register the new checksum.", Warning,
		},
		{
			process.CauseWorkerOOM, "Worker out of memory",
			"It runs, and the kernel's out-of-memory killer has ended another process of its run.",
			"Give it more memory, raise its hard limit, or have fewer workers; see whether it has replaced the one that is gone.", Warning,
		},
		{
			process.CauseTooFew, "Too few instances", "Fewer of its processes run than the spec expects.",
			"Start the missing ones, or correct `policy.instances`.", Warning,
		},
	}
}

// timetables are the causes of periodic processes.
func timetables() []Entry {
	return []Entry{
		{
			process.CauseWaitsForSchedule, "Waits for its time", "It is periodic, and its next run is not due yet.",
			"Nothing, or `drover start` to run it now.", Notice,
		},
		{
			process.CauseRunFailed, "Run failed", "The last run of its timetable ended with an error.",
			"Read the run's output; the next run is due by the timetable.", Warning,
		},
		{
			process.CauseRunSkipped, "Run skipped", "A run was due while the one before it had not ended.",
			"Make the runs shorter or rarer, or choose another `schedule.overlap`.", Warning,
		},
		{
			process.CauseRunMissed, "Run missed", "A run was due while the host or its agent was away.",
			"`drover start` runs it now; `schedule.missed: run-once` does so by itself.", Warning,
		},
		{
			process.CauseBadSchedule, "Bad timetable", "Its timetable cannot be read, so it never runs.",
			"Correct the rule that the text names, and register it again.", Critical,
		},
	}
}

// server are the causes that only the server can find.
func server() []Entry {
	return []Entry{
		{
			process.CauseAgentAway, "Agent away",
			"The agent of the host does not answer, so nobody knows how the process is.",
			"See whether the host is up, the agent runs and reaches the server.", Critical,
		},
		{
			process.CauseAgentUnknown, "Agent unknown", "No agent has joined under the name of the host.",
			"Correct the host, or have its agent join.", Critical,
		},
		{
			process.CauseUnknown, "Process unknown", "The host has an agent, and that agent knows no such process.",
			"Correct the name, or register the process on the host.", Critical,
		},
		{
			process.CauseQueued, "Operation queued", "An operation on it waits and has not begun.",
			"See what it waits for with `drover task get`.", Warning,
		},
	}
}
