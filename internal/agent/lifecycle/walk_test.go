package lifecycle

import (
	"slices"
	"testing"
	"time"

	"drover/internal/process"
)

// TestNoStateIsATrap walks every reachable machine under every event: whatever is not resting has something that will
// wake it, and whatever is resting has nothing armed.
func TestNoStateIsATrap(t *testing.T) {
	reached := map[State]int{}
	steps := 0
	walk(func(before visit, ev Event, m Machine, actions []Action) {
		steps++
		reached[m.State]++
		if !m.Resting() && m.Armed == NoTimer && !m.Watched() && m.Awaits == Nothing {
			t.Errorf("%+v --%T--> %+v: nothing can wake it", before.machine, ev, m)
		}
		if m.Resting() && (m.Armed != NoTimer || m.Awaits != Nothing && m.Awaits != Removal) {
			t.Errorf("%+v --%T--> %+v: a resting state waits for something", before.machine, ev, m)
		}
		if m.Attempts > before.policy.Retries {
			t.Errorf("%+v --%T--> %+v: more attempts than the policy allows", before.machine, ev, m)
		}
		if held := m.State == Operating || m.State == Stopping; held && !m.Busy() ||
			m.Busy() && !held && m.State != Starting && m.State != Stopped {
			t.Errorf("%+v --%T--> %+v: busy is %v", before.machine, ev, m, m.Busy())
		}
		armed := before.machine.Armed
		for _, a := range actions {
			switch a := a.(type) {
			case Arm:
				armed = a.Timer
				if a.After <= 0 && a.Timer == Retry {
					t.Errorf("%+v --%T--> %+v: retry timer armed in the past", before.machine, ev, m)
				}
			case Disarm:
				armed = NoTimer
			case Relaunch:
				if !before.policy.keepsAlive() && !before.policy.runsByTimetable() {
					t.Errorf("%+v --%T--> %+v: relaunched although nobody asked for it", before.machine, ev, m)
				}
				if _, confirmed := ev.(Confirmed); before.policy.Unconfirmed && !confirmed && m.Awaits != Budget &&
					before.machine.Awaits != Launch {
					t.Errorf("%+v --%T--> %+v: relaunched before the server's word", before.machine, ev, m)
				}
			}
		}
		if _, fired := ev.(Fired); !fired && armed != m.Armed {
			t.Errorf("%+v --%T--> %+v: the actions leave timer %q", before.machine, ev, m, armed)
		}
	})
	for _, s := range States() {
		if reached[s] == 0 {
			t.Errorf("state %s is never reached", s)
		}
	}
	t.Logf("%d steps walked", steps)
}

// TestAnOperationIsNeverDisturbed: while an operation holds a process, nothing but its end changes the state.
func TestAnOperationIsNeverDisturbed(t *testing.T) {
	walk(func(before visit, ev Event, m Machine, actions []Action) {
		if _, ended := ev.(Ended); before.machine.State != Operating || ended {
			return
		}
		if _, checks := ev.(Checking); checks {
			before.machine.Awaits = Check
		}
		if _, due := ev.(Due); due {
			actions = slices.DeleteFunc(actions, func(a Action) bool { return a == Skip{} })
		}
		if m != before.machine || len(actions) > 0 {
			t.Errorf("%+v --%T--> %+v, %v", before.machine, ev, m, actions)
		}
	})
}

func hosted() Policy {
	return Policy{
		Hosted: true, Kind: process.Resident, Retries: 3, Interval: 10 * time.Second,
		HealthyAfter: time.Minute,
	}
}

// script feeds events at given times and returns when relaunches were asked for.
func script(t *testing.T, p Policy, m Machine, events []struct {
	at time.Duration
	ev Event
},
) (Machine, []time.Duration) {
	t.Helper()
	var launches []time.Duration
	for _, e := range events {
		var actions []Action
		m, actions = m.Step(p, e.ev, e.at)
		for _, a := range actions {
			if _, ok := a.(Relaunch); ok {
				launches = append(launches, e.at)
			}
		}
	}
	return m, launches
}

type at = struct {
	at time.Duration
	ev Event
}

func TestRelaunchesAreAtOnceThenAnIntervalApartThenGivenUp(t *testing.T) {
	m, _ := New(0, 0, 0)
	m, launches := script(t, hosted(), m, []at{
		{0, Found{}},
		{100 * time.Second, Exited{}},
		{101 * time.Second, Launched{}},
		{102 * time.Second, Exited{}},
		{110 * time.Second, Fired{Timer: Retry}},
		{115 * time.Second, LaunchFailed{}},
		{120 * time.Second, Fired{Timer: Retry}},
		{121 * time.Second, Launched{}},
		{122 * time.Second, Exited{}},
	})
	want := []time.Duration{100 * time.Second, 110 * time.Second, 120 * time.Second}
	if len(launches) != len(want) || launches[0] != want[0] || launches[1] != want[1] || launches[2] != want[2] {
		t.Errorf("relaunched at %v, want %v", launches, want)
	}
	if m.State != GivenUp {
		t.Errorf("state %s after the budget was spent, want %s", m.State, GivenUp)
	}
}

