package agent

import (
	"errors"
	"fmt"
	"sync"
	"syscall"

	"drover/internal/agent/specstore"
)

// orderIntake brings commands into the journal, each of them once, and knows which of those that are there have been
// handed on to be carried out. It is safe for concurrent use.
type orderIntake struct {
	freshness *freshness
	disk      Disk

	mu sync.Mutex
	// inflight are the items that are being taken in; the channel is closed when that is over.
	inflight map[string]chan struct{}
	// uncertain are those that may be in the journal although the disk has failed. They were neither answered nor
	// handed on.
	uncertain map[string]bool
}

func newOrderIntake(disk Disk, f *freshness) *orderIntake {
	return &orderIntake{freshness: f, disk: disk, inflight: map[string]chan struct{}{}, uncertain: map[string]bool{}}
}

// intakeResult is what became of the commands that came together.
type intakeResult struct {
	// fresh are to be carried out from now on, known have come before.
	fresh, known []specstore.Entry
	// refusal is why none of the others was taken, and is not in the journal either; nil where there are no others.
	refusal error
}

// items returns the ids of the commands that are in the journal.
func (t *intakeResult) items() []string { return append(itemsOf(t.known), itemsOf(t.fresh)...) }

// accept journals commands. What is known comes first: that a command cannot be taken now says nothing of one that was
// taken before, and whoever was told otherwise would count as failed what is carried out. refused is why nothing new
// may be taken, or nil. An error leaves open what is in the journal: nobody may be told anything but that, and the
// commands have to come again.
func (i *orderIntake) accept(commands []specstore.Entry, refused error) (t intakeResult, err error) {
	if len(commands) == 0 {
		return intakeResult{refusal: refused}, nil
	}
	defer i.lock(commands)()
	found, err := i.disk.Known(itemsOf(commands))
	if err != nil {
		return intakeResult{}, err
	}
	var others []specstore.Entry
	t.known, others = i.partition(commands, found)
	if len(others) == 0 {
		return t, nil
	}
	if refused != nil {
		if i.anyUncertain(others) {
			return intakeResult{}, fmt.Errorf("cannot reject orders that may be in the journal: %w", refused)
		}
		t.refusal = refused
		return t, nil
	}
	// A full disk takes those that end processes, so no others come with them.
	ending, rest := splitEnding(others)
	for _, part := range [][]specstore.Entry{ending, rest} {
		if len(part) == 0 {
			continue
		}
		fresh, again, err := i.disk.Accept(part)
		switch {
		case err == nil:
			t.fresh = append(t.fresh, append(fresh, i.resolve(part, again)...)...)
		case i.isUncertain(err, part):
			i.markUncertain(part)
			return intakeResult{}, err
		default:
			t.refusal = err
		}
	}
	return t, nil
}

// splitEnding returns the commands that only end processes or leave them to themselves, and the others.
func splitEnding(commands []specstore.Entry) (ending, others []specstore.Entry) {
	for _, e := range commands {
		if e.Ends() {
			ending = append(ending, e)
		} else {
			others = append(others, e)
		}
	}
	return ending, others
}

// lock waits until nobody else takes in one of the commands, and keeps others from doing so until release is called.
func (i *orderIntake) lock(commands []specstore.Entry) (release func()) {
	over := make(chan struct{})
	for {
		other := i.tryLock(commands, over)
		if other == nil {
			break
		}
		<-other
	}
	return func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		for _, c := range commands {
			delete(i.inflight, c.Item)
		}
		close(over)
	}
}

// tryLock notes that the commands are being taken in. If one of them is already, nothing is noted and the end of that
// is returned.
func (i *orderIntake) tryLock(commands []specstore.Entry, over chan struct{}) (other chan struct{}) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, c := range commands {
		if other := i.inflight[c.Item]; other != nil {
			return other
		}
	}
	for _, c := range commands {
		i.inflight[c.Item] = over
	}
	return nil
}

// partition returns what was found of the commands and has been handed on, and the commands of which that is not so.
func (i *orderIntake) partition(commands, found []specstore.Entry) (known, others []specstore.Entry) {
	i.mu.Lock()
	defer i.mu.Unlock()
	settled := map[string]bool{}
	for _, e := range found {
		if !i.uncertain[e.Item] {
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

// isUncertain reports whether one of the commands may be in the journal after a failure to journal them. Of a commit
// whose last sync has failed this process sees all, and the disk may have it or not.
func (i *orderIntake) isUncertain(failure error, commands []specstore.Entry) bool {
	if errors.Is(failure, syscall.EIO) || i.anyUncertain(commands) {
		return true
	}
	found, err := i.disk.Known(itemsOf(commands))
	return err != nil || len(found) > 0
}

func (i *orderIntake) anyUncertain(commands []specstore.Entry) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, c := range commands {
		if i.uncertain[c.Item] {
			return true
		}
	}
	return false
}

func (i *orderIntake) markUncertain(commands []specstore.Entry) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, c := range commands {
		i.uncertain[c.Item] = true
	}
}

// resolve ends the doubt about commands that are on disk for certain now, and returns those that were there already and
// have been handed on to nobody. again is what was in the journal when they were journalled last.
func (i *orderIntake) resolve(commands, again []specstore.Entry) (fresh []specstore.Entry) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, e := range again {
		if i.uncertain[e.Item] { // else it came twice in one manifest
			delete(i.uncertain, e.Item)
			fresh = append(fresh, e)
		}
	}
	for _, c := range commands {
		delete(i.uncertain, c.Item)
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
