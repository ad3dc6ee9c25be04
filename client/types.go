package client

import v1 "drover/api/v1"

// Error is a rejection by the server, and FieldError a part of it.
type (
	// Error is a rejection by the server, in the form of RFC 9457.
	Error = v1.Problem
	// FieldError is an error in one field of a request: "targets[0].name" in a body, or the name of a parameter.
	FieldError = v1.FieldError
)

// Processes and their hosts.
type (
	// Process is one process on one host, as the host last reported it.
	Process = v1.Process
	// ProcessDetail holds the details of a process beside its state.
	ProcessDetail = v1.ProcessDetail
	// ProcessCounts holds the numbers of processes: States by state, and Stale for processes of hosts that are away.
	ProcessCounts = v1.ProcessCounts
	// ProcessGroup is the processes with one value of a grouping.
	ProcessGroup = v1.ProcessGroup
	// Overview is the state of processes and hosts, with what is wrong by cause.
	Overview = v1.Overview
	// CauseGroup is the processes with one cause.
	CauseGroup = v1.CauseGroup
	// ProcessCount is a process with the number of its hosts or copies.
	ProcessCount = v1.ProcessCount
	// HostCounts counts hosts.
	HostCounts = v1.HostCounts
	// SelectionRequest asks for a Selection.
	SelectionRequest = v1.SelectionRequest
	// Selection is the exact processes that a caller has chosen.
	Selection = v1.Selection
	// SelectedProcess is one process on one host.
	SelectedProcess = v1.SelectedProcess
	// ProcessID names a process.
	ProcessID = v1.ProcessID
	// JoinedHost is a joined host.
	JoinedHost = v1.JoinedHost
	// HostTotals are numbers of hosts.
	HostTotals = v1.HostTotals
	// HostGroup is the number of hosts with one value of a label or a fact.
	HostGroup = v1.HostGroup
	// Facts describe a host, as its agent reports them.
	Facts = v1.Facts
	// LabelRequest sets and removes labels of hosts.
	LabelRequest = v1.LabelRequest
	// Labelled names labelled hosts, and counts the hosts of selections that change by it.
	Labelled = v1.Labelled
	// Reselected tells how many hosts come to match an expression, and how many cease to match.
	Reselected = v1.Reselected
	// Host is the host of a process.
	Host = v1.Host
	// Instance is a running process.
	Instance = v1.Instance
	// Answer is the last answer of a health or version command.
	Answer = v1.Answer
	// Drift is a configuration file whose MD5 differs from the MD5 in the spec.
	Drift = v1.ConfigDrift
	// Usage is the resource use of a process with its whole tree, in percent of the whole machine.
	Usage = v1.Usage
	// UsageHistory is what a process has used on one host.
	UsageHistory = v1.UsageHistory
	// UsageStep is what a process used in one step of a UsageHistory.
	UsageStep = v1.UsageStep
	// Run is one run of a periodic or single-run process; EndedAt is nil while it lasts.
	Run = v1.Run
	// Past says what a list about a moment of the past depends on.
	Past = v1.Past
	// Unknown tells that the state of a process at a moment is not known.
	Unknown = v1.Unknown
	// Changes is what differs between two moments.
	Changes = v1.Changes
	// ChangeGroup counts processes with the same change.
	ChangeGroup = v1.ChangeGroup
	// ProcessChange is the change of one process on one host.
	ProcessChange = v1.ProcessChange
	// NamespaceRevision is a revision with its namespace.
	NamespaceRevision = v1.NamespaceRevision
	// HostChange is a change of a host.
	HostChange = v1.HostChange
	// LogLine is one line of the log of a process.
	LogLine = v1.LogLine
)

// Spec describes how drover runs a process, in the form of process files; the other types are parts of it.
type (
	// File is a process file: the processes of one namespace.
	File = v1.File
	// Spec describes how drover runs a process.
	Spec = v1.Spec
	// Hosts chooses hosts by their names or by an expression.
	Hosts = v1.Hosts
	// DriftReport is how processes differ from their files.
	DriftReport = v1.DriftReport
	// Difference is one difference of a process on a host.
	Difference = v1.Difference
	// Duration is a length of time.
	Duration = v1.Duration
	// Size is a number of bytes.
	Size = v1.Size
	// LimitSize is a limit of the kernel in bytes: a Size or infinity.
	LimitSize = v1.LimitSize
	// LimitNumber is a limit of the kernel: a number or infinity.
	LimitNumber = v1.LimitNumber
	// Percent is a share in percent.
	Percent = v1.Percent
	// Count is a number of times, or Never.
	Count = v1.Count
	// Status is how a process ends: an exit code or a signal.
	Status = v1.Status
	// Variables are environment variables by name.
	Variables = v1.Variables
	// Before is a command that must succeed before a start.
	Before = v1.Before
	// BeforeStop is a command before a stop, and the pause after it.
	BeforeStop = v1.BeforeStop
	// Limits are enforced by the kernel.
	Limits = v1.Limits
	// Thresholds are limits that drover judges.
	Thresholds = v1.Thresholds
	// Schedule says when a periodic process runs.
	Schedule = v1.Schedule
	// Ready decides when a start has succeeded.
	Ready = v1.Ready
	// Restart is the policy of relaunches.
	Restart = v1.Restart
	// Health is the check of a running process.
	Health = v1.Health
	// StopSignal is one step of a stop.
	StopSignal = v1.StopSignal
	// Reload is a command line or a signal.
	Reload = v1.Reload
	// Timeouts bound the commands of a process.
	Timeouts = v1.Timeouts
	// Log bounds what drover keeps of the output of a process.
	Log = v1.Log
	// ConfigFile is a file whose checksum drover compares.
	ConfigFile = v1.ConfigFile
	// Compat holds what the GSE and JOB APIs know of a process and no other field says.
	Compat = v1.Compat
	// CompatResource are limits without effect.
	CompatResource = v1.CompatResource
)

