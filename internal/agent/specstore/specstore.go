// Package specstore keeps on the agent's disk what must outlive the agent: the specs and hosting flags of its
// processes, the journal of accepted operations, and the last knowledge of the running instances. It decides nothing.
//
// There are two files. state.db is synced at every commit: specs, flags, accepted operations, outcomes. runtime.db is
// not synced: process identities, retry counters, the progress of running operations and accepted queries. Its
// contents survive a kill -9 of the agent in the page cache. They mean nothing after a reboot, so the agent deletes
// the file when the boot id changes. The files are separate because an unsynced commit in the same bbolt file could
// make the synced pages unreadable after a power failure.
package specstore

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
	bberrors "go.etcd.io/bbolt/errors"

	"drover/internal/agent/record"
	"drover/internal/durable"
	"drover/internal/process"
	"drover/internal/release"
	"drover/internal/reserve"
)

// The buckets, and the keys of the meta bucket.
const (
	bucketRecords = "records"
	bucketJournal = "journal"
	bucketItems   = "items"  // item id -> journal sequence
	bucketGroups  = "groups" // by namespace
	bucketRuntime = "runtime"
	bucketSteps   = "steps"
	bucketAsked   = "questions" // item id -> entry
	bucketHistory = "history"
	bucketMeta    = "meta"
	keyBoot       = "boot_id"
	keyFormat     = "format"
	keyClock      = "clock_offset"
	keyNewest     = "newest_manifest"
)

// format is the layout of both files. drover rejects a file with a higher format.
const format = release.Format

// Store is the two files. It is safe for concurrent use.
type Store struct {
	state   *bbolt.DB
	runtime *bbolt.DB
	// synced has the writes to state, unsynced those to runtime.
	synced    commits
	unsynced  commits
	questions questions
	// acknowledged is not on disk yet.
	acknowledged acknowledged
	boot         string
	// reserve is disk space for writes on a full disk.
	reserve *reserve.Reserve
	// file is the file of state.
	file durable.Held
}

// reserveSize is the size of the reserve, in bytes.
const reserveSize = 2 << 20

// Open opens or creates the files in dir, which is made with mode 0700. bootID decides whether the runtime file is
// still true. It fails at once when another process holds the files, and says so.
func Open(dir, bootID string) (*Store, error) { return openStore(dir, bootID, marked) }

// OpenForTrial is Open for a program that is being tried. It leaves the format of the files as it is, so that the
// former program can read them again. Until the trial is over, the program must write what that format allows.
func OpenForTrial(dir, bootID string) (*Store, error) { return openStore(dir, bootID, unmarked) }

// marking tells whether files of an earlier format become files of this format.
type marking bool

const (
	marked   marking = true
	unmarked marking = false
)

func openStore(dir, bootID string, mark marking) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot create agent directory: %w", err)
	}
	room := reserve.Keep(filepath.Join(dir, "reserve"), reserveSize)
	state, err := open(filepath.Join(dir, "state.db"), mark, bucketRecords, bucketJournal, bucketItems, bucketGroups,
		bucketHistory)
	if err != nil {
		return nil, err
	}
	runtime, err := openRuntime(filepath.Join(dir, "runtime.db"), bootID, mark)
	if err != nil {
		_ = state.Close()
		return nil, err
	}
	s := &Store{
		state: state, runtime: runtime, unsynced: commits{transact: runtime.Update},
		questions: questions{known: map[string]bool{}}, acknowledged: acknowledged{items: map[string]bool{}},
		boot: bootID, reserve: room,
	}
	s.synced.transact = s.updateState
	if s.file, err = durable.Hold(state.Path()); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot open the agent's files: %w", err), s.Close())
	}
	return s, nil
}

var errInUse = errors.New("another agent uses this data directory")

func open(path string, mark marking, buckets ...string) (*bbolt.DB, error) {
	var db *bbolt.DB
	err := guarded(func() (err error) {
		db, err = bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second, FreelistType: bbolt.FreelistMapType})
		return err
	})
	if errors.Is(err, bberrors.ErrTimeout) {
		return nil, fmt.Errorf("cannot open %s: %w", path, errInUse)
	}
	if err == nil {
		if err = check(db); err != nil {
			_ = db.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot open %s: %w (move the file away to start without it, or restore a copy)", path,
			err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range append(buckets, bucketMeta) {
			if _, err := tx.CreateBucketIfNotExists([]byte(name)); err != nil {
				return err
			}
		}
		return errors.Join(checkFormat(tx.Bucket([]byte(bucketMeta)), mark),
			numberRecords(tx.Bucket([]byte(bucketRecords))))
	})
	if err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("cannot prepare %s: %w", path, err)
	}
	return db, nil
}

