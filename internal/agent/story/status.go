package story

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"drover/internal/agent/instance"
	"drover/internal/agent/lifecycle"
	"drover/internal/process"
)

// The words that a status shows in place of a state, because the state alone would hide them.
const (
	Flapping  = "flapping"
	Unhealthy = "unhealthy"
)

// View has the data for a status that was measured or looked up at this moment.
type View struct {
	Now    time.Time
	Uptime time.Duration
	// Instance is nil if none runs, or it cannot be read.
	Instance *process.Instance
	Usage    *process.Usage
	// NextRun is in Unix milliseconds; 0 if there is none.
	NextRun int64
	// Findings are what is wrong besides the state, the worst first.
	Findings []process.Cause
	// Dependents are the processes that are after this one, Absent those that this one is after and the host lacks.
	Dependents, Absent []string
}

// Status returns what callers see of a registered process.
func (p *Process) Status(v View) process.Status {
	flapping := p.IsFlapping(v.Uptime)
	s := process.Status{
		Known: true, Hosted: p.Record.Hosted, Want: p.Record.Want, Revision: p.Record.Revision,
		State: p.StateName(v.Uptime), Message: p.message(&v),
		ProcName: p.Record.Spec.ProcessName, RegisteredAt: p.Record.RegisteredAt,
		LastStartAt: p.Runtime.LastStartAt, ReportedAt: v.Now.Unix(), Instance: process.Instance{PID: -1},
		Flapping: flapping, Restarts: p.Runtime.Restarts, LastExit: p.Runtime.LastExit, Runs: p.History.Runs,
		NextRun: v.NextRun,
	}
	for _, c := range p.Runtime.Config {
		if c.Since != 0 {
			s.Config = append(s.Config,
				process.Drift{Path: c.Path, Want: c.Want, Have: c.Have, Problem: c.Problem, Since: c.Since})
		}
	}
	if p.Machine.State == lifecycle.Scheduled && s.NextRun != 0 {
		s.Message = Join(s.Message, "next run at "+time.UnixMilli(s.NextRun).UTC().Format(time.RFC3339))
	}
	if v.Instance != nil {
		s.Health, s.Version, s.Instance, s.Usage = p.Runtime.Health, p.Runtime.Version, *v.Instance, v.Usage
		s.Instance.Revision = p.Runtime.Revision
		s.LastStartAt = max(s.LastStartAt, s.Instance.StartedAt)
	}
	causes := p.causes(&s, &v)
	causes = append(causes, v.Findings...)
	if ran, stored := s.Instance.Revision, p.Record.Spec.Revision; len(causes) > 0 && ran != 0 && ran != stored {
		causes[0].Evidence = append(slices.Clone(causes[0].Evidence), "it runs with "+revisionsText(ran, stored))
	}
	if len(causes) > 0 && s.State != string(lifecycle.Running) {
		causes[0].Evidence = slices.Concat(causes[0].Evidence, p.prospects(&v))
	}
	if len(causes) > 0 {
		s.Cause, s.Further = causes[0], causes[1:]
	}
	if s.Cause.Text != "" {
		s.Message = s.Cause.Text
	}
	return s
}

// prospects says when the count of attempts begins anew, which processes concern this one that is down, and which do
// not, although it is after them.
func (p *Process) prospects(v *View) (lines []string) {
	s := &p.Record.Spec
	if after := s.Restarts().ResetAfter; s.OwnRestarts() && after > 0 && p.Machine.State == lifecycle.Backoff {
		lines = append(lines, "a run of "+after.String()+" begins the count of attempts anew")
	}
	if len(v.Dependents) > 0 {
		lines = append(lines, dependentsText(v.Dependents))
	}
	if len(v.Absent) > 0 {
		lines = append(lines, "this host lacks "+strings.Join(v.Absent, ", ")+", which counts as up")
	}
	return lines
}

// Recorded returns what a list shows of the process, from what the agent has noted of it: it looks at nothing. Only
// Gone is set if the process is not registered.
func (p *Process) Recorded(now time.Time, uptime time.Duration, findings []process.Cause) process.Shown {
	if p.Record == nil {
		return process.Shown{Gone: true}
	}
	v := View{Now: now, Uptime: uptime, Findings: findings}
	if p.Runtime.Process != nil {
		v.Instance = &process.Instance{PID: p.PID()}
		if said := p.Runtime.Version; said != nil && said.OK {
			v.Instance.Version = said.Text
		}
	}
	s := p.Status(v)
	if v.Instance != nil {
		s.Instance.StartedAt = p.Runtime.LastStartAt
	}
	return s.Shown()
}

