package orders

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"

	"drover/internal/agent/specstore"
)

// journal brings commands into the journal, each of them once, and knows which of those that are there have been
// handed on to be carried out. It is safe for concurrent use.
type journal struct {
	disk Disk

	mu sync.Mutex
	// inflight are the items that are being taken in; the channel is closed when that is over.
	inflight map[string]chan struct{}
	// uncertain are those that may be in the journal although the disk has failed. They were neither answered nor
	// handed on.
	uncertain map[string]bool
}

func newJournal(disk Disk) *journal {
	return &journal{disk: disk, inflight: map[string]chan struct{}{}, uncertain: map[string]bool{}}
}

// journalled is what became of the commands that came together.
type journalled struct {
	// fresh are to be carried out from now on, known have come before.
	fresh, known []specstore.Entry
	// refusal is why none of the others was taken, and is not in the journal either; nil where there are no others.
	refusal error
}

// items returns the ids of the commands that are in the journal.
func (t *journalled) items() []string { return append(itemsOf(t.known), itemsOf(t.fresh)...) }

// accept journals commands. What is known comes first: that a command cannot be taken now says nothing of one that was
// taken before, and whoever was told otherwise would count as failed what is carried out. refused is why nothing new
// may be taken, or nil. An error leaves open what is in the journal: nobody may be told anything but that, and the
// commands have to come again.
func (j *journal) accept(ctx context.Context, commands []specstore.Entry, refused error) (t journalled, err error) {
	if len(commands) == 0 {
		return journalled{refusal: refused}, nil
	}
	release, err := j.lock(ctx, commands)
	if err != nil {
		return journalled{}, err
	}
	defer release()
	found, err := j.disk.Known(itemsOf(commands))
	if err != nil {
		return journalled{}, err
	}
	var others []specstore.Entry
	t.known, others = j.partition(commands, found)
	if len(others) == 0 {
		return t, nil
	}
	if refused != nil {
		if j.anyUncertain(others) {
			return journalled{}, fmt.Errorf("cannot reject orders that may be in the journal: %w", refused)
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
		fresh, again, err := j.disk.Accept(part)
		switch {
		case err == nil:
			t.fresh = append(t.fresh, append(fresh, j.resolve(part, again)...)...)
		case j.isUncertain(err, part):
			j.markUncertain(part)
			return journalled{}, err
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

// lock waits until nobody else takes in one of the commands, and keeps others from doing so until release is called. It
// fails if ctx ends first.
func (j *journal) lock(ctx context.Context, commands []specstore.Entry) (release func(), err error) {
	over := make(chan struct{})
	for {
		other := j.tryLock(commands, over)
		if other == nil {
			break
		}
		select {
		case <-other:
		case <-ctx.Done():
			return nil, fmt.Errorf("another copy of the orders is being journalled: %w", ctx.Err())
		}
	}
	return func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		for _, c := range commands {
			delete(j.inflight, c.Item)
		}
		close(over)
	}, nil
}

// tryLock notes that the commands are being taken in. If one of them is already, nothing is noted and the end of that
// is returned.
func (j *journal) tryLock(commands []specstore.Entry, over chan struct{}) (other chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, c := range commands {
		if other := j.inflight[c.Item]; other != nil {
			return other
		}
	}
	for _, c := range commands {
		j.inflight[c.Item] = over
	}
	return nil
}

// partition returns what was found of the commands and has been handed on, and the commands of which that is not so.
func (j *journal) partition(commands, found []specstore.Entry) (known, others []specstore.Entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	settled := map[string]bool{}
	for _, e := range found {
		if !j.uncertain[e.Item] {
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
func (j *journal) isUncertain(failure error, commands []specstore.Entry) bool {
	if errors.Is(failure, syscall.EIO) || j.anyUncertain(commands) {
		return true
	}
	found, err := j.disk.Known(itemsOf(commands))
	return err != nil || len(found) > 0
}

func (j *journal) anyUncertain(commands []specstore.Entry) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, c := range commands {
		if j.uncertain[c.Item] {
			return true
		}
	}
	return false
}

func (j *journal) markUncertain(commands []specstore.Entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, c := range commands {
		j.uncertain[c.Item] = true
	}
}

// resolve ends the doubt about commands that are on disk for certain now, and returns those that were there already and
// have been handed on to nobody. again is what was in the journal when they were journalled last.
func (j *journal) resolve(commands, again []specstore.Entry) (fresh []specstore.Entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, e := range again {
		if j.uncertain[e.Item] { // else it came twice in one manifest
			delete(j.uncertain, e.Item)
			fresh = append(fresh, e)
		}
	}
	for _, c := range commands {
		delete(j.uncertain, c.Item)
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
