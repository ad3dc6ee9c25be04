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
	// The writer that commits holds committing.
	committing sync.Mutex

	mu    sync.Mutex
	queue []*write
}

// write is one writer's part of a commit.
type write struct {
	apply func(tx *bbolt.Tx) error
	done  bool
	err   error
}

// errInterrupted says that a writer of the same commit has panicked.
var errInterrupted = errors.New("the commit was interrupted")

// update applies a change in a transaction and returns after the commit. If the change of another writer fails, update
// calls apply again. The change is visible to everybody before update returns, and survives a crash of this process.
// After an error of the disk, the change may be visible.
func (c *commits) update(apply func(tx *bbolt.Tx) error) error {
	mine := &write{apply: apply, err: errInterrupted}
	c.mu.Lock()
	c.queue = append(c.queue, mine)
	c.mu.Unlock()

	c.committing.Lock()
	defer c.committing.Unlock()
	if mine.done {
		return mine.err
	}
	c.mu.Lock()
	together := c.queue
	c.queue = nil
	c.mu.Unlock()
	for len(together) > 0 {
		together = c.commit(together)
	}
	return mine.err
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
		alone.err, alone.done = c.transact(alone.apply), true
		return slices.Delete(together, failed, failed+1)
	}
	for _, w := range together {
		w.err, w.done = err, true
	}
	return nil
}
