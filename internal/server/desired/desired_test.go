package desired_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drover/internal/process"
	"drover/internal/server/desired"
)

func id(name string) process.ID { return process.ID{Namespace: "ns", Name: name} }

func at(name string, revision uint64) desired.Confirmed {
	return desired.Confirmed{Process: id(name), Revision: revision}
}

func gone(name string, revision uint64) desired.Confirmed {
	return desired.Confirmed{Process: id(name), Revision: revision, Gone: true}
}

func disk(revision uint64, records ...desired.Confirmed) desired.Disk {
	d := desired.Disk{Revision: revision, Records: map[process.ID]uint64{}}
	for _, r := range records {
		d.Records[r.Process] = r.Revision
	}
	return d
}

func TestCompare(t *testing.T) {
	list := func(c ...desired.Confirmed) []desired.Confirmed { return c }
	for name, c := range map[string]struct {
		confirmed []desired.Confirmed
		disk      desired.Disk
		want      desired.Verdict
	}{
		"nothing anywhere":     {nil, disk(0), desired.Verdict{}},
		"a server that is new": {nil, disk(7, at("a", 7)), desired.Verdict{}},
		"the same":             {list(at("a", 3)), disk(3, at("a", 3)), desired.Verdict{Reached: 3}},
		"the agent is ahead":   {list(at("a", 3)), disk(9, at("a", 9)), desired.Verdict{Reached: 3}},
		"an old record": {
			list(at("a", 5)), disk(3, at("a", 3)),
			desired.Verdict{Restore: list(at("a", 5)), Reached: 5},
		},
		"an empty disk": {
			list(at("b", 5), at("a", 2)), disk(0),
			desired.Verdict{Restore: list(at("a", 2), at("b", 5)), Reached: 5},
		},
		"one that came after":  {list(at("a", 5)), disk(4), desired.Verdict{Restore: list(at("a", 5)), Reached: 5}},
		"one that was removed": {list(at("a", 5)), disk(6), desired.Verdict{Removed: list(at("a", 5)), Reached: 5}},
		"a tombstone":          {list(gone("a", 6)), disk(9), desired.Verdict{Reached: 6}},
		"an old record of a dead": {
			list(gone("a", 6)), disk(5, at("a", 5)),
			desired.Verdict{Forget: list(gone("a", 6)), Reached: 6},
		},
		"a dead one born again": {list(gone("a", 6)), disk(7, at("a", 7)), desired.Verdict{Reached: 6}},
		"one at its own tombstone": {
			list(gone("a", 6)), disk(6, at("a", 6)),
			desired.Verdict{Forget: list(gone("a", 6)), Reached: 6},
		},
	} {
		got := desired.Compare(c.confirmed, c.disk)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if got.Settled() != (len(c.want.Forget)+len(c.want.Restore) == 0) {
			t.Errorf("%s: settled is %v", name, got.Settled())
		}
	}
}

// host is an agent's disk and what its server has had confirmed, in a made-up history.
type host struct {
	disk      desired.Disk
	confirmed map[process.ID]desired.Confirmed
	// removed are the removals that the server has not heard of.
	removed []desired.Confirmed
}

func newHost() *host { return &host{disk: disk(0), confirmed: map[process.ID]desired.Confirmed{}} }

// change is one operation on the host; the server hears of it unless it is deaf.
func (h *host) change(name string, remove, deaf bool) {
	h.disk.Revision++
	c := desired.Confirmed{Process: id(name), Revision: h.disk.Revision, Gone: remove}
	if _, known := h.disk.Records[c.Process]; remove && !known {
		h.disk.Revision--
		return
	}
	if remove {
		delete(h.disk.Records, c.Process)
	} else {
		h.disk.Records[c.Process] = c.Revision
	}
	switch {
	case !deaf:
		h.hear(c)
	case remove:
		h.removed = append(h.removed, c)
	}
}

