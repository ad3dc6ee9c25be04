package receiver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"drover/internal/process"
	"drover/internal/server/alarm"
	"drover/internal/server/receiver"
	"drover/internal/server/store"
)

// quiet is a sender in a bubble whose deliveries do not leave it.
type quiet struct {
	t *testing.T
	*disk
	sender *receiver.Sender
	got    []string
	mu     sync.Mutex
	begun  time.Time
	cursor int64
}

// silenced runs a test in virtual time. Every delivery is noted as the kinds and processes of its alarms.
func silenced(t *testing.T, test func(t *testing.T, q *quiet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(store.Receiver{Name: "ops", Kind: store.KindWebhook, Local: true})
		q := &quiet{t: t, disk: d, begun: time.Now()}
		q.sender = receiver.New(receiver.Config{
			Store: d, Hosts: d, Now: time.Now, Log: slog.New(slog.DiscardHandler), Pace: time.Millisecond,
		})
		q.sender.DeliverBy(func(_ context.Context, body []byte) error {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.got = append(q.got, summary(t, body))
			return nil
		})
		end := begin(t, q.sender)
		test(t, q)
		end()
	})
}

// summary returns the alarms of a message.
func summary(t *testing.T, body []byte) string {
	t.Helper()
	var m alarm.Message
	if err := json.Unmarshal(body, &m); err != nil {
		t.Errorf("body %q: %v", body, err)
	}
	var all []string
	for _, a := range m.Data {
		_, kind, _ := strings.Cut(a.Name, "_")
		all = append(all, strings.ReplaceAll(kind, "cancel_restart", "given-up")+" "+a.Dimension.Name)
		if a.Count > 1 {
			all = append(all, fmt.Sprint("×", a.Count))
		}
	}
	return strings.Join(all, " ")
}

// event makes an event now, of the process on host A, and lets the sender work.
func (q *quiet) event(kind process.EventKind, name string) { q.eventOf("", kind, name) }

// eventOf makes an event about a schedule.
func (q *quiet) eventOf(schedule string, kind process.EventKind, name string) {
	q.disk.mu.Lock()
	q.cursor++
	q.disk.events = append(q.disk.events, store.StoredEvent{Cursor: q.cursor, Agent: "A", Event: process.Event{
		Kind: kind, Process: process.ID{Namespace: "ns", Name: name}, Schedule: schedule, At: time.Now().UnixMilli(),
	}})
	q.disk.mu.Unlock()
	q.work()
}

func (q *quiet) work() {
	q.sender.News()
	time.Sleep(20 * time.Millisecond) // virtual
	synctest.Wait()
}

// is sets the status of a process on host A.
func (q *quiet) is(name, state string) {
	q.disk.mu.Lock()
	defer q.disk.mu.Unlock()
	id := process.ID{Namespace: "ns", Name: name}
	q.disk.observed[store.ObservedKey{Agent: "A", Process: id}] = store.Observed{Agent: "A", Process: id, Status: process.Status{
		Known: true, Hosted: true, State: state, Flapping: state == process.StateFlapping,
		Instance: process.Instance{PID: -1},
	}}
}

// silence adds a silence from now on.
func (q *quiet) silence(id string, s store.Silence, length time.Duration) {
	q.disk.mu.Lock()
	s.ID, s.From, s.Until = id, time.Now().Truncate(time.Millisecond), time.Now().Add(length)
	q.disk.silences = append(q.disk.silences, s)
	q.disk.mu.Unlock()
	q.sender.Changed()
	synctest.Wait()
}

// delivered fails the test if other messages have been delivered since the last call.
func (q *quiet) delivered(want ...string) {
	q.t.Helper()
	synctest.Wait()
	q.mu.Lock()
	defer q.mu.Unlock()
	if fmt.Sprint(q.got) != fmt.Sprint(want) {
		q.t.Errorf("after %s: delivered %v, want %v", time.Since(q.begun), q.got, want)
	}
	q.got = nil
}

