package specstore

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"drover/internal/agent/record"
	"drover/internal/clip"
	"drover/internal/process"
	"drover/internal/reserve"
)

// Accept journals the unknown entries and returns them in fresh, the commands in order before the queries. It returns
// when the commands are on disk; a query need not be. It returns the entries that it already knows in known: the
// commands with their current state, the queries without an outcome, because drover does not keep that.
func (s *Store) Accept(entries []record.Entry) (fresh, known []record.Entry, err error) {
	if err := s.CheckFiles(); err != nil {
		return nil, nil, err
	}
	var commands, asked []record.Entry
	for _, e := range entries {
		e.Boot = s.boot
		if e.Op == process.Query {
			asked = append(asked, e)
		} else {
			commands = append(commands, e)
		}
	}
	asked, answering := s.questions.split(asked)
	if err := s.putQuestions(asked); err != nil {
		return nil, nil, fmt.Errorf("cannot store queries: %w", err)
	}
	if len(commands) > 0 {
		if fresh, known, err = s.acceptCommands(commands); err != nil {
			return nil, nil, fmt.Errorf("cannot journal operations: %w", err)
		}
	}
	// Add them last: if an entry is rejected with the rest, its resend must be new.
	s.questions.add(asked)
	return append(fresh, asked...), append(known, answering...), nil
}

// Urgent calls do, which may write to a full disk in the reserve.
func (s *Store) Urgent(do func() error) error { return s.reserve.Urgent(do) }

// ordinary calls do, and explains the error if the disk is full.
func (s *Store) ordinary(do func() error) error {
	err := s.reserve.Ordinary(do)
	if reserve.IsFull(err) {
		return fmt.Errorf(
			"the disk of the agent is full: until there is space, the agent accepts only stop, kill and unhost: %w",
			err)
	}
	return err
}

func (s *Store) acceptCommands(entries []record.Entry) (fresh, known []record.Entry, err error) {
	store := s.reserve.Urgent
	if slices.ContainsFunc(entries, func(e record.Entry) bool { return !e.Ends() }) {
		store = s.ordinary
	}
	accept := func(tx *bbolt.Tx) error {
		fresh, known = nil, nil // a failed commit is tried again
		journal, items := tx.Bucket([]byte(bucketJournal)), tx.Bucket([]byte(bucketItems))
		for _, e := range entries {
			if seq := items.Get([]byte(e.Item)); seq != nil {
				old, err := decodeEntry(journal.Get(seq))
				if err != nil {
					return err
				}
				known = append(known, old)
				continue
			}
			n, err := journal.NextSequence()
			if err != nil {
				return err
			}
			if err := putJSON(journal, sequenceKey(n), e); err != nil {
				return err
			}
			if err := items.Put([]byte(e.Item), sequenceKey(n)); err != nil {
				return err
			}
			fresh = append(fresh, e)
		}
		return nil
	}
	err = store(func() error { return s.synced.update(accept) })
	return fresh, known, err
}

