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
	// In place, as the kernel's files are: the sampler keeps them open.
	set := func(user, system, start, pages int) {
		t.Helper()
		stat := fmt.Sprintf(statFormat, 42, "prog", 'R', 42, 42, 0, user, system, 2, start, 8<<20, pages)
		if err := os.WriteFile(filepath.Join(root, "42/stat"), []byte(stat), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	use := func(user, system int) {
		t.Helper()
		set(user, system, 100, 25)
	}
	synctest.Test(t, func(t *testing.T) {
		s := procfs.NewSampler(f, 2)
		use(100, 0)
		first, _, err := s.Instance(id)
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
		second, _, err := s.Instance(id)
		if err != nil || second.CPU != 25 {
			t.Errorf("cpu %v %%, want 25: %v", second.CPU, err)
		}
		if second.StartedAt != first.StartedAt {
			t.Errorf("start moved from %d to %d", first.StartedAt, second.StartedAt)
		}
		time.Sleep(10 * time.Millisecond)
		use(152, 50)
		if soon, _, err := s.Instance(id); err != nil || soon.CPU != 25 {
			t.Errorf("cpu within a moment %v %%, want the last figure: %v", soon.CPU, err)
		}
		time.Sleep(990 * time.Millisecond)
		if later, _, err := s.Instance(id); err != nil || later.CPU != 1 {
			t.Errorf("cpu %v %%, want 1: %v", later.CPU, err)
		}
		if u, err := s.Use(id); err != nil ||
			u != (procfs.Use{CPU: 2020 * time.Millisecond, RSS: int64(25 * os.Getpagesize())}) {
			t.Errorf("it has used %+v, %v", u, err)
		}
		// The pid is used again, then free.
		set(0, 0, 999, 25)
		if _, _, err := s.Instance(id); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("of another process at the pid: %v", err)
		}
		if err := os.RemoveAll(filepath.Join(root, "42")); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Instance(id); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("of no process: %v", err)
		}
	})
}

// TestGlance: a process is worth a report when its use has moved.
func TestGlance(t *testing.T) {
	root := t.TempDir()
	write(t, root, fixture(100, 'S'))
	f := procfs.New(root)
	id, err := f.Identify(42)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		s := procfs.NewSampler(f, 2)
		ticks, pages, name, state := 0, 25, "prog", 'S'
		glance := func(what string, after time.Duration, want bool) {
			t.Helper()
			time.Sleep(after)
			stat := fmt.Sprintf(statFormat, 42, name, state, 42, 42, 0, ticks, 0, 2, 100, 8<<20, pages)
			if err := os.WriteFile(filepath.Join(root, "42/stat"), []byte(stat), 0o600); err != nil {
				t.Fatal(err)
			}
			if alive, moved := s.Glance(id); !alive || moved != want {
				t.Errorf("%s: alive %v, moved %v, want %v", what, alive, moved, want)
			}
		}
		instance := func() {
			t.Helper()
			if _, _, err := s.Instance(id); err != nil {
				t.Fatal(err)
			}
		}
		glance("before it was ever described", 0, true)
		instance()
		ticks += 1000
		name = "other"
		glance("another program", 0, true)
		instance()
		glance("the same program", 0, false)
		glance("within a second", 500*time.Millisecond, false)
		glance("busy", 29*time.Second, true)
		instance()
		glance("at rest again", 30*time.Second, true)
		instance()
		ticks++
		glance("all but idle", 30*time.Second, false)
		pages++ // of a machine of 1000 KiB
		glance("a little more memory", time.Second, false)
		pages += 100
		glance("more memory", time.Second, true)
		instance()
		glance("nothing new", time.Minute, false)
		state = 'T'
		glance("stopped by a signal", 0, true)
		instance()
		glance("still stopped", 0, false)
		state = 't'
		glance("held by a tracer", 0, true)
		instance()
		state = 'R'
		glance("it goes on", 0, false)

		write(t, root, fixture(100, 'Z')) // the held file says S
		s.Tidy()
		glance("as long as it is asked for", 0, false)
		time.Sleep(3 * time.Minute)
		s.Tidy()
		write(t, root, fixture(100, 'Z'))
		if alive, _ := s.Glance(id); alive {
			t.Error("a process that nobody asked for is remembered")
		}
	})
}

// TestHandles: on a real process, what is held is given back when it has ended.
func TestHandles(t *testing.T) {
	f := procfs.New("/proc")
	id, err := f.Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	open := func() int {
		t.Helper()
		names, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	s := procfs.NewSampler(f, 1)
	before := open()
	for range 3 {
		if alive, _ := s.Glance(id); !alive {
			t.Fatal("this process is not alive")
		}
		if n := open(); n != before+1 {
			t.Errorf("NEVER A FLAKE: %d descriptors are held, want 1", n-before)
		}
	}
	stranger := id
	stranger.StartTicks++
	if alive, _ := s.Glance(stranger); alive {
		t.Error("another process is taken for this one")
	}
	s.Forget(id)
	if n := open(); n != before {
		t.Errorf("%d descriptors are held after all", n-before)
	}
}

func TestSamplerOnSelf(t *testing.T) {
	f := procfs.New("/proc")
	id, err := f.Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := procfs.NewSampler(f, 0).Instance(id)
	if err != nil {
		t.Fatal(err)
	}
	if got.PID != os.Getpid() || got.CPU < 0 || got.CPU > 100 || got.CPUAverage > 100 || got.Mem <= 0 ||
		got.Mem > 100 ||
		got.RSS <= 0 || got.Elapsed < 0 || got.Elapsed > 600 {
		t.Errorf("got %+v", got)
	}
}

func TestHaltedSince(t *testing.T) {
	root := t.TempDir()
	f := procfs.New(root)
	set := func(state rune) {
		t.Helper()
		write(t, root, fixture(100, state))
	}
	set('T')
	id, err := f.Identify(42)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		s := procfs.NewSampler(f, 2)
		look := func(want int64) {
			t.Helper()
			if i, _, err := s.Instance(id); err != nil || i.Halted != want {
				t.Errorf("since %d, want %v: %v", i.Halted, want, err)
			}
		}
		began := time.Now().UnixMilli()
		look(began)
		time.Sleep(time.Minute)
		look(began)
		s.Forget(id) // a new look opens the file anew
		set('S')
		look(0)
		s.Forget(id)
		set('T')
		look(time.Now().UnixMilli())
	})
}
