package specstore

import (
	"encoding/json"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"

	"drover/internal/agent/record"
	"drover/internal/process"
)

// One sequence numbers all changes of records in the file, removals included, and never repeats a number. So a file
// that was restored from a copy shows its age: its records have low revisions, or records are missing and the last
// number is low.

// Revision returns the number of the latest change; 0 when there was none.
func (s *Store) Revision() (latest uint64, err error) {
	err = s.state.View(func(tx *bbolt.Tx) error {
		latest = tx.Bucket([]byte(bucketRecords)).Sequence()
		return nil
	})
	return latest, err
}

// Revisions returns the number of the latest change and those of the records that were there after it.
func (s *Store) Revisions() (latest uint64, records map[process.ID]uint64, err error) {
	err = s.state.View(func(tx *bbolt.Tx) error {
		bucket := tx.Bucket([]byte(bucketRecords))
		latest, records = bucket.Sequence(), map[process.ID]uint64{}
		return bucket.ForEach(func(k, v []byte) error {
			var r struct {
				ID       process.ID `json:"id"`
				Revision uint64     `json:"revision"`
			}
			if err := json.Unmarshal(v, &r); err != nil {
				return fmt.Errorf("record %x: %w", k, err)
			}
			records[r.ID] = r.Revision
			return nil
		})
	})
	if err != nil {
		return 0, nil, fmt.Errorf("cannot read revisions: %w", err)
	}
	return latest, records, nil
}

// NextRevision allocates the number for a change that belongs to no operation, and returns when it is on disk.
func (s *Store) NextRevision() (n uint64, err error) {
	err = s.write(func(tx *bbolt.Tx) error {
		n, err = tx.Bucket([]byte(bucketRecords)).NextSequence()
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("cannot number a change: %w", err)
	}
	return n, nil
}

// Desired is the last record of a process that the server confirmed. Gone says that the process was removed with this
// revision; then only ID and Revision of the record count.
type Desired struct {
	Record record.Record
	Gone   bool
}

// Reconcile stores the desired records that are newer than the stored ones, and raises the latest revision to reached.
// It does so in one commit, and returns the records that were newer.
func (s *Store) Reconcile(all []Desired, reached uint64) (newer []Desired, err error) {
	err = s.write(func(tx *bbolt.Tx) error {
		newer = nil // a failed commit is tried again
		records := tx.Bucket([]byte(bucketRecords))
		latest := records.Sequence()
		for i := range all {
			changed, err := all[i].put(tx, records, latest)
			if err != nil {
				return err
			}
			if changed {
				newer = append(newer, all[i])
			}
		}
		return raiseSequence(records, reached)
	})
	if err != nil {
		return nil, fmt.Errorf("cannot store the server's records: %w", err)
	}
	return newer, nil
}

// put stores one record if it is newer than the stored one. latest is the latest revision of the file.
func (d *Desired) put(tx *bbolt.Tx, records *bbolt.Bucket, latest uint64) (bool, error) {
	key := []byte(process.Hash(d.Record.ID))
	data := records.Get(key)
	if data == nil {
		// If the file has reached the revision of the desired record, a later change removed the process.
		if d.Gone || d.Record.Revision <= latest {
			return false, nil
		}
		return true, putJSON(records, key, d.Record)
	}
	var have record.Record
	if err := json.Unmarshal(data, &have); err != nil {
		return false, fmt.Errorf("record of %s: %w", d.Record.ID, err)
	}
	switch {
	case d.Gone && have.Revision <= d.Record.Revision:
		return true, remove(tx, records, key)
	case !d.Gone && have.Revision < d.Record.Revision:
		return true, putJSON(records, key, d.Record)
	}
	return false, nil
}

// remove deletes the record and the history of a process.
func remove(tx *bbolt.Tx, records *bbolt.Bucket, key []byte) error {
	return errors.Join(records.Delete(key), tx.Bucket([]byte(bucketHistory)).Delete(key))
}

func raiseSequence(records *bbolt.Bucket, to uint64) error {
	if records.Sequence() >= to {
		return nil
	}
	return records.SetSequence(to)
}

// applyChange applies the change of an operation to the records.
func applyChange(tx *bbolt.Tx, id process.ID, change Change) error {
	records, key := tx.Bucket([]byte(bucketRecords)), []byte(process.Hash(id))
	switch {
	case change.Delete:
		if _, err := records.NextSequence(); err != nil {
			return err
		}
		return remove(tx, records, key)
	case change.Put != nil:
		n, err := records.NextSequence()
		if err != nil {
			return err
		}
		change.Put.Revision = n
		return putJSON(records, key, change.Put)
	case change.Groups != nil:
		return putGroups(tx, change.Groups)
	}
	return nil
}

// numberRecords raises the latest revision of a file from a version that numbered each record separately.
func numberRecords(records *bbolt.Bucket) error {
	if records == nil || records.Sequence() > 0 {
		return nil
	}
	return records.ForEach(func(_, v []byte) error {
		var r record.Record
		if json.Unmarshal(v, &r) != nil {
			return nil // the reader of the records reports it
		}
		return raiseSequence(records, r.Revision)
	})
}
