package specstore_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"drover/internal/agent/record"
	"drover/internal/agent/specstore"
)

// filled makes a store with something in it and returns its directory.
func filled(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	s := open(t, dir, boot)
	for n := range 60 {
		accept(t, s, entry(fmt.Sprintf("item-%d", n), n))
		rec := recordOf(n)
		finish(t, s, fmt.Sprintf("item-%d", n), n, success(), specstore.Change{Put: &rec})
		if err := s.PutRuntime(id(n), record.Runtime{Run: "r"}); err != nil {
			t.Fatal(err)
		}
	}
	close(t, s)
	return dir
}

// replica returns a copy of a directory.
func replica(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

// damages are what may have become of a file. Each returns the new content.
func damages() map[string]func(data []byte) []byte {
	page := os.Getpagesize()
	return map[string]func([]byte) []byte{
		"text instead":      func([]byte) []byte { return bytes.Repeat([]byte("not a database\n"), 4000) },
		"shorter than head": func(data []byte) []byte { return data[:100] },
		"one page":          func(data []byte) []byte { return data[:page] },
		"head only":         func(data []byte) []byte { return data[:2*page] },
		"cut in the middle": func(data []byte) []byte { return data[:5*page] },
		"cut in a page":     func(data []byte) []byte { return data[:5*page+page/2] },
		"both metas zeroed": func(data []byte) []byte { clear(data[:2*page]); return data },
		"all but metas zeroed": func(data []byte) []byte {
			clear(data[2*page:])
			return data
		},
		"all but metas random": func(data []byte) []byte {
			seed := sha256.Sum256([]byte("noise"))
			for i := 2 * page; i < len(data); i += len(seed) {
				seed = sha256.Sum256(seed[:])
				copy(data[i:], seed[:])
			}
			return data
		},
	}
}

// TestDamagedState: a state file that cannot be read is no reason to begin anew without a word, nor to fall over.
func TestDamagedState(t *testing.T) {
	t.Parallel()
	whole := filled(t)
	for name, damage := range damages() {
		t.Run(name, func(t *testing.T) {
			dir := replica(t, whole)
			path := filepath.Join(dir, "state.db")
			spoil(t, path, damage)
			spoilt, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			s, err := specstore.Open(dir, boot)
			if err == nil {
				_ = s.Close()
				t.Fatal("it is opened as if nothing had happened")
			}
			if text := err.Error(); !strings.Contains(text, path) || !strings.Contains(text, "move the file away") {
				t.Errorf("the error does not say which file it is and what to do: %v", err)
			}
			if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, spoilt) {
				t.Errorf("the damaged file has been altered (%v)", err)
			}
			// It works as it says.
			if err := os.Rename(path, path+".damaged"); err != nil {
				t.Fatal(err)
			}
			s = open(t, dir, boot)
			if records, err := s.Records(); err != nil || len(records) > 0 {
				t.Errorf("%d records, %v", len(records), err)
			}
		})
	}
}

// TestDamagedRuntime: a runtime file that cannot be read is made anew.
func TestDamagedRuntime(t *testing.T) {
	t.Parallel()
	whole := filled(t)
	for name, damage := range damages() {
		t.Run(name, func(t *testing.T) {
			dir := replica(t, whole)
			spoil(t, filepath.Join(dir, "runtime.db"), damage)
			s := open(t, dir, boot)
			if rt, err := s.GetRuntime(id(1)); err != nil || rt.Run != "" {
				t.Errorf("runtime %+v, %v", rt, err)
			}
			if err := s.PutRuntime(id(1), record.Runtime{Run: "new"}); err != nil {
				t.Fatal(err)
			}
			if records, err := s.Records(); err != nil || len(records) != 60 {
				t.Errorf("%d records, %v", len(records), err)
			}
			close(t, s)
			s = open(t, dir, boot)
			if rt, err := s.GetRuntime(id(1)); err != nil || rt.Run != "new" {
				t.Errorf("runtime %+v, %v", rt, err)
			}
		})
	}
}

