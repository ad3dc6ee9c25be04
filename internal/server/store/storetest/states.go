//nolint:thelper // these are the tests themselves, and fail at their own lines
package storetest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/past"
	"drover/internal/server/store"
)

// recorded returns the record number seq of a stream, which an agent made millis after epoch. Without an id it is about
// the agent.
func recorded(stream string, seq uint64, millis int, id string, shown process.Shown) process.Event {
	e := event(stream, seq, 0, process.EventState, id)
	e.At, e.Shown, e.PID = at(time.Duration(millis)*time.Millisecond).UnixMilli(), &shown, 0
	return e
}

func running(pid int) process.Shown { return process.Shown{State: process.StateRunning, PID: pid} }

func stateMoment(millis int) time.Time { return at(time.Duration(millis) * time.Millisecond) }

// statesOf formats rows as "agent namespace/name", with the pids of both records.
func statesOf(rows []store.RecordedState) []string {
	all := []string{}
	pid := func(r *past.Record) string {
		if r == nil {
			return "-"
		}
		return fmt.Sprint(r.Shown.PID)
	}
	for i := range rows {
		r := &rows[i]
		all = append(all, fmt.Sprintf("%s %s %s %s", r.Agent, r.Process, pid(r.Before), pid(r.After)))
	}
	return all
}

func recordedStates(t *testing.T, s store.Store) {
	ctx := t.Context()
	oldest, err := s.OldestState(ctx)
	must(t, err)
	same(t, "the oldest record of an empty store", time.Time{}, oldest)
	last, err := s.LastCursor(ctx)
	must(t, err)
	putEvents(t, s, "x", 6,
		recorded("s", 1, 1000, "/", process.Shown{State: process.StateRunning, Version: "1.0"}),
		recorded("s", 2, 1000, "ns/web", running(1)), recorded("s", 3, 2000, "ns/web", running(2)),
		recorded("s", 4, 2000, "ns/api@2", running(3)), recorded("s", 5, 4000, "ns/web", running(4)),
		recorded("s", 6, 4000, "other/web", running(5)))
	putEvents(t, s, "y", 1, recorded("r", 1, 3000, "ns/web", running(6)))
	putEvents(t, s, "x", 0, recorded("s", 3, 2000, "ns/web", running(2))) // once more
	now, err := s.LastCursor(ctx)
	must(t, err)
	same(t, "cursor of events after records", last, now)
	same(t, "events", 0, len(upwards(t, s, store.EventFilter{}, 5)))

	list := func(f store.ObservedFilter, millis, limit int) (all []string) {
		t.Helper()
		var after store.ObservedKey
		for more := true; more; {
			var rows []store.RecordedState
			rows, more, err = s.StatesAt(ctx, f, stateMoment(millis), after, limit)
			must(t, err)
			all = append(all, statesOf(rows)...)
			if len(rows) > 0 {
				after = store.ObservedKey{Agent: rows[len(rows)-1].Agent, Process: rows[len(rows)-1].Process}
			}
		}
		return all
	}
	want := []string{"x ns/api@2 3 -", "x ns/web 2 -", "y ns/web - 6", "x other/web - 5"}
	for _, limit := range []int{1, 3, 4, 100} {
		same(t, fmt.Sprint("states in pages of ", limit), want, list(store.ObservedFilter{}, 2000, limit))
	}
	same(t, "states of a namespace", want[:3], list(store.ObservedFilter{Namespace: "ns"}, 2000, 100))
	same(t, "states of copies", want[:1], list(store.ObservedFilter{Namespace: "n*", Name: "api", Copies: true}, 2000, 100))
	same(t, "states of a process", want[1:3],
		list(store.ObservedFilter{Process: process.ID{Namespace: "ns", Name: "web"}}, 2000, 100))
	same(t, "states of an agent", want[2:3], list(store.ObservedFilter{Agents: []string{"y"}}, 2000, 100))
	same(t, "states within", want[3:], list(store.ObservedFilter{Within: []string{"o*"}}, 2000, 100))

	var changed []string
	for after := (store.ObservedKey{}); ; {
		rows, next, err := s.StatesBetween(ctx, store.ObservedFilter{}, stateMoment(2000), stateMoment(4000), after, 2)
		must(t, err)
		changed = append(changed, statesOf(rows)...)
		if after = next; next == (store.ObservedKey{}) {
			break
		}
	}
	same(t, "changes", []string{"x ns/web 2 4", "y ns/web - 6", "x other/web - 5"}, changed)
	oldest, err = s.OldestState(ctx)
	must(t, err)
	same(t, "the oldest record", epoch, oldest)

	t.Run("runs", func(t *testing.T) { runsOfStates(t, s) })
	t.Run("retention", func(t *testing.T) { retentionOfStates(t, s) })
}

