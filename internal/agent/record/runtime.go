package record

import (
	"time"

	"drover/internal/agent/instance"
	"drover/internal/process"
)

// Runtime is the last knowledge about a running process. It is valid only in the present boot.
type Runtime struct {
	// Process is the instance that was proven last; nil when none was seen in this boot.
	Process *instance.Identity `json:"process,omitempty"`
	// Ended is the last proven instance after its end, until there is another instance.
	Ended *instance.Identity `json:"ended,omitempty"`
	// Run is the id of the run (and cgroup) in which it was started by us; empty when it was started from outside.
	Run string `json:"run,omitempty"`
	// LeftoverRuns are the runs of commands around it that have left processes behind, for example of before_start or
	// reload. They end with it.
	LeftoverRuns []string `json:"left,omitempty"`
	// User is the account that the run was started with; empty if Run is.
	User string `json:"user,omitempty"`
	// Revision is the latest revision of the spec whose fields of the class restart are those that the run was started
	// with; 0 if it is unknown or Run is empty. StartDigest is that of these fields; empty if an older agent started
	// the run.
	Revision    int64  `json:"revision,omitempty"`
	StartDigest string `json:"start_digest,omitempty"`
	// SetupPath and Command are the directory and the command line that the run was started with; empty if Run is, or
	// if an older agent started it.
	SetupPath string `json:"setup_path,omitempty"`
	Command   string `json:"command,omitempty"`
	// PIDFile is the file, links resolved, that led to it; empty when it was found by name.
	PIDFile string `json:"pid_file,omitempty"`
	// Matches is how many processes fitted the spec at the last look.
	Matches int `json:"matches,omitempty"`
	// LastStartAt is in Unix seconds. LaunchedAt and RetryAt are since boot.
	LastStartAt int64         `json:"last_start_at,omitempty"`
	Attempts    int           `json:"attempts,omitempty"`
	LaunchedAt  time.Duration `json:"launched_at,omitempty"`
	RetryAt     time.Duration `json:"retry_at,omitempty"`
	// Failing is since when the process has ended in the same way, FailingBy, without a run that was long enough to
	// count as healthy. It is in Unix milliseconds; 0 while the last relaunch, if there was one, has lasted.
	Failing   int64  `json:"failing,omitempty"`
	FailingBy string `json:"failing_by,omitempty"`
	// Waited tells that the launch that follows is no relaunch: the last start waited in vain for other processes, the
	// process was hosted while it was down, or it was ended because the host shuts down.
	Waited bool `json:"waited,omitempty"`
	// LastExit is how the last instance ended.
	LastExit *process.Exit `json:"exit,omitempty"`
	// Note is the text for an operator. Cause is the kind of trouble; its text is the note.
	Note  string        `json:"note,omitempty"`
	Cause process.Cause `json:"cause,omitzero"`
	// Outside is set when the instance was started by somebody else.
	Outside bool `json:"outside,omitempty"`
	// Adopted is set when an operation has taken the instance over.
	Adopted bool `json:"adopted,omitempty"`
	// Signalled is the first signal or reload of an operation to the instance; nil if there was none.
	Signalled *Signalled `json:"signalled,omitempty"`
	// ForeignSupervisor is the other supervisor of an instance that drover has taken over; nil if there is none.
	ForeignSupervisor *instance.ForeignSupervisor `json:"foreign_supervisor,omitempty"`
	// Limits has, by name, the limits of the spec that the instance does not have, and why; LimitsSince is since
	// when it lacks any, in Unix milliseconds.
	Limits      map[string]string `json:"limits,omitempty"`
	LimitsSince int64             `json:"limits_since,omitempty"`
	// Restarts counts the relaunches since an operation started it, in this boot. Relaunches and Breaches are when the
	// last ones were, since boot.
	Restarts   int             `json:"restarts,omitempty"`
	Relaunches []time.Duration `json:"relaunches,omitempty"`
	Breaches   []time.Duration `json:"breaches,omitempty"`
	// Flaps is since when the process has been flapping. Few is since when too few instances have been running. Both
	// are in Unix milliseconds, 0 if not.
	Flaps int64 `json:"flaps,omitempty"`
	Few   int64 `json:"few,omitempty"`
	// Health and Version are the last answers of the instance.
	Health  *process.Answer `json:"health,omitempty"`
	Version *process.Answer `json:"version,omitempty"`
	// Unready is set until the instance is ready. Said is what the instance has said of itself last.
	Unready    *Unready   `json:"unready,omitempty"`
	SelfReport SelfReport `json:"said,omitzero"`
	// Config is the state of the configuration files.
	Config []ConfigFile `json:"config,omitempty"`
	// Ending is set while the instance is being ended by policy.
	Ending *Ending `json:"ending,omitempty"`
	// OOM counts the processes of a run that the kernel killed because memory ran out.
	OOM OOM `json:"oom,omitzero"`
}

