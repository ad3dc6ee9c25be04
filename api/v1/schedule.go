package v1

import "time"

// ScheduleRequest asks for a schedule: an operation that the servers begin at the times of a timetable.
type ScheduleRequest struct {
	Name string `json:"name"`
	// Cron is a crontab rule, such as "0 3 * * *". TimeZone is the zone of its times, such as "Europe/Berlin"; empty
	// means the zone of the server.
	Cron     string `json:"cron"`
	TimeZone string `json:"time_zone,omitempty"`
	Message  string `json:"message,omitempty"`
	// Request is what each run does, with Processes, and without Targets, Spec and At. The server resolves it at each
	// run.
	Request Request `json:"request"`
}

// OperationSchedule is an operation that the servers begin at the times of a timetable.
type OperationSchedule struct {
	Name     string  `json:"name"`
	Cron     string  `json:"cron"`
	TimeZone string  `json:"time_zone,omitempty"`
	Message  string  `json:"message,omitempty"`
	Request  Request `json:"request"`
	// State is ScheduleActive or SchedulePaused.
	State string `json:"state"`
	// App and User are the person whose rights each run has.
	App       string    `json:"app"`
	User      string    `json:"user"`
	CreatedAt time.Time `json:"created_at"`
	// NextAt are the next times; none while the schedule is paused.
	NextAt []time.Time `json:"next_at"`
	// Missed counts the times at which a run was missed.
	Missed int `json:"missed"`
	// Last is the latest run; nil if there is none.
	Last *ScheduleRun `json:"last,omitempty"`
	// Runs are the latest runs, latest first. A list of schedules does not have them.
	Runs []ScheduleRun `json:"runs,omitempty"`
}

// The states of an OperationSchedule.
const (
	ScheduleActive = "active"
	SchedulePaused = "paused"
)

// ScheduleRun is one run of a schedule.
type ScheduleRun struct {
	DueAt time.Time `json:"due_at"`
	// State is one of the constants below; Message says more.
	State   string `json:"state"`
	Message string `json:"message,omitempty"`
	// Operation or Rollout is the id of what the run has begun.
	Operation string `json:"operation,omitempty"`
	Rollout   string `json:"rollout,omitempty"`
	// Times is the number of due times that the run stands for, if there is more than one.
	Times   int        `json:"times,omitempty"`
	EndedAt *time.Time `json:"ended_at,omitempty"`
	// RunBy is who began the run by hand.
	RunBy string `json:"run_by,omitempty"`
}

// The states of a ScheduleRun. A missed run did not begin, because no server ran at its time or because the person of
// the schedule may not do it. A failed run did not begin, either, if its request no longer fits what matches it. A
// skipped run did not begin, because an earlier one or a rollout went on. An empty run found no process.
// Of an unknown run nobody knows the end, because its host went away.
const (
	RunRunning = "running"
	RunOK      = "ok"
	RunFailed  = "failed"
	RunMissed  = "missed"
	RunSkipped = "skipped"
	RunEmpty   = "empty"
	RunUnknown = "unknown"
)
