package specstore

import (
	"encoding/json"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"drover/internal/process"
)

// History is the results of the runs of a periodic or single-run process, across restarts of the agent and of the
// host.
type History struct {
	// Due is the run of the timetable that was dealt with last.
	Due time.Time `json:"due,omitzero"`
	// Owed says that this run is still to begin.
	Owed bool `json:"owed,omitempty"`
	// Table is the timetable that Due is one of.
	Table string `json:"table,omitempty"`
	// Runs are the last runs, newest first.
	Runs []process.Run `json:"runs,omitempty"`
}

// PutHistory stores the history of a process, and returns when it is on disk.
func (s *Store) PutHistory(id process.ID, h History) error {
	err := s.write(func(tx *bbolt.Tx) error {
		return putJSON(tx.Bucket([]byte(bucketHistory)), []byte(process.Hash(id)), h)
	})
	if err != nil {
		return fmt.Errorf("cannot store the runs of %s: %w", id, err)
	}
	return nil
}

// GetHistory returns the stored history, or the zero value.
func (s *Store) GetHistory(id process.ID) (History, error) {
	var h History
	err := s.state.View(func(tx *bbolt.Tx) error {
		data := tx.Bucket([]byte(bucketHistory)).Get([]byte(process.Hash(id)))
		if data == nil {
			return nil
		}
		return json.Unmarshal(data, &h)
	})
	if err != nil {
		return History{}, fmt.Errorf("cannot read the runs of %s: %w", id, err)
	}
	return h, nil
}