// Applies of a process file: plans, changes and revisions.
type (
	// Plan is what an apply does, or has begun to do.
	Plan = v1.Plan
	// Change is what happens to one process on some hosts.
	Change = v1.Change
	// FieldChange is a changed field.
	FieldChange = v1.FieldChange
	// Revision is a change of the specs of a namespace.
	Revision = v1.Revision
	// RevisionChange is the same change of one process on some hosts.
	RevisionChange = v1.RevisionChange
	// RevisedField is a changed field without its values.
	RevisedField = v1.RevisedField
)

// Operations: requests, plans, tasks, rollouts and results.
type (
	// Request asks for one operation on one or more processes.
	Request = v1.Request
	// Target is one process on some hosts.
	Target = v1.Target
	// Task is the request of one call and its progress, which drover calls a task.
	Task = v1.Task
	// OperationPlan is what a Request would do.
	OperationPlan = v1.OperationPlan
	// Rollout is an operation that spreads over its hosts in batches.
	Rollout = v1.Rollout
	// HostCount is a number of hosts or a share of all hosts.
	HostCount = v1.HostCount
	// RolloutPlan says how a rollout proceeds.
	RolloutPlan = v1.RolloutPlan
	// RolloutHost is one host of a rollout.
	RolloutHost = v1.RolloutHost
	// RolloutFailure is a cause of failures, and the hosts that have it.
	RolloutFailure = v1.RolloutFailure
	// RolloutCounts counts the hosts of a rollout by state.
	RolloutCounts = v1.RolloutCounts
	// Cancellation is the answer to the cancellation of an operation.
	Cancellation = v1.Cancellation
	// Counts is the number of targets, in total and by outcome.
	Counts = v1.Counts
	// Result is the result for one process on one host.
	Result = v1.Result
)

// Events, and explanations of states.
type (
	// Event is a change of a process, or of its host.
	Event = v1.Event
	// EventDetail holds the fields that only some events have.
	EventDetail = v1.EventDetail
	// Cause explains a state or an event.
	Cause = v1.Cause
	// Actor is the origin of an event: caller (with App, User and Operation), policy, kernel, self or outside.
	Actor = v1.Actor
	// Exit tells how a process or a command ended.
	Exit = v1.Exit
	// Breach is the proof of an exceeded limit, in percent of the whole machine.
	Breach = v1.Breach
	// Score is the rank of one process of a group when drover chose a victim.
	Score = v1.Score
	// Why explains the states of processes.
	Why = v1.Why
	// Finding explains the state of one process on one host.
	Finding = v1.Finding
	// CauseCount is the frequency of a cause, with its catalogue entry.
	CauseCount = v1.CauseCount
)

// Callers, and the log of their calls.
type (
	// App is a caller's account.
	App = v1.App
	// AppChange holds the new values of an app; a nil field stays unchanged.
	AppChange = v1.AppChange
	// ProviderRights are rights by groups of the identity provider.
	ProviderRights = v1.ProviderRights
	// Grant lets an app operate processes of namespaces or businesses, on areas or hosts.
	Grant = v1.Grant
	// Rates limit the calls of an app; zero means no limit.
	Rates = v1.Rates
	// Secret is the public part of a secret of an app.
	Secret = v1.Secret
	// User is a person, or a program, for whom apps act.
	User = v1.User
	// RightCheck says whether somebody may do an operation, and by which rights.
	RightCheck = v1.RightCheck
	// UserChange holds the new values of a user; a nil field stays unchanged.
	UserChange = v1.UserChange
	// Token proves that a caller acts for a user. Its text is only in the answer to the call that created it.
	Token = v1.Token
	// SignInRequest asks for a SignIn, a link that signs a browser in.
	SignInRequest = v1.SignInRequest
	// SignIn is a link that signs a browser in, once.
	SignIn = v1.SignIn
	// Server is the state of a server, with the ends of its certificates and the space of its disk.
	Server = v1.Server
	// UnknownHost is a host that the database of a server does not know.
	UnknownHost = v1.UnknownHost
	// Certificate is a certificate of a server, and the time at which it ends.
	Certificate = v1.Certificate
	// Space is the size of a file system and its free space.
	Space = v1.Space
	// Device is a command line that waits until a person signs it in.
	Device = v1.Device
	// DeviceState is the state of a command line that a person is to sign in.
	DeviceState = v1.DeviceState
	// AuditRow is one call or one denial.
	AuditRow = v1.AuditRow
)