func (h *host) hear(c desired.Confirmed) {
	if c.Revision > h.confirmed[c.Process].Revision {
		h.confirmed[c.Process] = c
	}
}

func (h *host) copy() desired.Disk {
	return desired.Disk{Revision: h.disk.Revision, Records: maps.Clone(h.disk.Records)}
}

// meet has the agent introduce itself; of what should be restored it is told most at a time.
func (h *host) meet(t *testing.T, most int) {
	t.Helper()
	for round := 0; ; round++ {
		var all []desired.Confirmed
		for _, c := range h.confirmed {
			all = append(all, c)
		}
		v := desired.Compare(all, h.disk)
		for _, c := range h.removed {
			h.hear(c)
		}
		h.removed = nil
		for p, revision := range h.disk.Records {
			h.hear(desired.Confirmed{Process: p, Revision: revision})
		}
		for _, c := range v.Removed {
			h.hear(desired.Confirmed{Process: c.Process, Revision: h.disk.Revision, Gone: true})
			if h.confirmed[c.Process].Revision == c.Revision {
				h.confirmed[c.Process] = desired.Confirmed{Process: c.Process, Revision: c.Revision, Gone: true}
			}
		}
		reached := v.Reached
		if len(v.Restore) > most {
			v.Restore = v.Restore[:most]
			reached = v.Restore[most-1].Revision
		}
		h.obey(v, reached)
		if reached == v.Reached {
			return
		}
		if round > 1000 {
			t.Fatal("it never ends")
		}
	}
}

// obey is what the agent does.
func (h *host) obey(v desired.Verdict, reached uint64) {
	latest := h.disk.Revision
	for _, c := range v.Forget {
		if has, known := h.disk.Records[c.Process]; known && has <= c.Revision {
			delete(h.disk.Records, c.Process)
		}
	}
	for _, c := range v.Restore {
		if has, known := h.disk.Records[c.Process]; known && has < c.Revision || !known && c.Revision > latest {
			h.disk.Records[c.Process] = c.Revision
		}
	}
	h.disk.Revision = max(h.disk.Revision, reached)
}

// TestAnyHistory: whatever has happened, an agent that meets its server has exactly what the latest change that either
// of them has seen has left, also when its disk was an old copy or is a new one, and it then goes on above all that was
// ever confirmed.
func TestAnyHistory(t *testing.T) {
	for seed := range uint64(3000) {
		random := rand.New(rand.NewPCG(seed, 1))
		h := newHost()
		copies := []desired.Disk{disk(0)}
		for range 40 {
			switch random.IntN(12) {
			case 0:
				copies = append(copies, h.copy())
			case 1:
				h.meet(t, 1+random.IntN(5))
			case 2:
				// Its disk is lost; the server has heard of all by then.
				h.meet(t, 1+random.IntN(5))
				truth := h.copy()
				old := copies[random.IntN(len(copies))]
				h.disk = desired.Disk{Revision: old.Revision, Records: maps.Clone(old.Records)}
				h.meet(t, 1+random.IntN(5))
				if diff := cmp.Diff(truth.Records, h.disk.Records); diff != "" {
					t.Fatalf("seed %d: records after an old disk came back (-want +got):\n%s", seed, diff)
				}
				for _, c := range h.confirmed {
					if c.Revision > h.disk.Revision {
						t.Fatalf("seed %d: it goes on at %d, and %s was confirmed at %d", seed, h.disk.Revision,
							c.Process, c.Revision)
					}
				}
			default:
				h.change(fmt.Sprint(random.IntN(4)), random.IntN(3) == 0, random.IntN(3) == 0)
			}
		}
		// Without a loss the agent is right about everything.
		truth := h.copy()
		h.meet(t, 2)
		if diff := cmp.Diff(truth.Records, h.disk.Records); diff != "" {
			t.Fatalf("seed %d: a meeting has changed a disk that was right (-want +got):\n%s", seed, diff)
		}
	}
}
