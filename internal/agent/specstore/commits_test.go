package specstore

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"go.etcd.io/bbolt"
)

// TestCommitsAreShared: everything that is written while a commit is under way goes into the next one, and a change
// that fails takes nobody else with it.
func TestCommitsAreShared(t *testing.T) {
	db, err := bbolt.Open(filepath.Join(t.TempDir(), "db"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var c commits
	bucket := []byte("b")
	if err := c.update(db, func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket(bucket)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	refused := errors.New("refused")
	const writers, bad = 20, 7
	var wg sync.WaitGroup
	errs := make([]error, writers)
	c.committing.Lock() // a commit is under way
	for i := range writers {
		wg.Go(func() {
			errs[i] = c.update(db, func(tx *bbolt.Tx) error {
				if i == bad {
					return refused
				}
				return tx.Bucket(bucket).Put(fmt.Append(nil, i), []byte("x"))
			})
		})
	}
	for queued := 0; queued < writers; {
		c.mu.Lock()
		queued = len(c.queue)
		c.mu.Unlock()
	}
	c.committing.Unlock()
	wg.Wait()
	err = db.View(func(tx *bbolt.Tx) error {
		for i := range writers {
			written := tx.Bucket(bucket).Get(fmt.Append(nil, i)) != nil
			if written != (i != bad) || errors.Is(errs[i], refused) != (i == bad) {
				t.Errorf("writer %d: written %v, error %v", i, written, errs[i])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
