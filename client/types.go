package client

import v1 "drover/api/v1"

// Error is a rejection by the server, and FieldError a part of it.
type (
	Error      = v1.Problem
	FieldError = v1.FieldError
)

// Processes and their hosts.
type (
	Process       = v1.Process
	ProcessDetail = v1.ProcessDetail
	ProcessCounts = v1.ProcessCounts
	ProcessID     = v1.ProcessID
	Agent         = v1.Agent
	Host          = v1.Host
	Instance      = v1.Instance
	Answer        = v1.Answer
	Drift         = v1.Drift
	Usage         = v1.Usage
	Run           = v1.Run
)

// Spec describes how drover runs a process; the other types are parts of it.
type (
	Spec       = v1.Spec
	Identity   = v1.Identity
	Commands   = v1.Commands
	Limits     = v1.Limits
	Policy     = v1.Policy
	Schedule   = v1.Schedule
	HardLimits = v1.HardLimits
	Readiness  = v1.Readiness
	Probes     = v1.Probes
	ConfigFile = v1.ConfigFile
)

// Operations and their results.
type (
	Request   = v1.Request
	Target    = v1.Target
	Operation = v1.Operation
	Counts    = v1.Counts
	Result    = v1.Result
)

// Events, and explanations of states.
type (
	Event       = v1.Event
	EventDetail = v1.EventDetail
	Cause       = v1.Cause
	Actor       = v1.Actor
	Exit        = v1.Exit
	Breach      = v1.Breach
	Score       = v1.Score
	Why         = v1.Why
	Finding     = v1.Finding
	CauseCount  = v1.CauseCount
)

// Callers, and the log of their calls.
type (
	App        = v1.App
	AppChange  = v1.AppChange
	Grant      = v1.Grant
	Rates      = v1.Rates
	Secret     = v1.Secret
	User       = v1.User
	UserChange = v1.UserChange
	Token      = v1.Token
	AuditRow   = v1.AuditRow
)

// The fleet, its keys, and the receivers of alarms.
type (
	JoinToken     = v1.JoinToken
	Proxy         = v1.Proxy
	Key           = v1.Key
	Keys          = v1.Keys
	Webhook       = v1.Webhook
	WebhookChange = v1.WebhookChange
	WebhookTest   = v1.WebhookTest
	Delivery      = v1.Delivery
)