// revisionsText names the revision of a running instance, and the later one of the stored spec.
func revisionsText(ran, stored int64) string {
	return "revision " + itoa(int(ran)) + ", and revision " + itoa(int(stored)) + " is stored"
}

// mostDependents is how many dependents a status names.
const mostDependents = 10

// dependentsText names the processes that are after one that does not run.
func dependentsText(names []string) string {
	text := "these processes are after it: " + strings.Join(names[:min(len(names), mostDependents)], ", ")
	if more := len(names) - mostDependents; more > 0 {
		text += " and " + itoa(more) + " more"
	}
	return text
}

// StateName returns the state that a status shows at a time since boot: a process that only seems to be up is not shown
// as running.
func (p *Process) StateName(uptime time.Duration) string {
	flapping := p.IsFlapping(uptime)
	switch p.Machine.State {
	case lifecycle.Running:
		switch {
		case flapping:
		case p.IsNotReady():
			return NotReadyState
		case p.IsUnhealthy():
			return Unhealthy
		}
		fallthrough
	case lifecycle.Starting, lifecycle.Backoff:
		if flapping {
			return Flapping
		}
	case lifecycle.Operating:
		if op := p.Active.Op; p.Active.Waits == "" && (op == process.Stop || op == process.Kill) {
			return string(lifecycle.Stopping)
		}
	case lifecycle.Unknown, lifecycle.Stopped, lifecycle.Scheduled, lifecycle.Stopping, lifecycle.GivenUp,
		lifecycle.Finished:
	}
	return string(p.Machine.State)
}

// IsFlapping reports whether the process was relaunched too often, and no run has lasted since, at a time since boot. A
// pause that has grown is no recovery.
func (p *Process) IsFlapping(uptime time.Duration) bool {
	switch p.Machine.State {
	case lifecycle.Stopped:
		return false // drover does not relaunch it
	case lifecycle.Running, lifecycle.Finished, lifecycle.Scheduled:
		lasted := p.Machine.State != lifecycle.Running || p.Machine.Attempts == 0
		return p.Tally().Flapping(p.Bounds, uptime) || p.Runtime.Flaps != 0 && !lasted
	case lifecycle.Unknown, lifecycle.Starting, lifecycle.Backoff, lifecycle.GivenUp, lifecycle.Operating,
		lifecycle.Stopping:
	}
	return p.Tally().Flapping(p.Bounds, uptime) || p.Runtime.Flaps != 0
}

// IsUnhealthy reports whether the process runs and its health check fails.
func (p *Process) IsUnhealthy() bool {
	return p.Machine.State == lifecycle.Running && p.Runtime.Health != nil && p.Runtime.Health.Bad
}

// HasTooFew reports whether fewer instances of a running process were seen than its spec expects.
func (p *Process) HasTooFew() bool {
	return p.Record != nil && p.Record.Spec.Instances() > 1 && p.Machine.State == lifecycle.Running &&
		p.Runtime.Matches < p.Record.Spec.Instances()
}

