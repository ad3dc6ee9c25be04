package specstore

import (
	"slices"
	"sync"

	"go.etcd.io/bbolt"
)

// questions are the accepted queries whose outcome the server does not have. A query changes nothing, so it may be
// carried out again, and its outcome need not be kept: what is on disk, unsynced, is only that it was asked, for a
// successor of this agent to answer. A server asks an agent that comes back from a reboot once more.
type questions struct {
	mu    sync.Mutex
	known map[string]bool // items
}

// split takes apart the entries that are known and those that are not.
func (q *questions) split(entries []Entry) (fresh, known []Entry) {
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

func (q *questions) add(entries []Entry) {
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

// putQuestions notes questions that are not known.
func (s *Store) putQuestions(entries []Entry) error {
	if len(entries) == 0 {
		return nil
	}
	return s.commits.update(s.runtime, func(tx *bbolt.Tx) error {
		asked := tx.Bucket([]byte(bucketAsked))
		for _, e := range entries {
			if err := putJSON(asked, []byte(e.Item), e); err != nil {
				return err
			}
		}
		return nil
	})
}

// dropQuestions forgets the questions among the items, and returns the others.
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
	err = s.commits.update(s.runtime, func(tx *bbolt.Tx) error {
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

// openQuestions returns what an earlier agent was asked and has not answered, for good or at all, by item. They are
// known from now on.
func (s *Store) openQuestions() (open []Entry, err error) {
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