// Cancel ends operations that have not begun, with the outcome process.NotBegun. An unknown entry is journalled with
// that outcome, so that it cannot be accepted later. An open entry gets that outcome if stop reports true. Cancel
// returns the entries that have an outcome now, when they are on disk. Queries are not in the journal: do not pass
// them.
func (s *Store) Cancel(entries []record.Entry, stop func(item string) bool) (over []record.Entry, err error) {
	outcome := process.NotBegun()
	err = s.write(func(tx *bbolt.Tx) error {
		over = nil // a failed commit is tried again
		journal, items := tx.Bucket([]byte(bucketJournal)), tx.Bucket([]byte(bucketItems))
		for _, e := range entries {
			seq := items.Get([]byte(e.Item))
			unknown := seq == nil
			if unknown {
				n, err := journal.NextSequence()
				if err != nil {
					return err
				}
				seq = sequenceKey(n)
				if err := items.Put([]byte(e.Item), seq); err != nil {
					return err
				}
				e.Boot = s.boot
			} else if e, err = decodeEntry(journal.Get(seq)); err != nil {
				return err
			}
			if e.Outcome == nil && (unknown || stop(e.Item)) {
				e.Outcome = &outcome
				if err := putJSON(journal, seq, e); err != nil {
					return err
				}
			}
			if e.Outcome != nil {
				over = append(over, e)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot cancel operations: %w", err)
	}
	return over, nil
}

// Entries returns the current entries of those items that are in the journal. Queries are not in the journal.
func (s *Store) Entries(itemIDs []string) (known []record.Entry, err error) {
	err = s.state.View(func(tx *bbolt.Tx) error {
		journal, items := tx.Bucket([]byte(bucketJournal)), tx.Bucket([]byte(bucketItems))
		for _, id := range itemIDs {
			seq := items.Get([]byte(id))
			if seq == nil {
				continue
			}
			e, err := decodeEntry(journal.Get(seq))
			if err != nil {
				return err
			}
			known = append(known, e)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot look into the journal: %w", err)
	}
	return known, nil
}

// Change is what an operation did to the record of its process, or to the groups of a namespace. Put gets a revision
// when it is stored.
type Change struct {
	Put    *record.Record
	Delete bool
	Groups *NamespaceGroups
}

// Finish stores the outcome of an item and the change of the record in one commit. So the hosting flag and the answer
// never disagree. It keeps an existing outcome. It returns when both are on disk; change.Put then has its revision. Do
// not call it for a query, because drover stores no outcome of a query.
func (s *Store) Finish(item string, id process.ID, outcome process.Outcome, change Change) error {
	err := s.write(func(tx *bbolt.Tx) error {
		journal, items := tx.Bucket([]byte(bucketJournal)), tx.Bucket([]byte(bucketItems))
		seq := items.Get([]byte(item))
		if seq == nil {
			return fmt.Errorf("item %s is not in the journal", item)
		}
		e, err := decodeEntry(journal.Get(seq))
		if err != nil || e.Outcome != nil {
			return err
		}
		e.Outcome, e.Ended = &outcome, time.Now().UnixMilli()
		if err := applyChange(tx, id, change); err != nil {
			return err
		}
		return putJSON(journal, seq, e)
	})
	if err != nil {
		return fmt.Errorf("cannot store the outcome of %s: %w", item, err)
	}
	return s.DropProgress(item)
}

// acknowledged are the items whose outcome the server has, until the state file says so, too.
type acknowledged struct {
	mu    sync.Mutex
	items map[string]bool
}

func (a *acknowledged) add(items []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, item := range items {
		a.items[item] = true
	}
}

func (a *acknowledged) all() map[string]bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.items)
}

func (a *acknowledged) remove(items map[string]bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for item := range items {
		delete(a.items, item)
	}
	if len(a.items) == 0 {
		a.items = map[string]bool{} // a copy of a map that was large takes as long as a large one
	}
}

// Acknowledge notes that the server has the outcomes of these items. That is on disk with the next change, or after
// Close. Until then a crash makes the next agent report these outcomes once more, which the server tolerates.
func (s *Store) Acknowledge(itemIDs []string) error {
	itemIDs, err := s.dropQuestions(itemIDs)
	if err != nil {
		return fmt.Errorf("cannot store acknowledgements: %w", err)
	}
	s.acknowledged.add(itemIDs)
	return nil
}

// updateState is bbolt.DB.Update of the state file. The transaction also has what was acknowledged before it.
func (s *Store) updateState(apply func(tx *bbolt.Tx) error) error {
	acknowledged := s.acknowledged.all()
	err := s.state.Update(func(tx *bbolt.Tx) error {
		if err := acknowledge(tx, acknowledged); err != nil {
			return err
		}
		return apply(tx)
	})
	if err == nil {
		s.acknowledged.remove(acknowledged)
	}
	return err
}

// acknowledge marks entries. It leaves alone those that it cannot read, so that no other change fails because of them.
func acknowledge(tx *bbolt.Tx, itemIDs map[string]bool) error {
	journal, items := tx.Bucket([]byte(bucketJournal)), tx.Bucket([]byte(bucketItems))
	for id := range itemIDs {
		seq := items.Get([]byte(id))
		if seq == nil {
			continue
		}
		e, err := decodeEntry(journal.Get(seq))
		if err != nil {
			continue
		}
		e.Acked = true
		// The journal must remember the id, and enough of the rest to answer a late resend.
		e.Spec, e.Groups = nil, nil
		e.Outcome = shortened(e.Outcome)
		if err := putJSON(journal, seq, e); err != nil {
			return err
		}
	}
	return nil
}

// Journal returns the open entries (without an outcome) and the entries whose outcome the server does not have. Both
// are in the order of acceptance; open queries come last.
func (s *Store) Journal() (open, unacked []record.Entry, err error) {
	acknowledged := s.acknowledged.all()
	err = s.state.View(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(bucketJournal)).ForEach(func(_, v []byte) error {
			e, err := decodeEntry(v)
			switch {
			case err != nil:
				return err
			case e.Outcome == nil:
				open = append(open, e)
			case !e.Acked && !acknowledged[e.Item]:
				unacked = append(unacked, e)
			}
			return nil
		})
	})
	var asked []record.Entry
	if err == nil {
		asked, err = s.openQuestions()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("cannot read the journal: %w", err)
	}
	return append(open, asked...), unacked, nil
}

// Age says which entries are old.
type Age struct {
	// SinceBoot and Wall are the present time.
	SinceBoot time.Duration
	Wall      time.Time
	// Keep is how long an acknowledged operation is kept after it has expired.
	Keep time.Duration
}

// old reports whether drover may drop an entry.
func (a Age) old(e record.Entry, boot string) bool {
	if e.Boot == boot {
		return a.SinceBoot-e.BeginBy > a.Keep
	}
	return a.Wall.Sub(e.Expires) > a.Keep
}

// Prune removes old acknowledged entries, because no server sends them again. It writes nothing if there are none.
func (s *Store) Prune(age Age) error {
	var old []string
	acknowledged := s.acknowledged.all()
	err := s.state.View(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(bucketJournal)).ForEach(func(_, v []byte) error {
			e, err := decodeEntry(v)
			if err == nil && (e.Acked || acknowledged[e.Item]) && age.old(e, s.boot) {
				old = append(old, e.Item)
			}
			return err
		})
	})
	if err != nil || len(old) == 0 {
		return err
	}
	return s.write(func(tx *bbolt.Tx) error {
		journal, items := tx.Bucket([]byte(bucketJournal)), tx.Bucket([]byte(bucketItems))
		for _, item := range old {
			seq := items.Get([]byte(item))
			if seq == nil {
				continue
			}
			if err := errors.Join(journal.Delete(seq), items.Delete([]byte(item))); err != nil {
				return err
			}
		}
		return nil
	})
}

