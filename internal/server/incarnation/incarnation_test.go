package incarnation_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"drover/internal/server/incarnation"
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
	w, err := incarnation.Open(t.Context(), incarnation.Config{
		Store: db, Path: filepath.Join(dir, "incarnation"), Now: time.Now, Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := w.Run(ended, nil, nil); err != nil {
		t.Fatal(err)
	}
	facts, err := db.Identify(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	all, err := store.ReadIncarnations(facts[store.FactIncarnations])
	if err != nil || all[len(all)-1] != w.Now() {
		t.Fatalf("%+v, %v, and now is %+v", all, err, w.Now())
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestIncarnations: a server notices that its database went back to a copy, however that was done, and never without
// that.
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
	ahead := time.Now().Add(time.Hour).UnixMilli()
	write(record, fmt.Appendf(nil, `{"server":"s","marks":["another"],"at":%d}`, ahead))
	if all := want("a clock that was set back since", 4); all[3].Began <= ahead {
		t.Errorf("the last incarnation has begun at %d, and not after %d", all[3].Began, ahead)
	}
	if err := os.Remove(record); err != nil {
		t.Fatal(err)
	}
	want("a server that keeps no record", 4)
	write(record, []byte("{"))
	db, err := sqlite.Open(t.Context(), path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // nothing was written
	if _, err := incarnation.Open(t.Context(), incarnation.Config{Store: db, Path: record, Now: time.Now}); err == nil {
		t.Error("a damaged record is no error")
	}
}
