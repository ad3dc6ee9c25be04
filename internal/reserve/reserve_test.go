package reserve_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"drover/internal/agent/pidns"
	"drover/internal/reserve"
	"drover/internal/test/harness"
)

func TestMain(m *testing.M) { os.Exit(pidns.Run(m)) }

// fill leaves no room.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 1<<16); len(block) > 0; {
		if _, err := f.Write(block); err != nil {
			block = block[:len(block)/2]
		}
	}
}

// TestReserve: on a full disk what is urgent is written, again and again until the room is used up; all else is refused
// until there is room.
func TestReserve(t *testing.T) {
	dir := harness.SmallDisk(t, "4m")
	r := reserve.Keep(filepath.Join(dir, "reserve"), 1<<30)
	if info, err := os.Stat(filepath.Join(dir, "reserve")); err != nil || info.Size() != 512<<10 || info.Sys() == nil {
		t.Fatalf("%v, %v: want an eighth of the disk", info, err)
	}
	fill(t, filepath.Join(dir, "filler"))
	if r.Room() {
		t.Error("there is room on a full disk")
	}
	n := 0
	write := func() error {
		n++
		f, err := os.CreateTemp(dir, "w")
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.Write(bytes.Repeat([]byte("x"), 100<<10))
		if err != nil {
			_ = os.Remove(f.Name())
		}
		return err
	}
	if err := r.Ordinary(write); !errors.Is(err, reserve.ErrFull) || !reserve.IsFull(err) {
		t.Errorf("an ordinary write: %v", err)
	}
	urgent := 0
	for ; urgent < 20 && r.Urgent(write) == nil; urgent++ {
		if n = 0; r.Ordinary(write) == nil || n != 0 {
			t.Error("an ordinary write took what was given up")
		}
	}
	if urgent < 4 || urgent == 20 {
		t.Errorf("%d urgent writes were done", urgent)
	}
	if err := os.Remove(filepath.Join(dir, "filler")); err != nil {
		t.Fatal(err)
	}
	if err := r.Ordinary(write); err != nil {
		t.Errorf("with room again: %v", err)
	}
	if info, err := os.Stat(filepath.Join(dir, "reserve")); err != nil || info.Size() != 512<<10 {
		t.Errorf("%v, %v: the reserve was not made again", info, err)
	}
}

// TestReserveOutlivesItsOwner: what was given up before is known, and made again.
func TestReserveOutlivesItsOwner(t *testing.T) {
	dir := harness.SmallDisk(t, "4m")
	path := filepath.Join(dir, "reserve")
	r := reserve.Keep(path, 1<<20)
	fill(t, filepath.Join(dir, "filler"))
	full := true
	if err := r.Urgent(func() error {
		if full {
			full = false
			return unix.ENOSPC
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	fill(t, filepath.Join(dir, "filler"))
	r = reserve.Keep(path, 1<<20)
	if r.Renew() {
		t.Error("it is whole on a full disk")
	}
	if err := os.Remove(filepath.Join(dir, "filler")); err != nil {
		t.Fatal(err)
	}
	if !r.Renew() {
		t.Error("it is not whole with room again")
	}
}

// TestDisk: the size and the free room are of the file system that a path is on.
func TestDisk(t *testing.T) {
	dir := harness.SmallDisk(t, "4m")
	total, free, err := reserve.Disk(dir)
	if err != nil || total != 4<<20 || free <= 0 || free > total {
		t.Errorf("%d of %d bytes are free, %v", free, total, err)
	}
	fill(t, filepath.Join(dir, "filler"))
	if _, free, err = reserve.Disk(filepath.Join(dir, "filler")); err != nil || free != 0 {
		t.Errorf("%d bytes of a full disk are free, %v", free, err)
	}
	if _, _, err := reserve.Disk(filepath.Join(dir, "none")); !errors.Is(err, unix.ENOENT) {
		t.Errorf("a disk of nothing: %v", err)
	}
}
