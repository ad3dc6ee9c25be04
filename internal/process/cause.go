package process

// Cause explains the state of a process. ID is stable and has its own page in docs/why.
type Cause struct {
	ID CauseID `json:"id,omitempty"`
	// Text is one sentence for an operator, with the figures and names of this case.
	Text string `json:"text,omitempty"`
	// Evidence supports the sentence, most significant first.
	Evidence []string `json:"evidence,omitempty"`
	// Since is when it began, in Unix milliseconds.
	Since int64 `json:"since,omitempty"`
}

// CauseID names a kind of cause.
type CauseID string

// The causes that an agent finds.
const (
	CauseStopped          CauseID = "stopped-by-operation"
	CauseUnhosted         CauseID = "unhosted"
	CauseNeverStarted     CauseID = "never-started"
	CauseExited           CauseID = "exited"
	CauseExitStatus       CauseID = "exit-status"
	CauseSignal           CauseID = "killed-by-signal"
	CauseCore             CauseID = "crashed"
	CauseOOM              CauseID = "out-of-memory"
	CauseUnseen           CauseID = "ended-unseen"
	CauseRebooted         CauseID = "host-rebooted"
	CauseCPULimit         CauseID = "cpu-limit"
	CauseMemLimit         CauseID = "memory-limit"
	CauseGroupLimit       CauseID = "group-limit"
	CauseTimeLimit        CauseID = "time-limit"
	CauseUnhealthy        CauseID = "unhealthy"
	CauseDrift            CauseID = "config-drift"
	CauseNoStartCommand   CauseID = "no-start-command"
	CauseCommandMissing   CauseID = "command-not-found"
	CauseCommandDenied    CauseID = "command-not-executable"
	CauseCommandFailed    CauseID = "command-failed"
	CauseCommandTimeout   CauseID = "command-timed-out"
	CauseNoDirectory      CauseID = "no-such-directory"
	CauseNoVariables      CauseID = "no-environment-file"
	CauseNoUser           CauseID = "no-such-user"
	CauseNeedsRoot        CauseID = "needs-root"
	CauseNoPIDFile        CauseID = "no-pid-file"
	CauseOddPIDFile       CauseID = "odd-pid-file"
	CauseFileHangs        CauseID = "file-system-hangs"
	CauseOwnedByOther     CauseID = "owned-by-another"
	CauseRival            CauseID = "another-drover"
	CauseCopy             CauseID = "copy-runs"
	CauseKept             CauseID = "other-supervisor"
	CauseDiedEarly        CauseID = "died-in-start-check"
	CausePreflight        CauseID = "preflight-failed"
	CauseNotReady         CauseID = "not-ready"
	CauseFlapping         CauseID = "flapping"
	CauseOutside          CauseID = "started-outside"
	CauseRelaunched       CauseID = "relaunched"
	CauseNotInForce       CauseID = "not-in-force"
	CauseWorkerOOM        CauseID = "worker-out-of-memory"
	CauseTooFew           CauseID = "too-few-instances"
	CauseSuspended        CauseID = "suspended"
	CauseLogRemoved       CauseID = "log-removed"
	CauseLogFull          CauseID = "log-full"
	CauseOperating        CauseID = "operation-under-way"
	CauseHeldBack         CauseID = "held-back"
	CauseBreakerOpen      CauseID = "breaker-open"
	CauseWaitsForOthers   CauseID = "waits-for-others"
	CauseRunFailed        CauseID = "run-failed"
	CauseRunSkipped       CauseID = "run-skipped"
	CauseRunMissed        CauseID = "run-missed"
	CauseWaitsForSchedule CauseID = "waits-for-schedule"
	CauseBadSchedule      CauseID = "bad-schedule"
	CauseFinished         CauseID = "finished"
	CauseStopFailed       CauseID = "stop-failed"
	CausePolicy           CauseID = "refused-by-policy"
)

// The causes that only the server can find.
const (
	CauseAgentAway    CauseID = "agent-away"
	CauseAgentUnknown CauseID = "agent-unknown"
	CauseUnknown      CauseID = "process-unknown"
	CauseQueued       CauseID = "operation-queued"
)
