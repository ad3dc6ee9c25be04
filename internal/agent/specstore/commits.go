package specstore

import (
	"sync"

	"go.etcd.io/bbolt"

	"drover/internal/reserve"
)

// commits is the only way to write to a file. Writers that come while a commit is under way share the next one; a
// writer that is alone waits for nobody. When many processes end at once this is most of what their relaunches cost on
// disk.
type commits struct {
	// reserve is kept for a full disk.
	reserve *reserve.Reserve
	// committing is held by the one who commits.
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

// update applies a change in a transaction and returns once that is committed. A change that fails takes nobody else
// with it: apply may then be called again, on a transaction of its own. The change is visible to everybody, also after
// a crash of this process, before update returns.
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

// store commits a change, on a full disk in the room that is kept.
func (c *commits) store(db *bbolt.DB, apply func(tx *bbolt.Tx) error) error {
	return c.reserve.Urgent(func() error { return db.Update(apply) })
}