func runsOfStates(t *testing.T, s store.Store) {
	ctx := t.Context()
	runAt := func(millis int) *past.Run {
		t.Helper()
		runs, err := s.RunsAt(ctx, []string{"x", "nobody"}, stateMoment(millis))
		must(t, err)
		return runs["x"]
	}
	milli := func(n int) int64 { return stateMoment(n).UnixMilli() }
	if r := runAt(999); r != nil {
		t.Errorf("before the first run there is %+v", r)
	}
	same(t, "the first run",
		&past.Run{Stream: "s", Began: milli(1000), Last: milli(4000), Build: "1.0", Latest: true, Oldest: milli(1000)},
		runAt(1000))
	must(t, s.PutAbsence(ctx, store.Absence{
		Agent: "x", Since: stateMoment(4500), Until: stateMoment(4500), Alive: stateMoment(4200),
	}))
	must(t, s.PutAbsence(ctx, store.Absence{Agent: "x", Since: stateMoment(5000), Until: stateMoment(7000)}))
	putEvents(t, s, "x", 2,
		recorded("s2", 1, 8000, "/", process.Shown{State: process.StateRunning, Version: "2.0"}),
		recorded("s2", 4, 9000, "ns/web", running(7))) // two are missing
	first := &past.Run{
		FirstGap: 9, Stream: "s", Began: milli(1000), Last: milli(4200), Build: "1.0", Oldest: milli(1000),
	}
	same(t, "the first run after the second began", first, runAt(7999))
	got := runAt(8500)
	if got == nil || got.Gap.Cursor == 0 || got.Gap.Since != milli(8000) {
		t.Fatalf("the second run is %+v", got)
	}
	got.Gap, got.FirstGap = past.Gap{}, 0
	same(t, "the second run", &past.Run{
		Stream: "s2", Began: milli(8000), Last: milli(9000), Build: "2.0", Former: milli(4200), FormerBuild: "1.0",
		Latest: true, Oldest: milli(1000),
	}, got)
	putEvents(t, s, "x", 1, recorded("s3", 5, 12_000, "ns/web", running(8))) // the first four are missing
	if r := runAt(10_000); r.Gap.Since != milli(9000) {
		t.Errorf("the beginning of a run was lost, and the gap is %+v", r.Gap)
	}
	began, err := s.RunsBetween(ctx, stateMoment(1000), stateMoment(12_000), 100)
	must(t, err)
	builds := []string{}
	for _, r := range began {
		builds = append(builds, fmt.Sprint(r.Agent, " ", r.Began-milli(0), " ", r.FormerBuild, " ", r.Build))
	}
	same(t, "runs that began", []string{"y 3000  ", "x 8000 1.0 2.0", "x 12000 2.0 "}, builds)
	for _, tt := range []struct{ from, to, want int }{{0, 4999, 0}, {0, 5000, 1}, {5000, 6000, 0}, {6000, 7000, 1}, {7000, 9000, 0}} {
		found, err := s.AbsencesBetween(ctx, stateMoment(tt.from), stateMoment(tt.to), 10)
		must(t, err)
		if len(found) != tt.want {
			t.Errorf("between %d and %d there are the absences %+v", tt.from, tt.to, found)
		}
	}
}

