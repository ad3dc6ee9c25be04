package specstore

import (
	"encoding/json"
	"fmt"

	"go.etcd.io/bbolt"

	"drover/internal/process"
)

// NamespaceGroups are all the process groups that a namespace has.
type NamespaceGroups struct {
	Namespace string          `json:"namespace"`
	Groups    []process.Group `json:"groups"`
}

func putGroups(tx *bbolt.Tx, g *NamespaceGroups) error {
	bucket, key := tx.Bucket([]byte(bucketGroups)), []byte(process.Hash(process.ID{Namespace: g.Namespace}))
	if len(g.Groups) == 0 {
		return bucket.Delete(key)
	}
	return putJSON(bucket, key, g)
}

// Groups returns the process groups of every namespace that has any.
func (s *Store) Groups() (map[string][]process.Group, error) {
	all := map[string][]process.Group{}
	err := s.state.View(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(bucketGroups)).ForEach(func(k, v []byte) error {
			var g NamespaceGroups
			if err := json.Unmarshal(v, &g); err != nil {
				return fmt.Errorf("groups %x: %w", k, err)
			}
			all[g.Namespace] = g.Groups
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read process groups: %w", err)
	}
	return all, nil
}
