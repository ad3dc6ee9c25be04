package specstore

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"go.etcd.io/bbolt"

	"drover/internal/agent/record"
)

// openCommits returns the commits of a new file with one bucket.
func openCommits(t *testing.T) (c *commits, db *bbolt.DB, bucket []byte) {
	t.Helper()
	db, err := bbolt.Open(filepath.Join(t.TempDir(), "db"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	c, bucket = &commits{transact: db.Update}, []byte("b")
	if err := c.update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket(bucket)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return c, db, bucket
}

// share has writers share a commit, and returns after it.
func share(c *commits, writers int, write func(i int)) {
	var wg sync.WaitGroup
	c.mu.Lock()
	c.busy = true // a commit is under way
	c.mu.Unlock()
	for i := range writers {
		wg.Go(func() { write(i) })
	}
	for queued := 0; queued < writers; {
		c.mu.Lock()
		queued = len(c.queue)
		c.mu.Unlock()
	}
	c.queue[0].turn <- true
	wg.Wait()
}

// TestCommitsAreShared: everything that is written while a commit is under way goes into the next one, and a change
// that fails takes nobody else with it.
func TestCommitsAreShared(t *testing.T) {
	c, db, bucket := openCommits(t)
	refused := errors.New("refused")
	const writers, bad = 20, 7
	errs := make([]error, writers)
	share(c, writers, func(i int) {
		errs[i] = c.update(func(tx *bbolt.Tx) error {
			if i == bad {
				return refused
			}
			return tx.Bucket(bucket).Put(fmt.Append(nil, i), []byte("x"))
		})
	})
	err := db.View(func(tx *bbolt.Tx) error {
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

// TestNobodyIsToldOfACommitThatFailed: bbolt shows the changes of a commit whose last sync has failed. No writer may
// take them for stored.
func TestNobodyIsToldOfACommitThatFailed(t *testing.T) {
	s, err := Open(t.TempDir(), "boot")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	times, update := 0, s.synced.transact
	s.synced.transact = func(apply func(tx *bbolt.Tx) error) error {
		times++
		if err := update(apply); err != nil || times > 1 {
			return err
		}
		return syscall.EIO
	}
	const writers = 3
	errs, known := make([]error, writers), make([]int, writers)
	share(&s.synced, writers, func(i int) {
		var found []record.Entry
		_, found, errs[i] = s.Accept([]record.Entry{{Item: fmt.Sprint(i)}})
		known[i] = len(found)
	})
	for i, err := range errs {
		if !errors.Is(err, syscall.EIO) || known[i] > 0 {
			t.Errorf("writer %d: %v, %d entries known, want %v", i, err, known[i], syscall.EIO)
		}
	}
	if times != 1 {
		t.Errorf("%d commits, want one", times)
	}
}

// TestAPanicTellsNobodyOfSuccess: the writers that share the commit of one that panics have stored nothing.
func TestAPanicTellsNobodyOfSuccess(t *testing.T) {
	c, db, bucket := openCommits(t)
	const writers, bad = 5, 0
	errs := make([]error, writers)
	share(c, writers, func(i int) {
		defer func() { _ = recover() }()
		errs[i] = errors.New("panicked")
		errs[i] = c.update(func(tx *bbolt.Tx) error {
			if i == bad {
				panic("a damaged page")
			}
			return tx.Bucket(bucket).Put(fmt.Append(nil, i), []byte("x"))
		})
	})
	err := db.View(func(tx *bbolt.Tx) error {
		for i := range writers {
			if written := tx.Bucket(bucket).Get(fmt.Append(nil, i)) != nil; written != (errs[i] == nil) {
				t.Errorf("writer %d: written %v, error %v", i, written, errs[i])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
