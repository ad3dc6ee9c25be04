package specstore

import (
	"sync"

	"go.etcd.io/bbolt"

	"drover/internal/reserve"
)

// commits serialises all writes to a file. Writers that arrive during a commit share the next one; a single writer
// does not wait. When many processes end at once, this saves most of the disk cost of their relaunches.
type commits struct {
	// reserve is disk space for writes on a full disk.
	reserve *reserve.Reserve
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

// update applies a change in a transaction and returns after the commit. If one change of a shared transaction fails,
// every writer gets a transaction of its own, so update may call apply again. The change is visible to everybody
// before update returns, and survives a crash of this process.
func (c *commits) update(db *bbolt.DB, apply func(tx *bbolt.Tx) error) error {
	mine := &write{apply: apply}
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
	err := c.store(db, func(tx *bbolt.Tx) error {
		for _, ch := range together {
			if err := ch.apply(tx); err != nil {
				return err
			}
		}
		return nil
	})
	for _, ch := range together {
		if err != nil && len(together) > 1 {
			ch.err = c.store(db, ch.apply)
		} else {
			ch.err = err
		}
		ch.done = true
	}
	return mine.err
}

// store commits a change; on a full disk it uses the reserve.
func (c *commits) store(db *bbolt.DB, apply func(tx *bbolt.Tx) error) error {
	return c.reserve.Urgent(func() error { return db.Update(apply) })
}
