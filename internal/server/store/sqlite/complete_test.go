package sqlite_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"drover/internal/server/store/storetest"

	"drover/internal/server/store"
	"drover/internal/server/store/sqlite"
)

// TestCutOffFileIsRefused cuts a file at many places, alone and beside a write-ahead log that does not hold what is
// missing.
func TestCutOffFileIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "drover.db")
	db := open(t, path)
	if err := storetest.Create(t.Context(), db, newTask("t", 2000), store.AuditRow{At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the first to open it again changes the items
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		db = open(t, path)
	}
	if err := db.PutAgent(t.Context(), store.Agent{Key: "a"}); err != nil { // the log holds a few pages
		t.Fatal(err)
	}
	file, log := read(t, path), read(t, path+"-wal")
	if len(log) == 0 {
		t.Fatal("there is no write-ahead log")
	}
	for _, beside := range [][]byte{nil, log, log[:100], log[:31]} {
		for _, length := range []int{len(file) - 1, len(file) - 4096, len(file) / 2, 4097, 100} {
			err := openCopy(t, file[:length], beside)
			if err == nil || !strings.Contains(err.Error(), "restore a copy") {
				t.Errorf("%d of %d bytes beside a log of %d: %v", length, len(file), len(beside), err)
			}
		}
		if err := openCopy(t, file, beside); err != nil {
			t.Errorf("the whole file beside a log of %d bytes: %v", len(beside), err)
		}
	}
}

// TestLogCompletesTheFile: a server that was killed as it folded the log into the file left a file that is too short,
// and loses nothing.
func TestLogCompletesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "drover.db")
	db := open(t, path)
	if err := storetest.Create(t.Context(), db, newTask("t", 500), store.AuditRow{At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	log := read(t, path+"-wal")
	if err := db.Close(); err != nil { // folds the log in
		t.Fatal(err)
	}
	file := read(t, path)
	for _, length := range []int{len(file), len(file) - 1, len(file) / 2, 4096} {
		if err := openCopy(t, file[:length], log); err != nil {
			t.Errorf("%d of %d bytes beside the whole log: %v", length, len(file), err)
		}
	}
}

// openCopy opens what a database of these bytes and this log is, reads its tasks and closes it.
func openCopy(t *testing.T, file, log []byte) error {
	t.Helper()
	path := filepath.Join(t.TempDir(), "drover.db")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	if log != nil {
		if err := os.WriteFile(path+"-wal", log, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	db, err := sqlite.Open(t.Context(), path, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	found := 0
	err = db.TaskItems(t.Context(), "t", "", func(store.ItemView) error { found++; return nil })
	if err == nil && found == 0 {
		err = errors.New("the task has no items")
	}
	return errors.Join(err, db.Close())
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
