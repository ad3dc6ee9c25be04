package upkeep_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/upkeep"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// TestDecide: each rule alone.
func TestDecide(t *testing.T) {
	joined := upkeep.Memory{Member: upkeep.Joined}
	leaving := upkeep.Memory{Member: upkeep.Leaving}
	tried := func(goal string, tries int, ago time.Duration) upkeep.Memory {
		return upkeep.Memory{Member: upkeep.Joined, Goal: goal, Tries: tries, At: epoch.Add(-ago)}
	}
	for name, tt := range map[string]struct {
		c    upkeep.Case
		want string // operation, member
	}{
		"comes to match": {
			upkeep.Case{Standing: true, Selected: true, Apply: process.Start}, "start joined",
		},
		"comes to match while it is away": {
			upkeep.Case{Standing: true, Selected: true, Apply: process.Start, Blocked: true}, " ",
		},
		"matches and had the process": {
			upkeep.Case{Standing: true, Selected: true, Placed: 3, ByFile: true, Known: true, Has: 3}, " joined",
		},
		"matches, and had another spec before": {
			upkeep.Case{
				Standing: true, Selected: true, Placed: 3, ByFile: true, Known: true, Has: 3, Behind: true,
				Apply: process.Restart,
			}, "restart joined",
		},
		"matches and has the same process of its own": {
			upkeep.Case{Standing: true, Selected: true, Known: true}, " joined",
		},
		"matches, and a person has removed the process": {
			upkeep.Case{Memory: joined, Standing: true, Selected: true, Apply: process.Start}, " joined",
		},
		"ceases to match and keeps it": {
			upkeep.Case{Memory: joined, Standing: true, Placed: 3, Known: true, Has: 3, Up: true}, " ",
		},
		"ceases to match and stops it": {
			upkeep.Case{Memory: joined, Standing: true, Stops: true, Placed: 3, Known: true, Has: 3, Up: true},
			"stop leaving removes",
		},
		"was stopped": {
			upkeep.Case{Memory: leaving, Standing: true, Stops: true, Known: true, Has: 3}, "unregister leaving removes",
		},
		"was removed":           {upkeep.Case{Memory: leaving, Standing: true, Stops: true}, " "},
		"matches again halfway": {upkeep.Case{Memory: leaving, Standing: true, Selected: true, Known: true}, "start joined"},
		"a person gave it back halfway": {
			upkeep.Case{Memory: leaving, Standing: true, Stops: true, Placed: 9, Known: true, Has: 9, Up: true}, " ",
		},
		"ceases to match before it got the process": {
			upkeep.Case{Memory: joined, Standing: true, Stops: true, Placed: 3}, "unregister leaving removes",
		},
		"has the process, and never had it by the selection": {
			upkeep.Case{Standing: true, Stops: true, Placed: 3, Known: true, Has: 3, Up: true}, " ",
		},
		"the selection is over": {
			upkeep.Case{Memory: joined, Stops: true, Placed: 3, Known: true, Has: 3, Up: true}, " ",
		},
		"missed an apply": {
			upkeep.Case{Placed: 4, ByFile: true, Known: true, Has: 3, Apply: process.Restart, Reach: upkeep.Unreached},
			"restart ",
		},
		"missed the first apply": {
			upkeep.Case{Placed: 4, ByFile: true, Apply: process.Start, Reach: upkeep.Unreached}, "start ",
		},
		"missed a call of GSE": {
			upkeep.Case{Placed: 4, Known: true, Has: 3, Apply: process.Restart, Reach: upkeep.Unreached}, " ",
		},
		"rejected an apply": {
			upkeep.Case{Placed: 4, ByFile: true, Known: true, Has: 3, Apply: process.Restart, Reach: upkeep.Answered}, " ",
		},
		"rejected an apply that is not kept any more": {
			upkeep.Case{
				Memory: tried("answered:4", 0, time.Hour), Standing: true, Selected: true, Placed: 4, ByFile: true, Known: true,
				Has: 3, Apply: process.Restart,
			}, " joined",
		},
		"missed an apply long ago": {
			upkeep.Case{Placed: 4, ByFile: true, Known: true, Has: 3, Apply: process.Restart}, "restart ",
		},
		"has a later spec": {
			upkeep.Case{Placed: 4, ByFile: true, Known: true, Has: 5, Apply: process.Restart}, " ",
		},
		"was tried a moment ago": {
			upkeep.Case{
				Memory: tried("deliver:4", 1, 59*time.Second), Standing: true, Selected: true, Placed: 4, ByFile: true,
				Known: true, Has: 3, Apply: process.Restart,
			}, " joined",
		},
		"was tried a minute ago": {
			upkeep.Case{
				Memory: tried("deliver:4", 1, time.Minute), Standing: true, Selected: true, Placed: 4, ByFile: true, Known: true,
				Has: 3, Apply: process.Restart,
			}, "restart joined",
		},
		"missed a removal": {
			upkeep.Case{Removed: 4, Known: true, Has: 3, Up: true, Reach: upkeep.Unreached}, "stop  removes",
		},
		"missed a removal, and was stopped since": {
			upkeep.Case{Memory: upkeep.Memory{Goal: "leave:4", Tries: 1, At: epoch}, Removed: 4, Known: true, Has: 3},
			"unregister  removes",
		},
		"missed a removal long ago": {upkeep.Case{Removed: 4, Known: true, Has: 3}, "unregister  removes"},
		"missed a removal, and is away": {
			upkeep.Case{Removed: 4, Known: true, Has: 3, Up: true, Reach: upkeep.Unreached, Blocked: true}, " ",
		},
		"rejected a removal": {
			upkeep.Case{Removed: 4, Known: true, Has: 3, Up: true, Reach: upkeep.Answered}, " ",
		},
		"rejected a removal that is not kept any more": {
			upkeep.Case{Memory: upkeep.Memory{Goal: "answered:4"}, Removed: 4, Known: true, Has: 3, Up: true}, " ",
		},
		"missed a removal, and matches a selection now": {
			upkeep.Case{
				Memory: joined, Standing: true, Selected: true, Removed: 4, Known: true, Has: 3, Up: true,
				Reach: upkeep.Unreached,
			}, " joined",
		},
		"missed a removal, and got the process back": {
			upkeep.Case{Placed: 5, Removed: 4, Known: true, Has: 5, Up: true, Reach: upkeep.Unreached}, " ",
		},
		"has drifted": {
			upkeep.Case{Placed: 4, ByFile: true, Known: true, Has: 4, Drifted: process.Restart}, "restart ",
		},
		"has drifted from what a person gave it": {
			upkeep.Case{Placed: 4, Known: true, Has: 4, Drifted: process.Restart}, " ",
		},
		"has drifted again and again": {
			upkeep.Case{
				Memory: tried("mend:4", 3, 3*time.Minute), Standing: true, Selected: true, Placed: 4, ByFile: true, Known: true,
				Has: 4, Drifted: process.Restart,
			}, " joined",
		},
	} {
		d := upkeep.Decide(tt.c, epoch)
		got := fmt.Sprintf("%s %s", d.Op, d.Memory.Member)
		if d.Removes {
			got += " removes"
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

// TestPauses: orders for one goal come ever more rarely, and anew for another goal.
func TestPauses(t *testing.T) {
	c := upkeep.Case{Placed: 4, ByFile: true, Known: true, Has: 4, Drifted: process.Restart}
	now, last := epoch, epoch
	var pauses []time.Duration
	for range 100_000 {
		d := upkeep.Decide(c, now)
		if c.Memory = d.Memory; d.Op != "" {
			pauses, last = append(pauses, now.Sub(last)), now
		}
		now = now.Add(time.Minute)
	}
	if len(pauses) < 12 || len(pauses) > 90 {
		t.Fatalf("%d orders within %v", len(pauses), now.Sub(epoch))
	}
	for i, p := range pauses[1:] {
		if want := min(time.Minute<<min(i, 20), 24*time.Hour); p != want {
			t.Fatalf("pause %d is %v, want %v", i, p, want)
		}
	}
	c.Placed, c.Has = 5, 5
	if d := upkeep.Decide(c, now); d.Op == "" || d.Memory.Tries != 1 {
		t.Errorf("for another goal: %+v", d)
	}
}

// host is a host of the model, with what the server knows of its process.
type host struct {
	matches, away bool
	// known, up and has are the process on the host; wantStopped says that a person stopped it.
	known, up, wantStopped bool
	has                    int64
	// placed, byFile and reach are what the server has accepted.
	placed int64
	byFile bool
	reach  upkeep.Reach
	// gave is the file whose spec was placed last.
	gave int64
	// removed says that a person removed the process while the host was selected.
	removed bool
	memory  upkeep.Memory
	serial  int
	// orders are what is under way.
	orders []order
}

type order struct {
	op       process.Op
	revision int64
	removes  bool
	ours     bool
}

// world is a fleet with one process, one selection and several servers.
type world struct {
	t        *testing.T
	rng      *rand.Rand
	now      time.Time
	hosts    []*host
	revision int64
	stops    bool
	chosen   int64 // the revision of the file
	orders   int
}

func (w *world) fact(h *host) upkeep.Case {
	c := upkeep.Case{
		Memory: h.memory, Standing: true, Selected: h.matches, Chosen: fmt.Sprint(w.chosen), Stops: w.stops,
		Placed: h.placed, ByFile: h.byFile, Reach: h.reach, Known: h.known, Has: h.has, Up: h.up,
		Blocked: h.away || len(h.orders) > 0,
	}
	c.Behind = h.matches && h.memory.Member != upkeep.Joined && h.byFile && h.placed != 0 && h.gave != w.chosen
	switch {
	case !h.known:
		c.Apply = process.Start
	case h.wantStopped && h.has != w.chosen:
		c.Apply = process.Update
	case h.has != max(h.placed, w.chosen):
		c.Apply = process.Restart
	}
	return c
}

// server lets a server look at a host, die at any point, and a second server act on the same facts.
func (w *world) server(h *host) {
	c, serial := w.fact(h), h.serial
	d := upkeep.Decide(c, w.now)
	for range 1 + w.rng.IntN(2) {
		if w.rng.IntN(5) == 0 || h.serial != serial { // it dies, or another server was first
			continue
		}
		h.serial++
		if h.memory = d.Memory; h.memory.Member == upkeep.Outside {
			h.removed = false // a host that comes to match anew gets the process
		}
		if d.Op == "" {
			continue
		}
		w.orders++
		o := order{op: d.Op, removes: d.Removes, ours: true, revision: h.placed}
		if d.Selected {
			w.revision++
			h.placed, h.byFile, h.reach, o.revision, h.gave = w.revision, true, upkeep.Unknown, w.revision, w.chosen
		}
		if d.Removes {
			h.placed = 0
		}
		h.orders = append(h.orders, o)
		w.check(h, d)
	}
}

// check compares a decision with the promises.
func (w *world) check(h *host, d upkeep.Decision) {
	w.t.Helper()
	ending := d.Op == process.Stop || d.Op == process.Unregister
	switch {
	case h.away:
		w.t.Errorf("%s for a host that is away", d.Op)
	case d.Op == process.Start && h.known && h.wantStopped:
		w.t.Error("a process that a person has stopped is started")
	case d.Op == process.Start && h.removed:
		w.t.Error("a process that a person has removed comes back")
	case ending && h.matches:
		w.t.Errorf("%s on a host that matches", d.Op)
	case ending && !w.stops && d.Op == process.Stop:
		w.t.Error("a process is stopped that should stay")
	case len(h.orders) > 1:
		w.t.Errorf("%d orders at once", len(h.orders))
	}
}

// agent carries out the next order of a host, or fails to.
func (w *world) agent(h *host) {
	if len(h.orders) == 0 {
		return
	}
	o := h.orders[0]
	h.orders = h.orders[1:]
	if h.away {
		if o.revision == h.placed && o.revision != 0 {
			h.reach = upkeep.Unreached
		}
		return
	}
	if o.revision == h.placed && o.revision != 0 {
		h.reach = upkeep.Answered
	}
	switch o.op { //nolint:exhaustive // the operations of upkeep
	case process.Start, process.Restart:
		h.known, h.up, h.wantStopped, h.has = true, true, false, o.revision
	case process.Update:
		h.known, h.has = true, o.revision
	case process.Stop:
		h.up, h.wantStopped = false, !o.ours
	case process.Unregister:
		h.known, h.up, h.wantStopped, h.has = false, false, false, 0
	}
}

// person does what people do.
func (w *world) person() {
	h := w.hosts[w.rng.IntN(len(w.hosts))]
	switch w.rng.IntN(6) {
	case 0:
		if h.known && len(h.orders) == 0 && h.memory.Member != upkeep.Leaving && !h.away {
			h.up, h.wantStopped = false, true
		}
	case 1:
		if h.known && h.placed != 0 && len(h.orders) == 0 && h.memory.Member == upkeep.Joined && !h.away {
			h.known, h.up, h.wantStopped, h.has, h.placed = false, false, false, 0, 0
			h.removed = true
		}
	case 2:
		h.away = !h.away
	case 3:
		h.matches = !h.matches
	case 4:
		w.apply()
	case 5:
		if h.placed != 0 && h.known && len(h.orders) == 0 && !h.away { // a call of GSE
			w.revision++
			h.placed, h.has, h.byFile, h.up, h.wantStopped = w.revision, w.revision, false, true, false
		}
	}
}

// apply is an apply of the file by a person: it gives each matching host the spec.
func (w *world) apply() {
	w.revision++
	w.chosen = w.revision
	for _, h := range w.hosts {
		if h.serial++; !h.matches {
			h.memory.Member, h.removed = upkeep.Outside, false
			continue
		}
		h.memory = upkeep.Memory{Member: upkeep.Joined}
		op := process.Start
		if h.known && h.wantStopped {
			op = process.Update
		}
		h.placed, h.byFile, h.reach, h.removed, h.gave = w.revision, true, upkeep.Unknown, false, w.revision
		h.orders = append(h.orders, order{op: op, revision: w.revision})
	}
}

// TestHistories walks fleets through random histories of labels, absences, people, deaths of servers and servers side
// by side. In the end every host has what the file says, except what people have changed there.
func TestHistories(t *testing.T) {
	total := 0
	for seed := range uint64(1500) {
		w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 7)), now: epoch, stops: seed%2 == 0} //nolint:gosec // not a secret
		for range 1 + w.rng.IntN(5) {
			w.hosts = append(w.hosts, &host{matches: w.rng.IntN(2) == 0, away: w.rng.IntN(4) == 0})
		}
		w.apply()
		for range 300 {
			w.now = w.now.Add(time.Duration(w.rng.IntN(60)) * time.Second)
			h := w.hosts[w.rng.IntN(len(w.hosts))]
			switch w.rng.IntN(5) {
			case 0, 1:
				w.server(h)
			case 2, 3:
				w.agent(h)
			default:
				w.person()
			}
		}
		w.settle()
		if total += w.orders; t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if total < 3000 {
		t.Errorf("the servers gave only %d orders", total)
	}
}

// settle lets everybody return, and compares the fleet with the file.
func (w *world) settle() {
	for range 60 {
		w.now = w.now.Add(time.Hour)
		for _, h := range w.hosts {
			h.away = false
			w.server(h)
			for len(h.orders) > 0 {
				w.agent(h)
			}
		}
	}
	var all []string
	for i, h := range w.hosts {
		missing := h.matches && !h.known && !h.removed
		old := h.matches && h.byFile && h.placed != 0 && h.known && h.has < h.placed && h.reach != upkeep.Answered
		left := !h.matches && w.stops && h.memory.Member != upkeep.Outside
		behind := h.matches && h.byFile && h.placed != 0 && h.gave != w.chosen
		if missing || old || left || behind {
			all = append(all, fmt.Sprintf("host %d: %+v", i, *h))
		}
	}
	if all != nil {
		w.t.Errorf("file %d: %s", w.chosen, strings.Join(all, "\n"))
	}
}
