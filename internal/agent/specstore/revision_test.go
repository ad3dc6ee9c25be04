package specstore_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"

	"drover/internal/agent/record"
	"drover/internal/agent/specstore"
	"drover/internal/process"
)

// operate carries out an operation that changes the record of a process, and returns the record's revision.
func operate(t *testing.T, s *specstore.Store, item string, n int) uint64 {
	t.Helper()
	accept(t, s, entry(item, n))
	rec := recordOf(n)
	finish(t, s, item, n, success(), specstore.Change{Put: &rec})
	return rec.Revision
}

func remove(t *testing.T, s *specstore.Store, item string, n int) {
	t.Helper()
	accept(t, s, entry(item, n))
	finish(t, s, item, n, success(), specstore.Change{Delete: true})
}

// holds compares what is on the disk: the latest revision, and those of the records by number.
func holds(t *testing.T, s *specstore.Store, latest uint64, records map[int]uint64) {
	t.Helper()
	want := map[process.ID]uint64{}
	for n, revision := range records {
		want[id(n)] = revision
	}
	got, have, err := s.Revisions()
	if diff := cmp.Diff(want, have); diff != "" || err != nil || got != latest {
		t.Errorf("latest %d, want %d; %v; records (-want +got):\n%s", got, latest, err, diff)
	}
	if got, err := s.Revision(); err != nil || got != latest {
		t.Errorf("latest %d, %v; want %d", got, err, latest)
	}
	all, err := s.Records()
	if err != nil || len(all) != len(want) {
		t.Errorf("%d records, %v", len(all), err)
	}
	for _, rec := range all {
		if rec.Revision != want[rec.ID] {
			t.Errorf("%s has revision %d, want %d", rec.ID, rec.Revision, want[rec.ID])
		}
	}
}

// TestRevisionsRise over all records, over removals and restarts, and are never given out twice.
func TestRevisionsRise(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, boot)
	holds(t, s, 0, nil)
	if a, b := operate(t, s, "1", 1), operate(t, s, "2", 2); a != 1 || b != 2 {
		t.Errorf("revisions %d and %d", a, b)
	}
	remove(t, s, "3", 2)
	holds(t, s, 3, map[int]uint64{1: 1})
	close(t, s)
	s = open(t, dir, "another boot")
	if n := operate(t, s, "4", 2); n != 4 {
		t.Errorf("registered again with revision %d", n)
	}
	if n, err := s.NextRevision(); n != 5 || err != nil {
		t.Errorf("the next is %d, %v", n, err)
	}
	// What changes no record has none, and an outcome that is not the first neither.
	accept(t, s, entry("5", 1))
	finish(t, s, "5", 1, success(), specstore.Change{})
	late := recordOf(1)
	finish(t, s, "5", 1, success(), specstore.Change{Put: &late})
	holds(t, s, 5, map[int]uint64{1: 1, 2: 4})
	stored := recordOf(2)
	stored.Revision = 9
	if err := s.PutRecord(stored); err != nil {
		t.Fatal(err)
	}
	holds(t, s, 9, map[int]uint64{1: 1, 2: 9})
}

// TestReconcile: what is newer is taken, in one commit, and nothing else.
func TestReconcile(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, boot)
	for i, item := range []string{"1", "2", "3", "4"} {
		operate(t, s, item, i+1)
	}
	remove(t, s, "5", 4)
	if err := s.PutHistory(id(3), record.History{Runs: []process.Run{{PID: 7}}}); err != nil {
		t.Fatal(err)
	}
	desire := func(n int, revision uint64, gone bool) specstore.Desired {
		rec := recordOf(n)
		rec.Revision = revision
		return specstore.Desired{Record: rec, Gone: gone}
	}
	older, same, newer := desire(1, 0, false), desire(2, 2, false), desire(1, 7, false)
	removed, removedBefore, unknown := desire(3, 3, true), desire(2, 1, true), desire(9, 8, true)
	seen, unseen := desire(4, 5, false), desire(5, 6, false)
	got, err := s.Reconcile([]specstore.Desired{older, same, newer, removed, removedBefore, unknown, seen, unseen}, 8)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]specstore.Desired{newer, removed, unseen}, got); diff != "" {
		t.Errorf("newer (-want +got):\n%s", diff)
	}
	close(t, s)
	s = open(t, dir, boot)
	holds(t, s, 8, map[int]uint64{1: 7, 2: 2, 5: 6})
	if h, err := s.GetHistory(id(3)); err != nil || len(h.Runs) > 0 {
		t.Errorf("of a removed process %+v is left, %v", h, err)
	}
	// It does not go back, and goes on from there.
	if got, err := s.Reconcile(nil, 4); err != nil || len(got) > 0 {
		t.Errorf("%v, %v", got, err)
	}
	if n := operate(t, s, "6", 3); n != 9 {
		t.Errorf("the next revision is %d", n)
	}
}

// TestRecordsNumberedEachByItself: a file from before revisions were counted over all of them goes on above the
// highest.
func TestRecordsNumberedEachByItself(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, boot)
	operate(t, s, "1", 1)
	high := recordOf(2)
	high.Revision = 6
	if err := s.PutRecord(high); err != nil {
		t.Fatal(err)
	}
	close(t, s)
	edit(t, filepath.Join(dir, "state.db"), func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("records")).SetSequence(0)
	})
	s = open(t, dir, boot)
	holds(t, s, 6, map[int]uint64{1: 1, 2: 6})
}

// TestRevisionsOfAnUnreadableRecord: an agent that does not know what it has does not say that it has nothing.
func TestRevisionsOfAnUnreadableRecord(t *testing.T) {
	dir := filled(t)
	edit(t, filepath.Join(dir, "state.db"), func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte("records"))
		return b.Put([]byte(process.Hash(id(1))), []byte("{"))
	})
	s := open(t, dir, boot)
	if _, records, err := s.Revisions(); err == nil || !strings.Contains(err.Error(), "unexpected end of JSON") ||
		records != nil {
		t.Errorf("%v, %v", records, err)
	}
	gone := []specstore.Desired{{Record: record.Record{ID: id(1), Revision: 1000}, Gone: true}}
	if _, err := s.Reconcile(gone, 1000); err == nil || !slices.Contains(strings.Fields(err.Error()), "JSON") {
		t.Errorf("it is taken for newer: %v", err)
	}
}