// checkFormat marks a file of an older format as one of this format, so that no older version reads it from now on.
func checkFormat(meta *bbolt.Bucket, mark marking) error {
	var stored uint64
	if data := meta.Get([]byte(keyFormat)); data != nil {
		stored = binary.BigEndian.Uint64(data)
	}
	if stored > format {
		return fmt.Errorf("the file has format %d, written by a newer drover; this one knows up to %d", stored, format)
	}
	if stored < format && bool(mark) {
		return meta.Put([]byte(keyFormat), sequenceKey(format))
	}
	return nil
}

// openRuntime opens the unsynced file. It makes a new file if the file is from another boot or is unreadable. drover
// needs the contents only to be quick, not to be right.
func openRuntime(path, bootID string, mark marking) (*bbolt.DB, error) {
	db, err := open(path, mark, bucketRuntime, bucketSteps, bucketAsked)
	if err == nil {
		var boot string
		_ = db.View(func(tx *bbolt.Tx) error {
			boot = string(tx.Bucket([]byte(bucketMeta)).Get([]byte(keyBoot)))
			return nil
		})
		if boot == bootID {
			db.NoSync = true
			return db, nil
		}
		_ = db.Close()
	}
	if errors.Is(err, errInUse) {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("cannot renew %s: %w", path, err)
	}
	db, err = open(path, mark, bucketRuntime, bucketSteps, bucketAsked)
	if err != nil {
		return nil, err
	}
	db.NoSync = true
	err = db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(bucketMeta)).Put([]byte(keyBoot), []byte(bootID))
	})
	if err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("cannot prepare %s: %w", path, err)
	}
	return db, nil
}

// CheckFiles returns an error if somebody has removed or replaced the files: nothing is stored any more, and the next
// agent will not know of it. An agent goes on with what it has, and takes no operations.
func (s *Store) CheckFiles() error { return s.file.Check() }

// BootID returns the boot that the runtime file belongs to.
func (s *Store) BootID() string { return s.boot }

// Close stores what was acknowledged, and closes both files.
func (s *Store) Close() error {
	var err error
	if len(s.acknowledged.all()) > 0 {
		err = s.write(func(*bbolt.Tx) error { return nil })
	}
	return errors.Join(err, s.runtime.Close(), s.state.Close())
}

// write applies a synced change and returns when it is on disk. The agent's own records are urgent: they may use the
// reserve.
func (s *Store) write(apply func(tx *bbolt.Tx) error) error {
	return s.reserve.Urgent(func() error { return s.synced.update(apply) })
}

// writeUnsynced applies a change to the runtime file, and does not wait for the disk. It may use the reserve too.
func (s *Store) writeUnsynced(apply func(tx *bbolt.Tx) error) error {
	return s.reserve.Urgent(func() error { return s.unsynced.update(apply) })
}

// Records returns all known processes, in no particular order.
func (s *Store) Records() ([]record.Record, error) {
	var all []record.Record
	err := s.state.View(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(bucketRecords)).ForEach(func(k, v []byte) error {
			var r record.Record
			if err := json.Unmarshal(v, &r); err != nil {
				return fmt.Errorf("record %x: %w", k, err)
			}
			all = append(all, r)
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read records: %w", err)
	}
	return all, nil
}

// PutRecord stores a record outside any operation, as it is, and returns when it is on disk.
func (s *Store) PutRecord(r record.Record) error {
	err := s.write(func(tx *bbolt.Tx) error {
		records := tx.Bucket([]byte(bucketRecords))
		if err := raiseSequence(records, r.Revision); err != nil {
			return err
		}
		return putJSON(records, []byte(process.Hash(r.ID)), r)
	})
	if err != nil {
		return fmt.Errorf("cannot store %s: %w", r.ID, err)
	}
	return nil
}

func putJSON(b *bbolt.Bucket, key []byte, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return b.Put(key, data)
}

func sequenceKey(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