func TestAHealthyRunRestoresTheBudget(t *testing.T) {
	m, _ := New(0, 0, 0)
	m, launches := script(t, hosted(), m, []at{
		{0, Found{}},
		{time.Second, Exited{}},
		{2 * time.Second, Launched{}},
		{62 * time.Second, Fired{Timer: Healthy}},
		{63 * time.Second, Exited{}},
	})
	if len(launches) != 2 || launches[1] != 63*time.Second || m.Attempts != 1 {
		t.Errorf("relaunched at %v with %d attempts counted, want the second at once and one counted", launches,
			m.Attempts)
	}
}

// TestARunIsNotHealthyBeforeItIsReady: time without readiness restores no budget, and the end of such a run counts.
func TestARunIsNotHealthyBeforeItIsReady(t *testing.T) {
	p := hosted()
	p.Unready = true
	m, _ := New(1, 0, 0)
	m, _ = m.Step(p, Found{}, 0)
	if m.Armed != NoTimer {
		t.Fatalf("timer %q is armed before the process is ready", m.Armed)
	}
	ended, _ := script(t, p, m, []at{{200 * time.Second, Condemned{}}, {201 * time.Second, TakenDown{}}})
	if ended.Attempts != 2 {
		t.Errorf("%d attempts after a run that was never ready, want 2", ended.Attempts)
	}
	p.Unready = false
	m, actions := m.Step(p, Readied{}, 200*time.Second)
	if !slices.Contains(actions, Action(Arm{Timer: Healthy, After: p.HealthyAfter})) {
		t.Errorf("%v: want the timer of a healthy run when it is ready", actions)
	}
	if m, _ = m.Step(p, Fired{Timer: Healthy}, 260*time.Second); m.Attempts != 0 {
		t.Errorf("%d attempts after a healthy run, want 0", m.Attempts)
	}
}

func TestHostingAStoppedProcessStartsItAnIntervalLater(t *testing.T) {
	m, _ := New(0, 0, 0)
	p := hosted()
	m, _ = m.Step(Policy{Kind: process.Resident}, NotFound{}, 0)
	m, _ = m.Step(p, Began{}, time.Second)
	m, actions := m.Step(p, Ended{Restore: true}, 2*time.Second)
	if m.State != Backoff || len(actions) != 1 || actions[0] != (Arm{Timer: Retry, After: p.Interval}) {
		t.Errorf("state %s, actions %v: want %s and the retry timer at the interval", m.State, actions, Backoff)
	}
}

func TestARefusedStopNeitherHastensNorDelaysTheNextStart(t *testing.T) {
	p := hosted()
	m := Machine{State: Backoff, Attempts: 1, RetryAt: 20 * time.Second, Armed: Retry}
	m, _ = m.Step(p, Began{}, 15*time.Second)
	m, actions := m.Step(p, Ended{}, 16*time.Second)
	if m.State != Backoff || len(actions) != 1 || actions[0] != (Arm{Timer: Retry, After: 4 * time.Second}) {
		t.Errorf("state %s, actions %v: want the retry at its old time", m.State, actions)
	}
}

func TestABudgetSpentBeforeTheAgentRestartedStaysSpent(t *testing.T) {
	p := hosted()
	m, _ := New(p.Retries, 0, 0)
	m, _ = m.Step(p, NotFound{}, time.Hour)
	if m.State != GivenUp {
		t.Errorf("state %s, want %s", m.State, GivenUp)
	}
}

func periodic(o process.Overlap) Policy {
	return Policy{
		Hosted: true, Kind: process.Periodic, Overlap: o, Retries: 3, Interval: 10 * time.Second,
		HealthyAfter: time.Minute,
	}
}

// scheduled returns a periodic process between two runs.
func scheduled(t *testing.T, p Policy) Machine {
	t.Helper()
	m, _ := New(0, 0, 0)
	m, _ = m.Step(p, NotFound{}, 0)
	if m.State != Scheduled {
		t.Fatalf("state %s, want %s", m.State, Scheduled)
	}
	return m
}

