package report_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover/internal/agent/report"
	"drover/internal/agent/uplink/linkstate"
	"drover/internal/process"
	"drover/internal/wire"
)

// stored is what a server has of an agent: the place of the last report with states, and the states.
type stored struct {
	session string
	number  int64
	states  map[process.ID]string
}

// keeper is a server that keeps states as the store of servers does: see store.Observations.
type keeper struct {
	*rig
	has stored
	// incarnation is that of its database.
	incarnation string
	// fate says what happens to the next reports: they arrive or not, and their answers do or not.
	fate func() (arrives, answered bool)
	// told counts the states that arrived, reports the reports.
	told, reports int
}

func (k *keeper) Revisions() (latest uint64, records map[process.ID]uint64, err error) {
	records = map[process.ID]uint64{}
	for _, id := range k.ProcessIDs() {
		records[id] = 1
	}
	return 1, records, nil
}

func (k *keeper) Report(_ context.Context, data []byte) ([]byte, error) {
	rep, err := wire.ReadReport(data)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	arrives, answered := k.fate()
	if !arrives {
		return nil, errors.New("the report is lost")
	}
	ack := k.keep(rep)
	if !answered {
		return nil, errors.New("the answer is lost")
	}
	return json.Marshal(ack)
}

func (k *keeper) keep(rep *wire.Report) wire.ReportAck {
	k.reports++
	ack := wire.ReportAck{Version: wire.Version, Incarnation: k.incarnation}
	same := k.has.session == rep.Session
	if hello := rep.Hello; hello != nil {
		ack.Known = same && rep.Told != 0 && rep.Told == k.has.number
		maps.DeleteFunc(k.has.states, func(id process.ID, _ string) bool {
			_, has := hello.Disk.Records[id]
			return !has
		})
	} else if !same || rep.Told > k.has.number {
		ack.Hello = true
		return ack
	}
	if !same || len(rep.Observed) > 0 {
		k.has.session, k.has.number = rep.Session, rep.Number
	}
	for _, o := range rep.Observed {
		k.told++
		if o.Gone {
			delete(k.has.states, o.Process)
		} else {
			k.has.states[o.Process] = o.Status.State
		}
	}
	return ack
}

// lossless is the fate of a link that loses nothing.
func lossless() (arrives, answered bool) { return true, true }

// many processes are more than one report holds.
const many = 700

// keeping runs fn beside the reporter of a host with some processes, whose server is a keeper.
func keeping(t *testing.T, processes int, fn func(k *keeper)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{
			rig: &rig{
				t: t, known: map[process.ID]process.Status{}, specs: map[process.ID]*process.Spec{}, linkState: linked(),
			},
			has: stored{states: map[process.ID]string{}}, fate: lossless,
		}
		for i := range processes {
			k.known[id(strconv.Itoa(i))] = process.Status{State: "running"}
		}
		k.Reporter = report.New(report.Config{
			Link: k, LinkState: k.linkState, Journal: k, Events: history{k.rig}, Disk: k, Heartbeat: time.Hour,
			Log: slog.New(slog.DiscardHandler),
		})
		during(t, k.Reporter, k, nil, func() { fn(k) })
	})
}

// wantAll compares what the server has with what there is.
func (k *keeper) wantAll(when string) {
	k.t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	want := map[process.ID]string{}
	for id, s := range k.known {
		want[id] = s.State
	}
	if diff := cmp.Diff(want, k.has.states); diff != "" {
		k.t.Fatalf("%s: states (-want +got):\n%s", when, diff)
	}
}

// TestKnownStatesAreNotToldAgain: after a reconnect only changes are told, if the server has what was told before.
func TestKnownStatesAreNotToldAgain(t *testing.T) {
	keeping(t, many, func(k *keeper) {
		pass(time.Second)
		k.wantAll("at first")
		expect := func(what string, told, reports int) {
			t.Helper()
			pass(time.Minute)
			k.wantAll(what)
			if k.told != told || k.reports != reports {
				t.Errorf("%s: %d states in %d reports, want %d in %d", what, k.told, k.reports, told, reports)
			}
			k.told, k.reports = 0, 0
		}
		expect("at first", 700, 3)
		k.connect()
		expect("after a reconnect", 0, 1)
		k.linkState.Lost()
		k.set(id("3"), process.Status{State: "down"})
		k.connect()
		expect("after a change without a link", 1, 2)
		k.mu.Lock()
		k.has = stored{states: map[process.ID]string{}}
		k.mu.Unlock()
		k.connect()
		expect("at a server that has lost everything", 700, 3)
	})
}

// TestNothingToTell: the introduction of an agent without processes is its only report.
func TestNothingToTell(t *testing.T) {
	keeping(t, 0, func(k *keeper) {
		pass(time.Minute)
		if k.reports != 1 || k.Behind() {
			t.Errorf("%d reports, behind: %v", k.reports, k.Behind())
		}
	})
}

