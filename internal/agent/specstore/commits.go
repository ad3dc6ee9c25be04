package specstore

import (
	"errors"
	"slices"
	"sync"

	"go.etcd.io/bbolt"
)

// commits serialises all writes to a file. Writers that arrive during a commit share the next one; a single writer
// does not wait. When many processes end at once, this saves most of the disk cost of their relaunches.
type commits struct {
	// transact is bbolt.DB.Update of the file.
	transact func(apply func(tx *bbolt.Tx) error) error

	mu sync.Mutex
	// busy means that one writer commits. It lets the first of the queue commit next.
	busy  bool
	queue []*write
}

// write is one writer's part of a commit.
type write struct {
	apply func(tx *bbolt.Tx) error
	// turn says once whether the writer commits what is queued. If it does not, another has done it.
	turn chan bool
	err  error
}

// errInterrupted says that a writer of the same commit has panicked.
var errInterrupted = errors.New("the commit was interrupted")

// update applies a change in a transaction and returns after the commit. If the change of another writer fails, update
// calls apply again. The change is visible to everybody before update returns, and survives a crash of this process.
// After an error of the disk, the change may be visible.
func (c *commits) update(apply func(tx *bbolt.Tx) error) error {
	mine := &write{apply: apply, turn: make(chan bool, 1), err: errInterrupted}
	c.mu.Lock()
	c.queue = append(c.queue, mine)
	leads := !c.busy
	c.busy = true
	c.mu.Unlock()
	if leads || <-mine.turn {
		c.lead(mine)
	}
	return mine.err
}

// lead commits everything that is queued, of which mine is the first, and then wakes its writers and the next leader.
func (c *commits) lead(mine *write) {
	c.mu.Lock()
	all := c.queue
	c.queue = nil
	c.mu.Unlock()
	defer func() { // also after a panic
		for _, w := range all {
			if w != mine {
				w.turn <- false
			}
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.busy = len(c.queue) > 0; c.busy {
			c.queue[0].turn <- true
		}
	}()
	for together := slices.Clone(all); len(together) > 0; {
		together = c.commit(together)
	}
}

// commit commits changes together. If one of them fails, it commits that one alone and returns the others. If the
// commit itself fails, all of them fail: a second attempt would find the changes of a commit whose last sync has
// failed, and report them as stored.
func (c *commits) commit(together []*write) (rest []*write) {
	failed := -1
	err := c.transact(func(tx *bbolt.Tx) error {
		for i, w := range together {
			if err := w.apply(tx); err != nil {
				failed = i
				return err
			}
		}
		return nil
	})
	if failed >= 0 && len(together) > 1 {
		alone := together[failed]
		alone.err = c.transact(alone.apply)
		return slices.Delete(together, failed, failed+1)
	}
	for _, w := range together {
		w.err = err
	}
	return nil
}