func retentionOfStates(t *testing.T, s store.Store) {
	ctx := t.Context()
	counts, err := s.CountEvents(ctx)
	must(t, err)
	same(t, "counts of events and records", map[string]int{"x": 9, "y": 1}, counts)
	n, err := s.TrimEvents(ctx, "x", 2, 3)
	must(t, err)
	same(t, "trimmed", 3, n)
	n, err = s.TrimEvents(ctx, "x", 2, 3)
	must(t, err)
	same(t, "trimmed once more", 3, n)
	n, err = s.TrimEvents(ctx, "x", 2, 3)
	must(t, err)
	same(t, "trimmed at last", 1, n)
	rows, _, err := s.StatesAt(ctx, store.ObservedFilter{}, stateMoment(99_000), store.ObservedKey{}, 100)
	must(t, err)
	same(t, "states after a trim", []string{"x ns/web 8 -", "y ns/web 6 -"}, statesOf(rows))
	for n = 1; n > 0; {
		n, err = s.PruneEvents(ctx, epoch.Add(time.Second), 1)
		must(t, err)
	}
	rows, _, err = s.StatesAt(ctx, store.ObservedFilter{}, stateMoment(99_000), store.ObservedKey{}, 100)
	must(t, err)
	same(t, "states after everything is too old", []string{}, statesOf(rows))
	found, err := s.AbsencesBetween(ctx, stateMoment(0), stateMoment(9000), 10)
	must(t, err)
	same(t, "absences after that", 1, len(found)) // it ended later
	for range 2 {
		_, err = s.PruneEvents(ctx, epoch.Add(time.Hour), 10)
		must(t, err)
	}
	found, err = s.AbsencesBetween(ctx, stateMoment(0), stateMoment(9000), 10)
	must(t, err)
	same(t, "absences that are too old", 0, len(found))
}

// life is an agent with its processes, and what really was at every moment.
type life struct {
	t      *testing.T
	s      store.Store
	chance *rand.Rand
	agent  string
	now    int // milliseconds after epoch

	truth map[string][]past.Record // by process
	alive [][2]int                 // from and to
	// stream and seq are of the present run, and unsent its lines. lossy tells that something was lost.
	stream string
	seq    uint64
	unsent []process.Event
	sent   []process.Event
	lossy  bool
}

func (l *life) tick() { l.now += 1 + l.chance.IntN(20_000) }

// record writes a line, which the disk may not take.
func (l *life) record(id string, shown process.Shown, loses bool) {
	l.seq++
	if loses {
		l.lossy = true
		return
	}
	l.unsent = append(l.unsent, recorded(l.stream, l.seq, l.now, id, shown))
}

// current is what a process is; Gone for one that is not there.
func (l *life) current(id string) process.Shown {
	if list := l.truth[id]; len(list) > 0 {
		return list[len(list)-1].Shown
	}
	return process.Shown{Gone: true}
}

// turn changes a process.
func (l *life) turn(id string) process.Shown {
	states := process.States()
	shown := process.Shown{
		State: states[l.chance.IntN(len(states))], PID: l.chance.IntN(1000), RegisteredAt: l.current(id).RegisteredAt,
		Hosted: l.chance.IntN(2) == 0,
	}
	switch {
	case l.current(id).Gone:
		shown.RegisteredAt = stateMoment(l.now).Unix()
	case l.chance.IntN(5) == 0:
		shown = process.Shown{Gone: true}
	}
	l.truth[id] = append(l.truth[id], past.Record{At: stateMoment(l.now).UnixMilli(), Shown: shown})
	return shown
}

var livedNames = []string{"ns/a", "ns/b", "ns/c"}

func (l *life) start(run int) {
	l.stream, l.seq = fmt.Sprint("run", run), 0
	l.alive = append(l.alive, [2]int{l.now, l.now})
	l.record("/", process.Shown{State: process.StateRunning, Version: "1"}, false)
	l.baseline()
}

// baseline records everything.
func (l *life) baseline() {
	for _, id := range livedNames {
		if shown := l.current(id); !shown.Gone {
			l.record(id, shown, false)
		}
	}
}

// deliver sends lines in order, some of them twice.
func (l *life) deliver() {
	all := l.unsent
	if n := len(l.sent); n > 0 {
		all = append(append([]process.Event{}, l.sent[max(0, n-1-l.chance.IntN(3)):]...), all...)
	}
	for len(all) > 0 {
		n := 1 + l.chance.IntN(len(all))
		_, err := l.s.PutEvents(l.t.Context(), l.agent, stateMoment(l.now), NewEvents(all[:n]...))
		must(l.t, err)
		all = all[n:]
	}
	l.sent, l.unsent = append(l.sent, l.unsent...), nil
}