// TestSilence: alarms of what a silence covers are counted, and at its end those that still hold arrive, once.
func TestSilence(t *testing.T) {
	t.Parallel()
	silenced(t, func(t *testing.T, q *quiet) {
		q.silence("s", store.Silence{Processes: []string{"ns/w*"}, Selector: "role=web"}, time.Hour)
		q.event(process.EventGivenUp, "db") // not covered
		q.delivered("given-up db")
		for _, name := range []string{"web", "well", "wound"} {
			q.is(name, process.StateGivenUp)
			q.event(process.EventRelaunched, name)
			q.event(process.EventGivenUp, name)
			q.event(process.EventGivenUp, name)
		}
		q.is("well", process.StateRunning)
		q.delivered()
		if got := fmt.Sprint(q.disk.counts); got != "map[s:9]" {
			t.Errorf("counted %s", got)
		}
		time.Sleep(59 * time.Minute)
		q.delivered()
		time.Sleep(time.Minute)
		q.delivered("given-up web given-up wound")
		q.is("web", process.StateGivenUp)
		time.Sleep(time.Hour)
		q.work()
		q.delivered()
		q.event(process.EventGivenUp, "web")
		q.delivered("given-up web")
		if n := len(q.disk.withheld); n != 0 {
			t.Errorf("%d alarms are still stored as withheld", n)
		}
	})
}

// TestSilencedHosts: a silence of named hosts covers all alarms of these hosts and no other.
func TestSilencedHosts(t *testing.T) {
	t.Parallel()
	silenced(t, func(_ *testing.T, q *quiet) {
		q.silence("by-address", store.Silence{Hosts: []string{"2:10.0.0.1", "1:10.0.0.*"}}, time.Hour)
		q.event(process.EventGivenUp, "web")
		q.event(process.EventHostAway, "")
		q.delivered()
		time.Sleep(time.Hour)
		q.delivered("away ") // it still holds
		q.silence("another", store.Silence{Hosts: []string{"host-b", "1:10.0.0.2"}}, time.Hour)
		q.event(process.EventGivenUp, "web")
		q.delivered("given-up web")
	})
}

// TestSilencedSchedule: the withheld alarm about a schedule arrives after the silence, unless a run has succeeded.
func TestSilencedSchedule(t *testing.T) {
	t.Parallel()
	silenced(t, func(_ *testing.T, q *quiet) {
		q.silence("s", store.Silence{}, time.Hour)
		for _, name := range []string{"web", "well"} {
			q.is(name, process.StateRunning)
			q.event(process.EventScheduleFailed, name)
		}
		q.event(process.EventScheduleRecovered, "well")
		q.delivered()
		time.Sleep(time.Hour)
		q.delivered("schedule_failed web")
		q.event(process.EventScheduleRecovered, "web")
		q.delivered()
	})
}

// TestSilencedSchedulesOfOneProcess: the alarms of two schedules are two, also if both have failed with the same process.
func TestSilencedSchedulesOfOneProcess(t *testing.T) {
	t.Parallel()
	silenced(t, func(_ *testing.T, q *quiet) {
		q.silence("s", store.Silence{}, time.Hour)
		for _, schedule := range []string{"daily", "nightly", "weekly"} {
			q.eventOf(schedule, process.EventScheduleFailed, "web")
		}
		q.eventOf("daily", process.EventScheduleRecovered, "web")
		q.delivered()
		time.Sleep(time.Hour)
		q.delivered("schedule_failed web schedule_failed web")
	})
}

// TestSilencesOverlap: the end of one silence delivers nothing that another one covers.
func TestSilencesOverlap(t *testing.T) {
	t.Parallel()
	silenced(t, func(_ *testing.T, q *quiet) {
		q.silence("a", store.Silence{Selector: "role=web"}, time.Hour)
		q.is("x", process.StateFlapping)
		q.event(process.EventFlapping, "x")
		time.Sleep(30 * time.Minute)
		q.silence("b", store.Silence{Processes: []string{"ns/x"}}, time.Hour)
		time.Sleep(45 * time.Minute) // a has ended
		q.delivered()
		time.Sleep(20 * time.Minute)
		q.delivered("flapping x")
	})
}

// TestARemovedSilenceEnds: what it has withheld arrives at once, and another sender knows what the first one withheld.
func TestARemovedSilenceEnds(t *testing.T) {
	t.Parallel()
	silenced(t, func(t *testing.T, q *quiet) {
		q.silence("s", store.Silence{Processes: []string{"*/*"}}, time.Hour)
		q.is("x", process.StateGivenUp)
		q.event(process.EventGivenUp, "x")
		q.delivered()
		if n := len(q.disk.withheld); n != 1 {
			t.Errorf("%d alarms are stored as withheld: a server that dies now would forget them", n)
		}
		q.disk.mu.Lock()
		q.disk.silences[0].Removed = time.Now()
		q.disk.mu.Unlock()
		q.sender.Changed()
		q.work()
		q.delivered("given-up x")
	})
}