// causes returns why the process is not as it should be, or why it does not run, the main cause first.
func (p *Process) causes(s *process.Status, v *View) (all []process.Cause) {
	why := p.Runtime.Cause
	why.Text = s.Message
	if p.Machine.Awaits == lifecycle.Successor { // nobody knows yet whether the run is over
		why = process.Cause{}
	}
	if p.Rival != 0 {
		all = append(all, process.Cause{ID: process.CauseRival, Text: instance.RivalText(p.Rival) +
			"; this drover only watches it", Since: p.RivalSince})
	}
	if p.Runtime.ForeignSupervisor != nil {
		all = append(all, process.Cause{
			ID: process.CauseKept, Since: p.Runtime.ForeignSupervisor.Since,
			Text: p.Runtime.ForeignSupervisor.Text(p.Runtime.Process == nil && p.Record.Hosted),
		})
	}
	if p.Machine.State != lifecycle.Running {
		if why = p.causeOfRest(why); p.isOut() {
			why.Since = p.Runtime.Failing
		}
		if why.ID != "" || why.Text != "" {
			all = append(all, why)
		}
		if s.State == Flapping { // the reason for its ends comes first
			all = append(all, process.Cause{
				ID: process.CauseFlapping, Text: p.flappingText(v.Uptime, ""),
				Since: p.Runtime.Flaps,
			})
			if why.ID == "" {
				slices.Reverse(all)
			}
		}
		return all
	}
	if s.Instance.Suspended() {
		all = append(all, process.Cause{
			ID: process.CauseSuspended, Text: "a signal such as SIGSTOP has stopped pid " + itoa(s.Instance.PID) +
				", so it executes nothing",
			Since: s.Instance.Halted,
		})
	}
	if s.Flapping {
		all = append(all, p.flaps(v, why)...)
	}
	if p.IsNotReady() {
		unready := p.unreadiness()
		if why.ID == process.CauseNotReady { // the operation that did not see it ready
			unready.Evidence, why = why.Evidence, process.Cause{}
		}
		all = append(all, unready)
	}
	all = append(all, p.sickness(s.Health)...)
	for _, d := range s.Config {
		all = append(all, process.Cause{ID: process.CauseDrift, Text: driftText(d), Since: d.Since})
	}
	harmless := why.ID == process.CauseOutside || why.ID == process.CauseRelaunched
	if why.ID != "" && !harmless { // a failed operation or a skipped run
		all = append(all, why)
	}
	if short, ok := p.shortage(v.Now); ok {
		all = append(all, short)
	}
	if p.HasTooFew() {
		all = append(all, process.Cause{
			ID: process.CauseTooFew, Text: instance.TooFew(p.Runtime.Matches, p.Record.Spec.Instances()),
			Since: p.Runtime.Few,
		})
	}
	if why.ID == process.CauseOutside && p.Runtime.ForeignSupervisor == nil ||
		why.ID == process.CauseRelaunched && !s.Flapping {
		all = append(all, why)
	}
	return all
}

// flaps returns why a process that runs is flapping: as while it is down, the reason for its ends comes first.
func (p *Process) flaps(v *View, why process.Cause) []process.Cause {
	flapping := process.Cause{ID: process.CauseFlapping, Since: p.Runtime.Flaps}
	by, _, _ := strings.Cut(p.Runtime.FailingBy, ": ")
	if why.ID != process.CauseRelaunched || p.Runtime.Failing == 0 || by == "" {
		flapping.Text, flapping.Evidence = p.flappingText(v.Uptime, why.Text), why.Evidence
		return []process.Cause{flapping}
	}
	why.ID, why.Since = process.CauseID(by), p.Runtime.Failing
	flapping.Text = p.flappingText(v.Uptime, "")
	return []process.Cause{why, flapping}
}

// sickness returns why a process that runs is unhealthy, and why drover does not relaunch it for that.
func (p *Process) sickness(a *process.Answer) (all []process.Cause) {
	if a != nil && a.Bad {
		all = append(all, process.Cause{ID: process.CauseUnhealthy, Text: sickText(a), Since: a.Since})
		if p.Withheld.ID != "" {
			all = append(all, p.Withheld)
		}
	}
	return all
}

// isOut reports whether the process is down since Runtime.Failing: it has ended, and its relaunches have not lasted or
// have ended in the same way.
func (p *Process) isOut() bool {
	switch p.Machine.State {
	case lifecycle.Backoff, lifecycle.Starting, lifecycle.GivenUp:
		return p.Runtime.Failing != 0
	case lifecycle.Unknown, lifecycle.Stopped, lifecycle.Operating, lifecycle.Scheduled, lifecycle.Running,
		lifecycle.Stopping, lifecycle.Finished:
	}
	return false
}