// live lets the agent run for a while, and processes change.
func (l *life) live(losses bool) {
	for range 1 + l.chance.IntN(12) {
		l.tick()
		id := livedNames[l.chance.IntN(len(livedNames))]
		if l.current(id).Gone && l.chance.IntN(2) == 0 {
			continue
		}
		l.record(id, l.turn(id), losses && l.chance.IntN(4) == 0)
		if l.chance.IntN(3) == 0 {
			l.deliver()
		}
	}
	if l.tick(); l.lossy && l.chance.IntN(2) == 0 {
		l.baseline()
	}
	l.record(livedNames[0], l.current(livedNames[0]), false) // the last line of a run is not lost
	l.alive[len(l.alive)-1][1] = l.now
}

// die ends the run. Processes change while nobody looks.
func (l *life) die() {
	died := l.now
	for range l.chance.IntN(3) {
		l.tick()
		id := livedNames[l.chance.IntN(len(livedNames))]
		if shown := l.current(id); !shown.Gone {
			shown.PID = l.chance.IntN(1000)
			l.truth[id] = append(l.truth[id], past.Record{At: stateMoment(l.now).UnixMilli(), Shown: shown})
		}
	}
	l.deliver()
	if l.tick(); l.chance.IntN(2) == 0 { // the server had heard it later than its last line
		alive := stateMoment(died)
		must(l.t, l.s.PutAbsence(l.t.Context(), store.Absence{Agent: l.agent, Since: alive, Until: alive, Alive: alive}))
	}
}

// at is what a process really was.
func (l *life) at(id string, millis int) process.Shown {
	shown := process.Shown{Gone: true}
	for _, r := range l.truth[id] {
		if r.At <= stateMoment(millis).UnixMilli() {
			shown = r.Shown
		}
	}
	return shown
}

// lived reports whether the agent ran at a moment, for some time already.
func (l *life) lived(millis int) bool {
	for _, run := range l.alive {
		if millis >= run[0] && millis <= run[1] {
			return true
		}
	}
	return false
}

// check compares the states that the store knows with what really was. It returns how many are known.
func (l *life) check(complete bool) (known int) {
	l.t.Helper()
	for range 60 {
		millis := l.chance.IntN(l.now)
		rows, _, err := l.s.StatesAt(l.t.Context(), store.ObservedFilter{Agents: []string{l.agent}}, stateMoment(millis),
			store.ObservedKey{}, 100)
		must(l.t, err)
		runs, err := l.s.RunsAt(l.t.Context(), []string{l.agent}, stateMoment(millis))
		must(l.t, err)
		seen := map[string]bool{}
		for _, r := range rows {
			s := past.At(stateMoment(millis).UnixMilli(), r.Before, r.After, runs[l.agent])
			id := r.Process.String()
			was := l.at(id, millis)
			seen[id] = true
			switch {
			case s.Known && (was.Gone || !s.Shown.Same(was)):
				l.t.Errorf("%s at %d is %+v, and was %+v", id, millis, s.Shown, was)
			case s.Known && !l.lived(millis):
				l.t.Errorf("%s at %d is known although no agent ran", id, millis)
			case !s.Exists && !was.Gone:
				l.t.Errorf("%s at %d does not exist, and was %+v", id, millis, was)
			case complete && !s.Known && !was.Gone && l.lived(millis):
				l.t.Errorf("%s at %d is unknown (%s), and was %+v", id, millis, s.Why, was)
			}
			if s.Known {
				known++
			}
		}
		for _, id := range livedNames {
			if complete && !seen[id] && !l.at(id, millis).Gone {
				l.t.Errorf("%s at %d is not listed", id, millis)
			}
		}
	}
	return known
}

// histories is how many histories a run lives, which differ from run to run.
const histories = 20

// foldIsLife lives random histories: what the store tells of a moment is what was, or it is unknown. Without losses
// everything is known while an agent ran.
func foldIsLife(t *testing.T, s store.Store) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // a history to repeat
	known := 0
	for n := range histories {
		l := &life{t: t, s: s, chance: chance, agent: fmt.Sprint("agent", n), truth: map[string][]past.Record{}}
		losses := n%2 == 1
		for run := range 1 + chance.IntN(4) {
			l.tick()
			l.start(run)
			l.live(losses)
			l.die()
		}
		l.deliver()
		known += l.check(!losses)
		if n%4 < 2 { // retention removes what was stored first
			_, err := s.TrimEvents(t.Context(), l.agent, 4, 100)
			must(t, err)
			l.check(false)
		}
		if t.Failed() {
			t.Fatalf("history %d, losses %v", n, losses)
		}
	}
	if known == 0 {
		t.Error("nothing was known at any moment: the test proves nothing")
	}
}