// TestEmptyFiles are what a crash at the very first start leaves.
func TestEmptyFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"state.db", "runtime.db"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, dir, boot)
	if records, err := s.Records(); err != nil || len(records) > 0 {
		t.Errorf("%d records, %v", len(records), err)
	}
}

// TestUnreadableRecord: one value that makes no sense is named.
func TestUnreadableRecord(t *testing.T) {
	t.Parallel()
	whole := filled(t)
	for bucket, read := range map[string]func(*specstore.Store) error{
		"records": func(s *specstore.Store) error { _, err := s.Records(); return err },
		"journal": func(s *specstore.Store) error { _, _, err := s.Journal(); return err },
	} {
		dir := replica(t, whole)
		edit(t, filepath.Join(dir, "state.db"), func(tx *bbolt.Tx) error {
			b := tx.Bucket([]byte(bucket))
			k, _ := b.Cursor().First()
			return b.Put(k, []byte("{"))
		})
		if err := read(open(t, dir, boot)); err == nil || !strings.Contains(err.Error(), "unexpected end of JSON") {
			t.Errorf("%s: %v", bucket, err)
		}
	}
}

// TestNewerFormat: a file that a newer version wrote is left alone.
func TestNewerFormat(t *testing.T) {
	t.Parallel()
	dir := filled(t)
	edit(t, filepath.Join(dir, "state.db"), func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("meta")).Put([]byte("format"), binary.BigEndian.AppendUint64(nil, 2))
	})
	_, err := specstore.Open(dir, boot)
	if err == nil ||
		!strings.Contains(err.Error(), "the file has format 2, written by a newer drover; this one knows up to 1") {
		t.Errorf("got %v", err)
	}
}

// TestOlderFormat: a file of an older version is marked as one of this version, so that the older one refuses it.
func TestOlderFormat(t *testing.T) {
	t.Parallel()
	dir := filled(t)
	path := filepath.Join(dir, "state.db")
	edit(t, path, func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("meta")).Put([]byte("format"), binary.BigEndian.AppendUint64(nil, 0))
	})
	close(t, open(t, dir, boot))
	edit(t, path, func(tx *bbolt.Tx) error {
		if n := binary.BigEndian.Uint64(tx.Bucket([]byte("meta")).Get([]byte("format"))); n != 1 {
			t.Errorf("the file has format %d, want 1", n)
		}
		return nil
	})
}

// TestSecondAgent: two agents never work on one directory.
func TestSecondAgent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, boot)
	if err := s.PutRuntime(id(1), record.Runtime{Run: "r"}); err != nil {
		t.Fatal(err)
	}
	if _, err := specstore.Open(dir, boot); err == nil ||
		!strings.Contains(err.Error(), "another agent uses this data directory") {
		t.Errorf("got %v", err)
	}
	if rt, err := s.GetRuntime(id(1)); err != nil || rt.Run != "r" {
		t.Errorf("the first agent has lost its runtime: %+v, %v", rt, err)
	}
	// Not even where the first one's state has been moved away under its hands.
	if err := os.Rename(filepath.Join(dir, "state.db"), filepath.Join(dir, "state.db.old")); err != nil {
		t.Fatal(err)
	}
	if _, err := specstore.Open(dir, boot); err == nil ||
		!strings.Contains(err.Error(), "another agent uses this data directory") {
		t.Errorf("got %v", err)
	}
	close(t, s)
	open(t, dir, boot)
}

func TestNoDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := specstore.Open(file, boot); err == nil ||
		!strings.Contains(err.Error(), "cannot create agent directory") {
		t.Errorf("got %v", err)
	}
}

func spoil(t *testing.T, path string, damage func([]byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, damage(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

func edit(t *testing.T, path string, fn func(tx *bbolt.Tx) error) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(fn); err != nil {
		t.Error(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