// TestAnAlarmThatComesLate: an agent that was away tells of its alarms after the silence.
func TestAnAlarmThatComesLate(t *testing.T) {
	t.Parallel()
	silenced(t, func(_ *testing.T, q *quiet) {
		q.silence("s", store.Silence{Processes: []string{"ns/*"}}, time.Hour)
		at := time.Now().Add(time.Minute).UnixMilli()
		time.Sleep(2 * time.Hour)
		q.is("x", process.StateGivenUp)
		q.is("y", process.StateRunning)
		q.disk.mu.Lock()
		for i, name := range []string{"x", "y"} {
			q.disk.events = append(q.disk.events, store.StoredEvent{Cursor: int64(i + 1), Agent: "A", Event: process.Event{
				Kind: process.EventGivenUp, Process: process.ID{Namespace: "ns", Name: name}, At: at,
			}})
		}
		q.disk.mu.Unlock()
		q.work()
		q.delivered("given-up x")
	})
}

// TestASilenceThatRepeats: it withholds alarms in each window, and delivers at the end of each what still holds.
func TestASilenceThatRepeats(t *testing.T) {
	t.Parallel()
	silenced(t, func(t *testing.T, q *quiet) {
		// The bubble begins at midnight, 2000-01-01.
		q.silence("s", store.Silence{
			Processes: []string{"ns/*"}, Cron: "0 2 * * *", Zone: "UTC", Length: 2 * time.Hour,
		}, 0)
		q.disk.mu.Lock()
		q.disk.silences[0].Until = store.Forever()
		q.disk.mu.Unlock()
		q.is("x", process.StateGivenUp)
		q.event(process.EventGivenUp, "x")
		q.delivered("given-up x")
		for range 2 {
			time.Sleep(3*time.Hour - time.Since(q.begun)%(24*time.Hour)) // three o'clock
			q.event(process.EventGivenUp, "x")
			q.delivered()
			time.Sleep(59 * time.Minute)
			q.delivered()
			time.Sleep(time.Minute)
			q.delivered("given-up x")
			q.event(process.EventGivenUp, "x")
			q.delivered("given-up x")
			time.Sleep(21 * time.Hour)
		}
		if got := fmt.Sprint(q.disk.counts); got != "map[s:2]" {
			t.Errorf("counted %s", got)
		}
	})
}

// TestManyWithheld: many withheld alarms cost few reads, and arrive in messages of a bounded size.
func TestManyWithheld(t *testing.T) {
	t.Parallel()
	silenced(t, func(t *testing.T, q *quiet) {
		const hosts = 24_500
		x := process.ID{Namespace: "ns", Name: "x"}
		q.silence("s", store.Silence{Labels: "team=a"}, 5*time.Minute)
		q.disk.mu.Lock()
		for i := range hosts {
			o := store.Observed{
				Agent: fmt.Sprint("H", i), Process: x, Spec: &process.Spec{Labels: map[string]string{"team": "a"}},
				Status: process.Status{Known: true, Hosted: true, State: process.StateGivenUp},
			}
			q.disk.observed[store.ObservedKey{Agent: o.Agent, Process: x}] = o
			q.disk.events = append(q.disk.events, store.StoredEvent{Cursor: int64(i + 1), Agent: o.Agent, Event: process.Event{
				Kind: process.EventGivenUp, Process: x, At: time.Now().UnixMilli(),
			}})
		}
		q.cursor = hosts
		q.disk.mu.Unlock()
		q.work()
		for range 50 {
			q.event(process.EventStarted, "y")
		}
		q.delivered()
		q.disk.mu.Lock()
		reads, counted := q.disk.reads, q.disk.counts["s"]
		q.disk.mu.Unlock()
		if reads > 150 || counted != hosts {
			t.Errorf("%d alarms are withheld, after %d reads", counted, reads)
		}
		time.Sleep(6 * time.Minute)
		q.delivered("given-up x ×20000", "given-up x ×4500")
	})
}

// TestSilencedRolloutsAndHosts: what is withheld of a rollout or a host arrives after the silence, unless it has ended.
func TestSilencedRolloutsAndHosts(t *testing.T) {
	t.Parallel()
	silenced(t, func(_ *testing.T, q *quiet) {
		q.silence("s", store.Silence{}, time.Hour)
		for _, name := range []string{"web", "well"} {
			q.event(process.EventRolloutPaused, name)
			q.event(process.EventHostAway, name)
		}
		q.event(process.EventRolloutDone, "well")
		q.event(process.EventHostBack, "well")
		q.delivered()
		time.Sleep(time.Hour)
		q.delivered("paused web away web")
	})
}
