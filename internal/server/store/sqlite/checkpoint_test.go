package sqlite_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"drover/internal/server/store/storetest"

	"drover/internal/server/store"
	"drover/internal/server/store/sqlite"
)

// TestTheLogIsFoldedInWhenNobodyWrites: not by the commit that somebody waits for, and not for a few rows.
func TestTheLogIsFoldedInWhenNobodyWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "drover.db")
	synctest.Test(t, func(t *testing.T) {
		db, err := sqlite.Open(t.Context(), path, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close() //nolint:errcheck // the test is over
		size := func() int64 {
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			return info.Size()
		}
		create := func(id string, n int) {
			if err := storetest.Create(t.Context(), db, newTask(id, n), store.AuditRow{At: time.Now()}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Hour) // the bubble's time: the schema is in the file
		empty := size()
		create("small", 10)
		time.Sleep(time.Hour)
		if now := size(); now != empty {
			t.Errorf("for a few rows the file grew from %d to %d bytes", empty, now)
		}
		create("large", 20_000)
		if now := size(); now != empty {
			t.Errorf("with the commit the file grew from %d to %d bytes", empty, now)
		}
		time.Sleep(time.Second)
		if now := size(); now < empty+1<<20 {
			t.Errorf("afterwards the file has %d bytes, had %d", now, empty)
		}
	})
}
