package words

// The texts of the console, the terminal screen, drover why and drover status. Each field is the name of a text.
//
//nolint:gochecknoglobals // they never change
var (
	// Page holds the words of the frame around every page of the console.
	Page = named[struct {
		Overview, Processes, Hosts, Tasks, Rollouts, Events                 Text
		SignIn, SignOut, SignInAs, SignInCommand, SignInCode, LinkUsed      Text
		Theme, Skip, Lost, Time, NotFound, Absent, Forbidden, Failed, Again Text
		Grants                                                              Text
		Apply, Clear, More, First, Nothing, NothingMatches, SameByCommand   Text
		Audit, Admin, Menu, Copy, Hidden, Person, Rejected, Above, Moved    Text
	}]("page")
	// Head holds the words of headings and columns.
	Head = named[struct {
		Process, Host, State, Since, PID, CPU, Memory, Restarts, Why, Version, Hosted, Message        Text
		CPUOfHost, MemoryOfHost                                                                       Text
		Task, Operation, Subject, User, Created, Progress, Outcome, Started, Took                     Text
		Address, Build, Labels, LastSeen, System, Notes, At, Event, Cause, Count, Severity            Text
		NothingRuns, NotEnded, ExitCode, Signal                                                       Text
		WrongNow, NothingWrong, RunningNow, LastChanges, Remedy, Details, Log, Spec, LastExit, Health Text
		Batch, Failures, Plan, Reason, Name, Namespace, Results, ByMessage, LastWords, Actions        Text
		FirstFailures, RevisionOf, Also, AllEvents, Ago, Yes, No, All                                 Text
	}]("head")
	// Act holds the words of actions and of their confirmation.
	Act = named[struct {
		Start, Stop, Restart, Reload, Kill, Retry, Host, Unhost              Text
		Ask, AskOne, AskHost                                                 Text
		Cancel, TypeCount, WrongCount, Targets, Away, NoneChosen, Chosen     Text
		ReasonAt, ReasonMissing                                              Text
		All, Pause, Resume, Abort, Approve, Undo, CancelTask, Missing        Text
		Confirm, How, AtOnce, InBatches, BatchHosts, Canaries, Bake, MayFail Text
		Canary, AbortNote, UndoNote, AgainFailed, RetryFailed, OnlyOwn       Text
		CopyHosts, Beside, WithAll                                           Text
	}]("act")
	// Keys holds the words of the keys of the console and of the palette.
	Keys = named[struct {
		Title, Help, Off, Close, Jump, JumpHint, NoPlace, Pages, Rows, Other         Text
		Palette, Filter, Next, Open, Mark, Range, Actions, Logs, Link, Command, Back Text
		Copied, Process, Host, Task, Rollout                                         Text
	}]("keys")
	// Usage holds the words about what processes use.
	Usage = named[struct {
		Title, Quarter, Hour, Day, Now, Most, Chart, None, Legend, Longer Text
	}]("usage")
	// Session holds the words of the sign-in and of the sessions of a person.
	Session = named[struct {
		TooMany, Again                                           Text
		Mine, Device, Address, Since, Seen, Here, End, EndOthers Text
	}]("session")
	// Device holds the words of the page on which a person signs a command line in.
	Device = named[struct {
		Title, Ask, Next, Wrong, TooMany, Warning, Name, Address, Until, Confirm, Reject, Done, Rejected Text
	}]("device")
	// Provider holds the words of the sign-in with an identity provider.
	Provider = named[struct {
		SignIn, Away, Refused, Stray, Unknown, Disabled, Old, Groups, OfGroups Text
	}]("provider")
	// Admin holds the words of the administration and of the page of a host.
	Admin = named[struct {
		People, Apps, Tokens, Receivers, Keys, Proxies, Server                         Text
		Rights, Right, RightHint, Grant, Revoke, Disable, Enable, Everything, NoRights Text
		NewPerson, NewApp, NewToken, Create, Note, Administrator, Link, LinkFor        Text
		Kind, Ends, Secrets, Rotate, KeepHours, SecretOf, Once, Limits                 Text
		Role, Area, Uses, Used, Hours, LabelHint, TokenMade, Paste, AddHosts, Arrive   Text
		Queue, Delivered, LastFailure, Test, TestDone, TestFailed, Key, Stage, Until   Text
		Trusted, Agents, Servers, NotesOf, NoNotes, Disk, Certificates                 Text
		OnHost, All, SetLabels, LabelsHint, Remove, RemoveNote, TypeName, WrongName    Text
		Joined, Policy, Load, Kernel, CPUs, Business, Sessions, NoSession              Text
		Type, NotTyped, ChangedMeanwhile, AddProxy, RemoveProxy, RemoveProxyNote       Text
		AnnounceKey, AnnounceNote, UseKey, UseNote, KeepDays, Force, Drop, DropNote    Text
		EndsAfter, MostTargets, Proxy, NoPolicy, Limited                               Text
	}]("admin")
	// Alarms holds the words of the receivers of alarms and of silences.
	Alarms = named[struct {
		NewReceiver, Save, Secret, SecretHint, SecretOf, Delete, DeleteNote                            Text
		Namespaces, Hosts, Labels, Severities, Kinds, Local                                            Text
		MailFrom, MailTo, MailUser, MailSubject, Template                                              Text
		Silences, SilenceNote, NewSilence, Silence, Hours, FromHint, From, Until, Cron, Zone, Withheld Text
		WithEnded, WithoutEnded                                                                        Text
	}]("alarms")
	// Audit holds the words of the audit log.
	Audit = named[struct {
		Own, App, Action, Outcome, Allowed, Denied, Request, Since, Until, Via, Changes Text
	}]("audit")
	// Fleet holds the words of pages about many processes.
	Fleet = named[struct {
		HostsOnline, HostsAway, OldestReport, Group, Rows, Total, Hosts, Changed, Wrong, Causes Text
		PageSize, Export, Paste, PasteHint, Find, Found, Unknown, MoreThere, Denied, Expired    Text
		LeftOut, PerNamespace, UnknownParameter, NoGroup, Builds, Columns                       Text
		ByProcess, ByHost, ByArea, ByNamespace, ByVersion, ByCause, ByState, Processes          Text
		Sort, SortKey, SortWrong, SortTotal, SortSince, LastHour, Trend                         Text
	}]("fleet")
	// Logs holds the words of the log of a process.
	Logs = named[struct {
		Hosts, Gap, Run, ThisRun, Stream, AllStreams, Find, Follow, New, Newer, Lost Text
		NewEvents, NewerEvents, LostEvents, EndFollow                                Text
	}]("logs")
	// Views holds the words of saved views.
	Views = named[struct {
		Saved, Save, Share, SharedIn, Remove, View                 Text
		NoSelection, BadName, TooLong, NoNamespace, Taken, TooMany Text
	}]("views")
	// Apply holds the words of the page that applies a process file.
	Apply = named[struct {
		Title, Load, Text, File, Plan, Again, Confirm, Edit, Reason           Text
		NoRestart, Prune, PruneNote, NoneStored, OneNamespace, Faults, Line   Text
		Steps, Restarts, NoSteps, TypeSteps, WrongSteps, Fields, Newer, Since Text
		Batches, Restored, Discard, AtOnce, AtRestart                         Text
	}]("apply")
	// Timeline holds the words about what happened to a process on a host.
	Timeline = named[struct {
		Title, SixHours, Quiet, Chart, Newest, Earlier Text
	}]("timeline")
	// Inside holds the words about one process on one host.
	Inside = named[struct {
		MainPID, Tree, Threads, Files, Owner, Group, Command, Directory, StartedBy, Revision, Stored Text
		AsOf, LastKnown, Then, Wrap, Download, Signal, SignalName, Scope, MainProcess, WholeTree     Text
		Check, Checked, Same, Unasked                                                                Text
	}]("inside")
	// Tabs holds the words of the page of a process on all its hosts.
	Tabs = named[struct {
		History, Revision, Revisions, WhoRuns, NoRevision, Difference, Older, Done, File, WrongOf, AndMore Text
	}]("tabs")
	// Screen holds the words of the terminal screen.
	Screen = named[struct {
		Live, Lost, Asking, ReadOnly, Filter, Jump, Marked, Matching, Of, Wrong                        Text
		NoneChosen, NoSuchPlace, NotHere, Copied, CopiedCommand, Sent, Ended, Sending, Leave           Text
		And, TypeCount, LogOf, RunBefore, Following, LogEnd, BytesLost, Below, List, Find, NextHit     Text
		RunOne, LogClose, NoneMarked, TooManyLogs, AskRollout, RolloutHosts, Stepped, NotNow, OneState Text
		NoCause, Also, NotAProcess, OneProcess, UnknownFlag, NoValue, OpenQuote                        Text
		FlagNotHere, NoHit, Keys, Back, Help                                                           Text
		AsOf, NotATime, BadValue, NoRight, NewRight, Once, Batches, Other, CopyCommand                 Text
		Asked, AskCancel, WasCancelled, NotForTask, FailedAgain, ManyOps                               Text
	}]("screen")
	// Explained are the words of drover why and drover status.
	Explained = named[struct {
		On, State, For, Also, Right, ManyHosts, ManyProcesses, More, Events, Remedy, Page Text
	}]("explained")
	span = named[struct {
		Day, Days, Hour, Hours, Minute, Minutes, Second, Seconds, Milliseconds Text
	}]("span")
	phrase = named[struct{ OperatorNote, DryRun, Comma Text }]("phrase")
)

// OperatorNote is the note of the user that the operator of a server's machine becomes.
//
//nolint:gochecknoglobals // it never changes
var OperatorNote = phrase.OperatorNote

// Note returns the note of a user in a language. People write notes themselves, except for OperatorNote.
func Note(note string, l Lang) string {
	if note == OperatorNote.In(English) {
		return OperatorNote.In(l)
	}
	return note
}
