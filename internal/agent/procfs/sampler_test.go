package procfs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"drover/internal/agent/procfs"
)

func TestSampler(t *testing.T) {
	root := t.TempDir()
	write(t, root, fixture(100, 'S'))
	f := procfs.New(root)
	id, err := f.Identify(42)
	if err != nil {
		t.Fatal(err)
	}
	use := func(user, system int) {
		t.Helper()
		write(t, root, map[string]string{
			"42/stat": fmt.Sprintf(statFormat, 42, "prog", 'R', 42, 42, 0, user, system, 2, 100, 8<<20, 25),
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := procfs.NewSampler(f, 2)
		use(100, 0)
		first, err := s.Instance(id)
		if err != nil {
			t.Fatal(err)
		}
		if first.PID != 42 || first.Stat != "R" || first.Cmdline != "/bin/prog -v" || first.Threads != 2 ||
			first.VSize != 8<<10 || first.RSS != int64(25*os.Getpagesize())>>10 || first.UserTime != 1 {
			t.Errorf("first look: %+v", first)
		}
		if want := float64(25*os.Getpagesize()) / 1024 / 10; first.Mem != want {
			t.Errorf("memory %v %%, want %v", first.Mem, want)
		}
		time.Sleep(2 * time.Second)
		use(150, 50) // 1 s of 2 s on one of two processors
		second, err := s.Instance(id)
		if err != nil || second.CPU != 25 {
			t.Errorf("cpu %v %%, want 25: %v", second.CPU, err)
		}
		if second.StartedAt != first.StartedAt {
			t.Errorf("start moved from %d to %d", first.StartedAt, second.StartedAt)
		}
		time.Sleep(10 * time.Millisecond)
		use(152, 50)
		if soon, err := s.Instance(id); err != nil || soon.CPU != 25 {
			t.Errorf("cpu within a moment %v %%, want the last figure: %v", soon.CPU, err)
		}
		time.Sleep(990 * time.Millisecond)
		if later, err := s.Instance(id); err != nil || later.CPU != 1 {
			t.Errorf("cpu %v %%, want 1: %v", later.CPU, err)
		}
		// The pid is used again, then free.
		write(t, root, fixture(999, 'S'))
		if _, err := s.Instance(id); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("of another process at the pid: %v", err)
		}
		if err := os.RemoveAll(filepath.Join(root, "42")); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Instance(id); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("of no process: %v", err)
		}
	})
}

func TestSamplerOnSelf(t *testing.T) {
	f := procfs.New("/proc")
	id, err := f.Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	got, err := procfs.NewSampler(f, 0).Instance(id)
	if err != nil {
		t.Fatal(err)
	}
	if got.PID != os.Getpid() || got.CPU < 0 || got.CPU > 100 || got.CPUAverage > 100 || got.Mem <= 0 || got.Mem > 100 ||
		got.RSS <= 0 || got.Elapsed < 0 || got.Elapsed > 600 {
		t.Errorf("got %+v", got)
	}
}