// TestAllStatesArrive: whatever is lost on the way, and whatever copy of its data a server goes back to, it has all
// states in the end.
func TestAllStatesArrive(t *testing.T) {
	for seed := range uint64(20) {
		keeping(t, many, func(k *keeper) {
			dice := rand.New(rand.NewPCG(seed, 7))  //nolint:gosec // not a secret
			fates := rand.New(rand.NewPCG(seed, 8)) //nolint:gosec // not a secret
			k.mu.Lock()
			k.fate = func() (bool, bool) { return fates.IntN(4) > 0, fates.IntN(4) > 0 }
			k.mu.Unlock()
			var copies []stored
			for range 60 {
				name := id(strconv.Itoa(dice.IntN(many)))
				switch dice.IntN(8) {
				case 0:
					k.linkState.Lost()
					pass(time.Duration(dice.IntN(3)) * time.Second)
					k.connect()
				case 1:
					k.connect()
				case 2:
					k.mu.Lock()
					copies = append(copies, stored{k.has.session, k.has.number, maps.Clone(k.has.states)})
					k.mu.Unlock()
				case 3:
					if len(copies) > 0 && dice.IntN(3) == 0 { // its links end with the server, or at a proxy they do not
						if dice.IntN(2) == 0 {
							k.linkState.Lost()
						}
						k.mu.Lock()
						old := copies[dice.IntN(len(copies))]
						k.has = stored{old.session, old.number, maps.Clone(old.states)}
						copies = nil // those that are later have another past
						k.mu.Unlock()
						if k.linkState.Now().State == linkstate.Offline {
							k.connect()
						}
					}
				case 4:
					k.mu.Lock()
					delete(k.known, name)
					k.mu.Unlock()
					k.Removed(name, 1)
				default:
					k.set(name, process.Status{State: strconv.Itoa(dice.Int())})
				}
				pass(time.Duration(dice.IntN(200)) * time.Millisecond)
			}
			k.mu.Lock()
			k.fate = lossless
			k.mu.Unlock()
			pass(time.Minute)
			k.wantAll("seed " + strconv.FormatUint(seed, 10))
		})
	}
}

// TestLostEvents: events that the database lacks are sent again after an introduction, also if it has all states.
func TestLostEvents(t *testing.T) {
	keeping(t, 3, func(k *keeper) {
		pass(time.Second)
		k.mu.Lock()
		k.incarnation = "one"
		k.mu.Unlock()
		k.connect()
		pass(time.Second)
		k.set(id("0"), process.Status{State: "down"})
		pass(time.Second)
		k.mu.Lock()
		k.told, k.reports, k.lost = 0, 0, []process.Event{{Stream: "s", Seq: 1}, {Stream: "s", Seq: 2}}
		k.mu.Unlock()
		k.connect()
		pass(time.Second)
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.told != 0 || k.reports != 2 || len(k.rig.told) != 2 {
			t.Errorf("%d states and %d events in %d reports, want 2 events in 2", k.told, len(k.rig.told), k.reports)
		}
	})
}

// TestRestoredDatabase: an agent whose link outlives the restoration of the servers' database tells everything anew,
// before anything that it says counts, and its events are pending again.
func TestRestoredDatabase(t *testing.T) {
	before := func(_ *testing.T, r *rig) { r.known[id("a")] = process.Status{State: "running"} }
	bubble(t, before, func(t *testing.T, r *rig) {
		incarnation := "one"
		r.mu.Lock()
		r.answer = func(rep wire.Report) (wire.ReportAck, error) {
			return wire.ReportAck{
				Incarnation: incarnation, Heard: map[string]uint64{incarnation: 7},
				Hello: rep.Hello == nil && rep.Incarnation != incarnation,
			}, nil
		}
		r.mu.Unlock()
		r.linkState.Outdated()
		pass(time.Second)
		r.mu.Lock()
		incarnation, r.got = "two", nil
		r.mu.Unlock()
		r.set(id("a"), process.Status{State: "down"})
		r.happen(1, 1)
		r.Finished("item", process.Outcome{})
		pass(time.Second)
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.got) != 2 {
			t.Fatalf("%d reports, want the one that did not count, and an introduction", len(r.got))
		}
		again := r.got[1]
		if again.Hello == nil || again.Incarnation != "two" || again.Told != 0 || len(again.Observed) != 1 ||
			len(again.Events) != 1 || len(again.Progress) != 1 || !again.Whole {
			t.Errorf("the introduction is %+v", again)
		}
		if diff := cmp.Diff([]map[string]uint64{{"one": 7}, {"two": 7}}, r.heard); diff != "" {
			t.Errorf("what the database has of the events (-want +got):\n%s", diff)
		}
		if len(r.told) != 1 || len(r.acked) != 1 {
			t.Errorf("%d events and %d outcomes are acknowledged, want one each", len(r.told), len(r.acked))
		}
	})
}
