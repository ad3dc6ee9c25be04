package orders

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"

	"drover/internal/agent/record"
)

// journal stores commands in the journal, each of them once, and tracks which journalled commands were already queued
// for execution. It is safe for concurrent use.
type journal struct {
	disk Disk

	mu sync.Mutex
	// inflight has the items that are being journalled; the channel is closed at the end of that.
	inflight map[string]chan struct{}
	// uncertain has the items that may be in the journal although the write failed. They were neither answered nor
	// queued.
	uncertain map[string]bool
}

func newJournal(disk Disk) *journal {
	return &journal{disk: disk, inflight: map[string]chan struct{}{}, uncertain: map[string]bool{}}
}

// journalled is the result for the commands of one manifest.
type journalled struct {
	// fresh must be executed from now on; known arrived before.
	fresh, known []record.Entry
	// refusal is why the other commands were rejected. They are not in the journal. It is nil if there are none.
	refusal error
}

// items returns the ids of the commands that are in the journal.
func (t *journalled) items() []string { return append(itemsOf(t.known), itemsOf(t.fresh)...) }

// accept journals commands. It finds the known commands first: a disk failure now does not affect a command that was
// accepted earlier, and a caller must not count that command as failed. refused is the reason to reject all new
// commands, or nil. On error the journal's state is unknown: the caller must not answer, and the server must resend
// the commands.
func (j *journal) accept(ctx context.Context, commands []record.Entry, refused error) (t journalled, err error) {
	if len(commands) == 0 {
		return journalled{refusal: refused}, nil
	}
	release, err := j.lock(ctx, commands)
	if err != nil {
		return journalled{}, err
	}
	defer release()
	found, err := j.disk.Entries(itemsOf(commands))
	if err != nil {
		return journalled{}, err
	}
	var others []record.Entry
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
	// A full disk accepts only commands that end processes, so store these separately.
	ending, rest := splitEnding(others)
	for _, part := range [][]record.Entry{ending, rest} {
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

// splitEnding separates the commands that only end or unhost processes from the others.
func splitEnding(commands []record.Entry) (ending, others []record.Entry) {
	for _, e := range commands {
		if e.Ends() {
			ending = append(ending, e)
		} else {
			others = append(others, e)
		}
	}
	return ending, others
}

// lock waits until no other goroutine journals one of the commands, and locks them until release is called. It fails
// if ctx ends first.
func (j *journal) lock(ctx context.Context, commands []record.Entry) (release func(), err error) {
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

// tryLock locks the commands. If one of them is locked, it locks none and returns the channel that the holder will
// close.
func (j *journal) tryLock(commands []record.Entry, over chan struct{}) (other chan struct{}) {
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

// partition returns the commands that were found and queued, and the other commands.
func (j *journal) partition(commands, found []record.Entry) (known, others []record.Entry) {
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

// isUncertain reports whether one of the commands may be in the journal after a failed write. If the last sync of a
// commit fails, this process sees the whole commit, but the disk may not have it.
func (j *journal) isUncertain(failure error, commands []record.Entry) bool {
	if errors.Is(failure, syscall.EIO) || j.anyUncertain(commands) {
		return true
	}
	found, err := j.disk.Entries(itemsOf(commands))
	return err != nil || len(found) > 0
}

func (j *journal) anyUncertain(commands []record.Entry) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, c := range commands {
		if j.uncertain[c.Item] {
			return true
		}
	}
	return false
}

func (j *journal) markUncertain(commands []record.Entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, c := range commands {
		j.uncertain[c.Item] = true
	}
}

// resolve ends the uncertainty about commands that are now certainly on disk. It returns the commands that were
// already in the journal and were never queued. again is what Accept found in the journal.
func (j *journal) resolve(commands, again []record.Entry) (fresh []record.Entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, e := range again {
		if j.uncertain[e.Item] && e.Outcome == nil { // otherwise it was cancelled, or the manifest names it twice
			delete(j.uncertain, e.Item)
			fresh = append(fresh, e)
		}
	}
	for _, c := range commands {
		delete(j.uncertain, c.Item)
	}
	return fresh
}

func itemsOf(entries []record.Entry) []string {
	items := make([]string, 0, len(entries))
	for _, e := range entries {
		items = append(items, e.Item)
	}
	return items
}