func decodeEntry(data []byte) (record.Entry, error) {
	var e record.Entry
	if err := json.Unmarshal(data, &e); err != nil {
		return e, fmt.Errorf("journal entry: %w", err)
	}
	return e, nil
}

// NoteManifest keeps when the newest manifest was issued, by the server's clock, and returns when it is on disk.
func (s *Store) NoteManifest(issued time.Time) error {
	err := s.write(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(bucketMeta)).Put([]byte(keyNewest), sequenceKey(uint64(issued.UnixNano())))
	})
	if err != nil {
		return fmt.Errorf("cannot store the time of the newest manifest: %w", err)
	}
	return nil
}

// NewestManifest returns the last time that NoteManifest stored, or the zero time.
func (s *Store) NewestManifest() (issued time.Time, err error) {
	err = s.state.View(func(tx *bbolt.Tx) error {
		if data := tx.Bucket([]byte(bucketMeta)).Get([]byte(keyNewest)); len(data) == 8 {
			issued = time.Unix(0, int64(binary.BigEndian.Uint64(data)))
		}
		return nil
	})
	return issued, err
}

// keptText is how much of an outcome's text drover keeps after the server has all of it, in bytes.
const keptText = 512

func shortened(o *process.Outcome) *process.Outcome {
	if o == nil || len(o.Text) <= keptText {
		return o
	}
	short := *o
	short.Text = clip.Marked(o.Text, keptText, " [...]")
	return &short
}
