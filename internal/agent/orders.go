package agent

import (
	"errors"
	"fmt"
	"sync"
	"syscall"

	"drover/internal/agent/specstore"
)

// intake brings commands into the journal, each of them once, and knows which of those that are there have been handed
// on to be carried out. It is safe for concurrent use.
type intake struct {
	freshness *freshness
	disk      Disk

	mu sync.Mutex
	// busy are the items that are being taken in; the channel is closed when that is over.
	busy map[string]chan struct{}
	// unsure are those that may be in the journal although the disk has failed. They were neither answered nor handed
	// on.
	unsure map[string]bool
}

func newIntake(disk Disk, f *freshness) *intake {
	return &intake{freshness: f, disk: disk, busy: map[string]chan struct{}{}, unsure: map[string]bool{}}
}

// taken is what became of the commands that came together.
type taken struct {
	// fresh are to be carried out from now on, known have come before.
	fresh, known []specstore.Entry
	// refusal is why none of the others was taken, and is not in the journal either; nil where there are no others.
	refusal error
}

// items returns the ids of the commands that are in the journal.
func (t *taken) items() []string { return append(itemsOf(t.known), itemsOf(t.fresh)...) }

// take journals commands. What is known comes first: that a command cannot be taken now says nothing of one that was
// taken before, and whoever was told otherwise would count as failed what is carried out. refused is why nothing new
// may be taken, or nil. An error leaves open what is in the journal: nobody may be told anything but that, and the
// commands have to come again.
func (i *intake) take(commands []specstore.Entry, refused error) (t taken, err error) {
	if len(commands) == 0 {
		return taken{refusal: refused}, nil
	}
	defer i.hold(commands)()
	found, err := i.disk.Known(itemsOf(commands))
	if err != nil {
		return taken{}, err
	}
	var others []specstore.Entry
	t.known, others = i.sift(commands, found)
	if len(others) == 0 {
		return t, nil
	}
	if refused != nil {
		if i.doubted(others) {
			return taken{}, fmt.Errorf("cannot reject orders that may be in the journal: %w", refused)
		}
		t.refusal = refused
		return t, nil
	}
	// A full disk takes those that end processes, so no others come with them.
	ending, rest := divided(others)
	for _, part := range [][]specstore.Entry{ending, rest} {
		if len(part) == 0 {
			continue
		}
		fresh, again, err := i.disk.Accept(part)
		switch {
		case err == nil:
			t.fresh = append(t.fresh, append(fresh, i.settle(part, again)...)...)
		case i.leavesOpen(err, part):
			i.doubt(part)
			return taken{}, err
		default:
			t.refusal = err
		}
	}
	return t, nil
}

// divided returns the commands that only end processes or leave them to themselves, and the others.
func divided(commands []specstore.Entry) (ending, others []specstore.Entry) {
	for _, e := range commands {
		if e.Ends() {
			ending = append(ending, e)
		} else {
			others = append(others, e)
		}
	}
	return ending, others
}

// hold waits until nobody else takes in one of the commands, and keeps others from doing so until release is called.
func (i *intake) hold(commands []specstore.Entry) (release func()) {
	over := make(chan struct{})
	for {
		other := i.occupy(commands, over)
		if other == nil {
			break
		}
		<-other
	}
	return func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		for _, c := range commands {
			delete(i.busy, c.Item)
		}
		close(over)
	}
}

// occupy notes that the commands are being taken in. If one of them is already, nothing is noted and the end of that is
// returned.
func (i *intake) occupy(commands []specstore.Entry, over chan struct{}) (other chan struct{}) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, c := range commands {
		if other := i.busy[c.Item]; other != nil {
			return other
		}
	}
	for _, c := range commands {
		i.busy[c.Item] = over
	}
	return nil
}

// sift returns what was found of the commands and has been handed on, and the commands of which that is not so.
func (i *intake) sift(commands, found []specstore.Entry) (known, others []specstore.Entry) {
	i.mu.Lock()
	defer i.mu.Unlock()
	settled := map[string]bool{}
	for _, e := range found {
		if !i.unsure[e.Item] {
			settled[e.Item] = true
			known = append(known, e)
		}
	}
	for _, c := range commands {
		if !settled[c.Item] {
			others = append(others, c)
		}
	}
	return known, others
}

// leavesOpen reports whether one of the commands may be in the journal after a failure to journal them. Of a commit
// whose last sync has failed this process sees all, and the disk may have it or not.
func (i *intake) leavesOpen(failure error, commands []specstore.Entry) bool {
	if errors.Is(failure, syscall.EIO) || i.doubted(commands) {
		return true
	}
	found, err := i.disk.Known(itemsOf(commands))
	return err != nil || len(found) > 0
}

func (i *intake) doubted(commands []specstore.Entry) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, c := range commands {
		if i.unsure[c.Item] {
			return true
		}
	}
	return false
}

func (i *intake) doubt(commands []specstore.Entry) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, c := range commands {
		i.unsure[c.Item] = true
	}
}

// settle ends the doubt about commands that are on disk for certain now, and returns those that were there already and
// have been handed on to nobody. again is what was in the journal when they were journalled last.
func (i *intake) settle(commands, again []specstore.Entry) (fresh []specstore.Entry) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, e := range again {
		if i.unsure[e.Item] { // else it came twice in one manifest
			delete(i.unsure, e.Item)
			fresh = append(fresh, e)
		}
	}
	for _, c := range commands {
		delete(i.unsure, c.Item)
	}
	return fresh
}

func itemsOf(entries []specstore.Entry) []string {
	items := make([]string, 0, len(entries))
	for _, e := range entries {
		items = append(items, e.Item)
	}
	return items
}