// The fleet, its keys, and the receivers of alarms.
type (
	// JoinToken lets hosts join.
	JoinToken = v1.JoinToken
	// Proxy is a program that connects the hosts of an area without a route to the servers.
	Proxy = v1.Proxy
	// Package is a version of the agent.
	Package = v1.Package
	// UpgradeRequest asks for an upgrade of agents to a version.
	UpgradeRequest = v1.UpgradeRequest
	// Key is a key by which agents trust the server.
	Key = v1.Key
	// Keys holds all keys and their use.
	Keys = v1.Keys
	// StoppedServer is a server that does not run, and lacks keys.
	StoppedServer = v1.StoppedServer
	// Receiver is an address that receives alarms.
	Receiver = v1.Receiver
	// ReceiverChange holds the new values of a receiver; a nil field stays unchanged.
	ReceiverChange = v1.ReceiverChange
	// ReceiverTest is the result of a test delivery.
	ReceiverTest = v1.ReceiverTest
	// Mail holds the settings of a receiver of mails.
	Mail = v1.Mail
	// Breaker withholds the relaunches of a process on all hosts.
	Breaker = v1.Breaker
	// Silence is a time in which alarms are withheld.
	Silence = v1.Silence
	// SilenceRequest asks for a silence.
	SilenceRequest = v1.SilenceRequest
	// OperationSchedule is an operation that the servers begin at the times of a timetable.
	OperationSchedule = v1.OperationSchedule
	// ScheduleRequest asks for a schedule.
	ScheduleRequest = v1.ScheduleRequest
	// ScheduleRun is one run of a schedule.
	ScheduleRun = v1.ScheduleRun
	// Delivery is the progress of a receiver.
	Delivery = v1.Delivery
)

// The kinds of receivers.
const (
	ReceiverWebhook      = v1.ReceiverWebhook
	ReceiverAlertmanager = v1.ReceiverAlertmanager
	ReceiverEmail        = v1.ReceiverEmail
)

// The states of a command line that a person is to sign in.
const (
	DevicePending  = v1.DevicePending
	DeviceSignedIn = v1.DeviceSignedIn
)

// The receivers of a signal.
const (
	ScopeProcess = v1.ScopeProcess
	ScopeTree    = v1.ScopeTree
)

// The windows of a UsageHistory.
const (
	UsageQuarter = v1.UsageQuarter
	UsageHour    = v1.UsageHour
	UsageDay     = v1.UsageDay
)

// The states of a Rollout. A scheduled rollout begins at its time, and a held one waits for the approval of a person.
const (
	RolloutScheduled = v1.RolloutScheduled
	RolloutRunning   = v1.RolloutRunning
	RolloutHeld      = v1.RolloutHeld
	RolloutPaused    = v1.RolloutPaused
	RolloutDone      = v1.RolloutDone
	RolloutAborted   = v1.RolloutAborted
)

// OutcomeOK is the Outcome of a Result without a failure.
const OutcomeOK = v1.OutcomeOK

// RolloutActive selects, in place of a state, the rollouts in every state but done and aborted.
const RolloutActive = v1.RolloutActive

// The states of a host in a Rollout.
const (
	RolloutHostWaiting = v1.RolloutHostWaiting
	RolloutHostBegun   = v1.RolloutHostBegun
	RolloutHostBaking  = v1.RolloutHostBaking
	RolloutHostOK      = v1.RolloutHostOK
	RolloutHostFailed  = v1.RolloutHostFailed
	RolloutHostSkipped = v1.RolloutHostSkipped
)

// RolloutCauseChanged is the Cause of a host that an apply has left as it is, because somebody has changed one of its
// processes since the plan.
const RolloutCauseChanged = v1.RolloutCauseChanged

// RolloutCauseAway is the Cause of a host that was not connected.
const RolloutCauseAway = v1.RolloutCauseAway

// RolloutCauseCancelled is the Cause of a host where somebody has removed the process since the plan, among others.
const RolloutCauseCancelled = v1.RolloutCauseCancelled

// ThroughApply is the way of a revision that an apply of a process file made.
const ThroughApply = v1.ThroughApply

// OpApply is the Op of the rollout of an apply.
const OpApply = v1.OpApply

// ParseHostCount reads a number such as 20, or a share such as 10%.
func ParseHostCount(text string) (HostCount, error) { return v1.ParseHostCount(text) }
