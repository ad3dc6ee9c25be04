package specstore

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"drover/internal/agent/record"
	"drover/internal/process"
)

// PutRuntime stores the runtime of a process. It does not wait for the disk.
func (s *Store) PutRuntime(id process.ID, r record.Runtime) error {
	err := s.writeUnsynced(func(tx *bbolt.Tx) error {
		return putJSON(tx.Bucket([]byte(bucketRuntime)), []byte(process.Hash(id)), r)
	})
	if err != nil {
		return fmt.Errorf("cannot store the state of %s: %w", id, err)
	}
	return nil
}

// DeleteRuntime forgets it.
func (s *Store) DeleteRuntime(id process.ID) error {
	return s.writeUnsynced(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(bucketRuntime)).Delete([]byte(process.Hash(id)))
	})
}

// GetRuntime returns the stored runtime, or the zero value.
func (s *Store) GetRuntime(id process.ID) (record.Runtime, error) {
	var r record.Runtime
	err := s.runtime.View(func(tx *bbolt.Tx) error {
		data := tx.Bucket([]byte(bucketRuntime)).Get([]byte(process.Hash(id)))
		if data == nil {
			return nil
		}
		return json.Unmarshal(data, &r)
	})
	return r, err
}

// PutProgress stores the progress of an item, or of a relaunch under the key of its process. It does not wait for the
// disk.
func (s *Store) PutProgress(item string, p record.Progress) error {
	err := s.writeUnsynced(func(tx *bbolt.Tx) error {
		return putJSON(tx.Bucket([]byte(bucketSteps)), []byte(item), p)
	})
	if err != nil {
		return fmt.Errorf("cannot store the progress of %s: %w", item, err)
	}
	return nil
}

// GetProgress returns the stored progress, or the zero value.
func (s *Store) GetProgress(item string) (record.Progress, error) {
	var p record.Progress
	err := s.runtime.View(func(tx *bbolt.Tx) error {
		data := tx.Bucket([]byte(bucketSteps)).Get([]byte(item))
		if data == nil {
			return nil
		}
		return json.Unmarshal(data, &p)
	})
	return p, err
}

// DropProgress forgets it.
func (s *Store) DropProgress(item string) error {
	// Most items are queries, which have no progress: a look is much cheaper than a commit that changes nothing.
	noted := false
	err := s.runtime.View(func(tx *bbolt.Tx) error {
		noted = tx.Bucket([]byte(bucketSteps)).Get([]byte(item)) != nil
		return nil
	})
	if err != nil || !noted {
		return err
	}
	return s.writeUnsynced(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(bucketSteps)).Delete([]byte(item))
	})
}

// ClockOffset returns how far the wall clock was ahead of the boot clock at the first call in this boot; now is the
// current offset. If the two differ, the wall clock was stepped.
func (s *Store) ClockOffset(now time.Duration) (time.Duration, error) {
	first := now
	err := s.writeUnsynced(func(tx *bbolt.Tx) error {
		meta := tx.Bucket([]byte(bucketMeta))
		if data := meta.Get([]byte(keyClock)); data != nil {
			first = time.Duration(binary.BigEndian.Uint64(data))
			return nil
		}
		return meta.Put([]byte(keyClock), sequenceKey(uint64(now)))
	})
	return first, err
}