func TestARunThatIsDueDuringAnotherIsLeftOutOrWaitsOrReplacesIt(t *testing.T) {
	for _, c := range []struct {
		overlap  process.Overlap
		events   []at
		launches int
		state    State
	}{
		{process.OverlapSkip, []at{{1, Due{}}, {2, Launched{}}, {3, Due{}}, {4, Exited{}}}, 1, Scheduled},
		{process.OverlapWait, []at{{1, Due{}}, {2, Launched{}}, {3, Due{}}, {4, Due{}}, {5, Exited{}}}, 2, Starting},
		{process.OverlapReplace, []at{{1, Due{}}, {2, Launched{}}, {3, Due{}}}, 1, Stopping},
		{process.OverlapReplace, []at{{1, Due{}}, {2, Launched{}}, {3, Due{}}, {4, TakenDown{}}}, 2, Starting},
		{process.OverlapReplace, []at{
			{1, Due{}},
			{2, Launched{}},
			{3, Due{}},
			{4, TakenDown{Alive: true}},
			{5, Exited{}},
		}, 1, Scheduled},
	} {
		p := periodic(c.overlap)
		m, launches := script(t, p, scheduled(t, p), c.events)
		if len(launches) != c.launches || m.State != c.state {
			t.Errorf("overlap %s, %v: %d runs, then %s; want %d, then %s", c.overlap, c.events, len(launches), m.State,
				c.launches, c.state)
		}
	}
}

func TestAProcessThatIsEndedForItsLimitIsLaunchedAgainUntilItIsCondemnedForGood(t *testing.T) {
	m, _ := New(0, 0, 0)
	m, launches := script(t, hosted(), m, []at{
		{0, Found{}},
		{100 * time.Second, Condemned{}},
		{101 * time.Second, TakenDown{}},
		{102 * time.Second, Launched{}},
		{200 * time.Second, Fired{Timer: Healthy}},
		{201 * time.Second, Condemned{Final: true}},
		{202 * time.Second, TakenDown{}},
	})
	if len(launches) != 1 || m.State != GivenUp {
		t.Errorf("%d launches, then %s: want one, then %s", len(launches), m.State, GivenUp)
	}
}

func TestASingleRunIsNeverLaunchedAgain(t *testing.T) {
	p := Policy{Hosted: true, Kind: process.SingleRun, Retries: 3}
	for _, end := range [][]at{
		{{2, Exited{}}},
		{{2, Condemned{}}, {3, TakenDown{}}},
		{{2, Condemned{Final: true}}, {3, TakenDown{}}},
	} {
		m, _ := New(0, 0, 0)
		m, launches := script(t, p, m, append([]at{{1, Found{}}}, end...))
		if len(launches) != 0 || m.State != Finished {
			t.Errorf("after %v: %d launches, then %s; want none, then %s", end, len(launches), m.State, Finished)
		}
	}
}

func TestARelaunchThatIsHeldBackKeepsItsPlaceAndItsBudget(t *testing.T) {
	m, _ := New(0, 0, 0)
	p := hosted()
	m, _ = m.Step(p, Found{}, 0)
	m, _ = m.Step(p, Exited{}, time.Second)
	m, _ = m.Step(p, HeldBack{Until: 5 * time.Second}, time.Second)
	if m.State != Backoff || m.Attempts != 0 || m.RetryAt != 5*time.Second {
		t.Fatalf("%+v: want %s until 5 s and nothing counted", m, Backoff)
	}
	m, actions := m.Step(p, Fired{Timer: Retry}, 5*time.Second)
	if m.State != Starting || m.Attempts != 1 || !slices.Contains(actions, Action(Relaunch{Placed: true})) {
		t.Errorf("%+v, %v: want a relaunch that is not held back again", m, actions)
	}
}

// TestPutOff: what could not be tried does not count, and is tried when it is said.
func TestPutOff(t *testing.T) {
	m, launches := script(t, hosted(), Machine{State: Running}, []at{
		{10 * time.Second, Exited{}},
		{11 * time.Second, PutOff{Until: 40 * time.Second}},
		{12 * time.Second, Fired{Timer: Healthy}},
	})
	if len(launches) != 1 || m.State != Backoff || m.Attempts != 0 || m.Placed || m.RetryAt != 40*time.Second {
		t.Errorf("launched at %v, then %+v", launches, m)
	}
	m, _ = m.Step(hosted(), Fired{Timer: Retry}, 40*time.Second)
	if m.State != Starting || m.Attempts != 1 {
		t.Errorf("then %+v", m)
	}
}

// TestHeldBackUntilNow: an answer that took longer than the wait it asks for is no reason to wait for ever.
func TestHeldBackUntilNow(t *testing.T) {
	m, launches := script(t, hosted(), Machine{State: Running}, []at{
		{10 * time.Second, Exited{}},
		{12 * time.Second, HeldBack{Until: 11 * time.Second}},
	})
	if len(launches) != 2 || m.State != Starting || m.Attempts != 1 {
		t.Errorf("launched at %v, then %+v", launches, m)
	}
}