// Signalled is a signal or reload that may make an instance start its successor. At is since boot, and Cmdline the
// command line that the instance had.
type Signalled struct {
	At      time.Duration `json:"at"`
	Cmdline string        `json:"cmdline"`
}

// Unready is an instance that is not ready yet.
type Unready struct {
	// Since is in Unix milliseconds. Until is when its time is up, since boot; Late says that it is.
	Since int64         `json:"since"`
	Until time.Duration `json:"until"`
	Late  bool          `json:"late,omitempty"`
	// From and Limit are the beginning and the first end of the wait, since boot.
	From  time.Duration `json:"from"`
	Limit time.Duration `json:"limit"`
	// Problem says why it does not seem to be ready.
	Problem string `json:"problem,omitempty"`
	// Earlier is for the readiness test.
	Earlier Before `json:"earlier,omitzero"`
}

// Before is what the readiness test must not count, because it was there before the start.
type Before struct {
	// Log is the log of the process; nil if the test does not use the log.
	Log *LogMark `json:"log,omitempty"`
	// Sockets are those that listened at the port of the test and passed it, by inode.
	Sockets []uint64 `json:"sockets,omitempty"`
}

// SelfReport is what an instance has said of itself.
type SelfReport struct {
	// Socket says that the run of the instance has a NOTIFY_SOCKET.
	Socket bool `json:"socket,omitempty"`
	// Status is its own text. Stopping is since when it says that it stops, in Unix milliseconds; 0 if it does not.
	Status   string `json:"status,omitempty"`
	Stopping int64  `json:"stopping,omitempty"`
}

// OOM counts the processes of one run that the kernel killed because memory ran out.
type OOM struct {
	Run string `json:"run"`
	// Kills is how many they were when they were counted last.
	Kills int `json:"kills,omitempty"`
	// Workers is how many of them the main process has outlived, At when the last of those was noticed, in Unix
	// milliseconds.
	Workers int   `json:"workers,omitempty"`
	At      int64 `json:"at,omitempty"`
}

// Of returns the counts of a run; zero if drover counted nothing for that run.
func (o OOM) Of(run string) OOM {
	if o.Run != run {
		return OOM{Run: run}
	}
	return o
}

// Ending is why the policy ends an instance. Final says that drover does not start the process again.
type Ending struct {
	Cause process.Cause `json:"cause"`
	Final bool          `json:"final,omitempty"`
}

// LogMark is a file as it was at one moment.
type LogMark struct {
	Path   string `json:"path"`
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
	Size   int64  `json:"size"`
}

// ConfigFile is the state of a configuration file.
type ConfigFile struct {
	Path string `json:"path"`
	// Want is the checksum in the spec, Have the checksum of the file; Problem says why there is none.
	Want    string `json:"want"`
	Have    string `json:"have,omitempty"`
	Problem string `json:"problem,omitempty"`
	// Mark identifies the content that Have belongs to: while the mark is the same, the check need not read the file.
	// If it is empty, the check must read the file.
	Mark string `json:"mark,omitempty"`
	// Since is when the file began to differ, in Unix milliseconds; 0 if it does not differ.
	Since int64 `json:"since,omitempty"`
}
