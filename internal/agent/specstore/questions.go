package specstore

import (
	"slices"
	"sync"

	"go.etcd.io/bbolt"

	"drover/internal/agent/record"
)

// questions are the accepted queries whose outcome the server does not have. A query changes nothing, so drover may
// repeat it and need not keep its outcome. The unsynced file holds only the query itself, for the next agent to
// answer. After a reboot of the host the server sends the query again.
type questions struct {
	mu    sync.Mutex
	known map[string]bool // items
}

// split separates known entries from new ones.
func (q *questions) split(entries []record.Entry) (fresh, known []record.Entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range entries {
		if q.known[e.Item] {
			known = append(known, e)
		} else {
			fresh = append(fresh, e)
		}
	}
	return fresh, known
}

func (q *questions) add(entries []record.Entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range entries {
		q.known[e.Item] = true
	}
}

func (q *questions) has(item string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.known[item]
}

func (q *questions) remove(items []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, item := range items {
		delete(q.known, item)
	}
}

// putQuestions stores new queries.
func (s *Store) putQuestions(entries []record.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	return s.writeUnsynced(func(tx *bbolt.Tx) error {
		asked := tx.Bucket([]byte(bucketAsked))
		for _, e := range entries {
			if err := putJSON(asked, []byte(e.Item), e); err != nil {
				return err
			}
		}
		return nil
	})
}

// dropQuestions removes the queries among the items, and returns the other items.
func (s *Store) dropQuestions(items []string) (others []string, err error) {
	answered, others := []string{}, []string{}
	for _, item := range items {
		if s.questions.has(item) {
			answered = append(answered, item)
		} else {
			others = append(others, item)
		}
	}
	if len(answered) == 0 {
		return others, nil
	}
	err = s.writeUnsynced(func(tx *bbolt.Tx) error {
		asked := tx.Bucket([]byte(bucketAsked))
		for _, item := range answered {
			if err := asked.Delete([]byte(item)); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		s.questions.remove(answered)
	}
	return others, err
}

// openQuestions returns, by item, the queries of an earlier agent that have no acknowledged answer. From now on they
// are known.
func (s *Store) openQuestions() (open []record.Entry, err error) {
	err = s.runtime.View(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(bucketAsked)).ForEach(func(_, v []byte) error {
			e, err := decodeEntry(v)
			open = append(open, e)
			return err
		})
	})
	s.questions.add(open)
	return slices.Clip(open), err
}