// causeOfRest fills in what follows from the state alone.
func (p *Process) causeOfRest(why process.Cause) process.Cause {
	switch p.Machine.State {
	case lifecycle.Operating:
		if p.Active.Waits != "" {
			return process.Cause{
				ID: process.CauseWaitsForOthers, Since: p.Active.Since,
				Text: string(p.Active.Op) + " waits: " + p.Active.Waits,
			}
		}
		return process.Cause{
			ID: process.CauseOperating, Since: p.Active.Since,
			Text: cmp.Or(string(p.Active.Op), "an operation") + " under way since " +
				time.UnixMilli(p.Active.Since).UTC().Format(time.RFC3339),
		}
	case lifecycle.Scheduled:
		if why.ID == "" || why.ID == process.CauseFinished {
			why.ID = process.CauseWaitsForSchedule
		}
	case lifecycle.Stopped:
		if why.ID == "" {
			why = p.Record.Rest
		}
	case lifecycle.Finished:
		if why.ID == "" {
			why = p.causeOfLastRun()
		}
	case lifecycle.Backoff:
		switch {
		case p.Withheld.ID != "":
			why.ID, why.Since = p.Withheld.ID, p.Withheld.Since
		case p.Machine.Awaits == lifecycle.Budget:
			why.ID = process.CauseHeldBack
		}
	case lifecycle.Unknown, lifecycle.Running, lifecycle.Starting, lifecycle.GivenUp, lifecycle.Stopping:
	}
	return why
}

// message says what an operator needs to know beside the state. It names times of day: it may be read much later.
func (p *Process) message(v *View) string {
	switch p.Machine.State {
	case lifecycle.Backoff:
		switch {
		case p.Withheld.ID != "":
			return Join(p.Runtime.Note, p.Withheld.Text)
		case p.Runtime.Cause.ID == process.CausePolicy, p.Machine.Awaits == lifecycle.Order:
			return p.Runtime.Note
		}
		at := v.Now.Add(max(p.Machine.RetryAt-v.Uptime, 0)).Round(time.Second)
		next := "next start at " + at.UTC().Format(time.RFC3339) + ", attempt " + p.attempt(p.Machine.Attempts+1)
		if p.Machine.Awaits == lifecycle.Budget {
			next += ", held back because many processes of this host are being started"
		}
		return Join(p.Runtime.Note, next)
	case lifecycle.GivenUp:
		return p.givenUpText()
	case lifecycle.Running:
		if p.Machine.Pending {
			return Join(p.Runtime.Note, "another run is due and begins when this one has ended")
		}
		return Join(p.Runtime.Note, p.says())
	case lifecycle.Starting:
		if p.Record.Spec.Kind() == process.Periodic {
			return Join(p.Runtime.Note, "a run is being started")
		}
		return Join(p.Runtime.Note, "start "+p.attempt(p.Machine.Attempts)+" is under way")
	case lifecycle.Unknown, lifecycle.Stopped, lifecycle.Operating, lifecycle.Scheduled, lifecycle.Stopping,
		lifecycle.Finished:
	}
	return p.Runtime.Note
}

// attempt is the number of a relaunch, with the number after which drover gives up, if there is one.
func (p *Process) attempt(number int) string {
	if most := p.Record.Spec.Restarts().GiveUpAfter; most > 0 {
		return itoa(number) + " of " + itoa(most)
	}
	return itoa(number)
}

func (p *Process) givenUpText() string {
	rt, attempts := &p.Runtime, p.Machine.Attempts
	if rt.Cause.ID == process.CauseCPULimit || rt.Cause.ID == process.CauseMemLimit ||
		rt.Cause.ID == process.CauseGroupLimit {
		return Join("given up after "+process.Count(len(rt.Breaches), "breach", "breaches")+" of a limit", rt.Note)
	}
	if _, forbidden := instance.Verdict(&p.Record.Spec, rt.LastExit); forbidden {
		return Join("not relaunched, because its restart policy forbids it after this end", rt.Note)
	}
	return Join("given up after "+process.Count(attempts, "start", "starts")+" that did not last", rt.Note)
}

func sickText(a *process.Answer) string {
	switch {
	case a.Said:
		return a.Text
	case a.Failures <= 1:
		return "the health check failed: " + a.Text
	}
	return "the health check failed " + itoa(a.Failures) + " times in a row: " + a.Text
}

func driftText(d process.Drift) string {
	if d.Problem != "" {
		return d.Path + " should have the checksum " + d.Want + ": " + d.Problem
	}
	return d.Path + " should have the checksum " + d.Want + " and has " + d.Have
}
