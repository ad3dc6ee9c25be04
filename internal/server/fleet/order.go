package fleet

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"drover/internal/process"
	"drover/internal/server/store"
)

// Place is the place of an agent in the list of all: by area, address and key. The zero place is before every agent.
type Place struct {
	Cloud   int
	IP, Key string
}

// Address returns the address of an agent, as cloud:ip.
func Address(a store.Agent) string { return fmt.Sprintf("%d:%s", a.Cloud, a.IP) }

// NameOf returns the name of an agent in drover's own API: its id, or its address. Of an agent that was removed only
// the key is known.
func NameOf(a store.Agent) string {
	if a.ID == "" && a.IP == "" {
		return a.Key
	}
	if a.ID != "" {
		return a.ID
	}
	return Address(a)
}

// PlaceOf returns the place of an agent.
func PlaceOf(a store.Agent) Place { return Place{a.Cloud, a.IP, a.Key} }

// Compare returns -1, 0 or 1 if p is before, at or after q.
func (p Place) Compare(q Place) int {
	return cmp.Or(cmp.Compare(p.Cloud, q.Cloud), process.CompareNatural(p.IP, q.IP), cmp.Compare(p.Key, q.Key))
}

// stretch is how many agents are read under one lock.
const stretch = 256

// After returns the agents after a place, in order; no agent need be at that place. An agent that joins or leaves
// during the iteration may be included or not. Every other agent is included exactly once.
func (d *Directory) After(p Place) iter.Seq[store.Agent] {
	return func(yield func(store.Agent) bool) {
		var some [stretch]store.Agent
		for {
			n := d.next(p, some[:])
			for _, a := range some[:n] {
				if !yield(a) {
					return
				}
			}
			if n < stretch {
				return
			}
			p = PlaceOf(some[n-1])
		}
	}
}

// next copies agents after a place into some, as many as fit, and returns their number.
func (d *Directory) next(p Place, some []store.Agent) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.order == nil {
		d.order = make([]Place, 0, len(d.byKey))
		for _, a := range d.byKey {
			d.order = append(d.order, PlaceOf(a))
		}
		slices.SortFunc(d.order, Place.Compare)
	}
	from, there := slices.BinarySearchFunc(d.order, p, Place.Compare)
	if there {
		from++
	}
	n := min(len(some), len(d.order)-from)
	for i := range n {
		some[i] = d.byKey[d.order[from+i].Key]
	}
	return n
}

// register stores an agent; the caller holds the lock.
func (d *Directory) register(a store.Agent) {
	if old, known := d.byKey[a.Key]; !known || PlaceOf(old) != PlaceOf(a) {
		d.order = nil
	}
	d.byKey[a.Key] = a
}

// unregister removes an agent; the caller holds the lock.
func (d *Directory) unregister(key string) {
	if _, known := d.byKey[key]; known {
		d.order = nil
		delete(d.byKey, key)
	}
}
