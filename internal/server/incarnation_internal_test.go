package server

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"drover/internal/server/dbclock"
	"drover/internal/server/store"
	"drover/internal/server/store/sqlite"
)

// life is one start and end of a server as far as it concerns the incarnations of its database. It returns them.
func life(t *testing.T, dir, database string) []store.Incarnation {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	db, err := sqlite.Open(t.Context(), database, log)
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{cfg: Config{Dir: dir, Log: log}, store: db, clock: dbclock.Alone(time.Now), transport: transport{link: &agentLink{}}}
	if err := s.openIncarnations(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.incarnations.mark(t.Context()); err != nil { // as at its end
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return s.incarnations.list()
}

// TestIncarnations: a server notices that its database went back to a copy, however that was done, and never without it.
func TestIncarnations(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "drover.db")
	want := func(when string, count int) []store.Incarnation {
		t.Helper()
		all := life(t, dir, path)
		if len(all) != count {
			t.Fatalf("%s: incarnations %+v, want %d", when, all, count)
		}
		return all
	}
	read := func() []byte {
		t.Helper()
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	write := func(path string, data []byte) {
		t.Helper()
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want("a new database", 1)
	first := want("after a restart", 1)
	if first[0].FirstRevision() != 0 {
		t.Errorf("revisions of a new database begin at %d", first[0].FirstRevision())
	}
	earlier := read()
	want("after another restart", 1)
	write(path, earlier) // in its place: the file is the same
	begun := time.Now().Unix()
	all := want("copied in place", 2)
	if all[1].ID == all[0].ID || all[1].FirstRevision() < begun {
		t.Errorf("the second incarnation is %+v", all[1])
	}
	want("after a restart of the copy", 2)
	later := read()
	write(path+".new", later)
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	want("the same data in another file", 3)
	record := filepath.Join(dir, "incarnation")
	if err := os.Remove(record); err != nil {
		t.Fatal(err)
	}
	want("a server that keeps no record", 3)
	write(record, []byte("{"))
	db, err := sqlite.Open(t.Context(), path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // nothing was written
	s := &Server{cfg: Config{Dir: dir}, store: db, clock: dbclock.Alone(time.Now)}
	if err := s.openIncarnations(t.Context()); err == nil {
		t.Error("a damaged record is no error")
	}
}
