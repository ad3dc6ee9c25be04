package specstore

import (
	"encoding/json"
	"fmt"

	"go.etcd.io/bbolt"

	"drover/internal/agent/record"
	"drover/internal/process"
)

// PutHistory stores the history of a process, and returns when it is on disk.
func (s *Store) PutHistory(id process.ID, h record.History) error {
	err := s.write(func(tx *bbolt.Tx) error {
		return putJSON(tx.Bucket([]byte(bucketHistory)), []byte(process.Hash(id)), h)
	})
	if err != nil {
		return fmt.Errorf("cannot store the runs of %s: %w", id, err)
	}
	return nil
}

// GetHistory returns the stored history, or the zero value.
func (s *Store) GetHistory(id process.ID) (record.History, error) {
	var h record.History
	err := s.state.View(func(tx *bbolt.Tx) error {
		data := tx.Bucket([]byte(bucketHistory)).Get([]byte(process.Hash(id)))
		if data == nil {
			return nil
		}
		return json.Unmarshal(data, &h)
	})
	if err != nil {
		return record.History{}, fmt.Errorf("cannot read the runs of %s: %w", id, err)
	}
	return h, nil
}
