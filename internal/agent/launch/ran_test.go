package launch_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"drover/internal/agent/launch"
	"drover/internal/test/harness"
)

// proofs opens the proofs of an agent.
func proofs(t testing.TB, path string) *launch.Proofs {
	t.Helper()
	p, err := launch.OpenProofs(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// proof makes the proof of a command.
func proof(t testing.TB, path, id string) *os.File {
	t.Helper()
	f, err := proofs(t, path).Create(id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// ran reports what the next agent takes for true.
func ran(t testing.TB, path, id string) bool {
	t.Helper()
	return proofs(t, path).Ran(id)
}

// Whoever comes after the agent that started a command has only the file to tell by whether it ran.
func TestProofTellsWhetherTheCommandRan(t *testing.T) {
	for line, text := range map[string]string{
		"": "", "true": "", "exit 3": "", "if": "", "echo; echo a": "\na", "echo a": "a",
		// It has no descriptor of the proof.
		"echo x >&4": "", "echo - 1<>/proc/self/fd/4": "",
	} {
		dir := t.TempDir()
		out, err := launch.CreateOutput(dir, "out")
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "proof")
		c := command(t, line, out)
		c.Proof = proof(t, path, "run")
		child, err := forker().Start(c)
		if err != nil {
			t.Fatal(err)
		}
		successor, err := launch.OpenOutput(dir, "out")
		if err != nil {
			t.Fatal(err)
		}
		if ran(t, path, "run") {
			t.Errorf("%q ran behind its gate", line)
		}
		if err := child.Release(); err != nil {
			t.Fatal(err)
		}
		wait(t, child)
		if !ran(t, path, "run") {
			t.Errorf("%q did not run", line)
		}
		if got := successor.Text(); text != "" && got != text {
			t.Errorf("%q said %q, want %q", line, got, text)
		}
		_, _ = out.Close(), successor.Close()
	}
}

// Whatever becomes of the output, the proof stands: a command may empty what it writes to, and its output may be
// dropped.
func TestProofDoesNotDependOnTheOutput(t *testing.T) {
	path := filepath.Join(t.TempDir(), "proofs")
	out := output(t)
	c := command(t, "echo x; truncate --size 0 /proc/self/fd/1; exec >&- 2>&-", out)
	c.Proof = proof(t, path, "emptied")
	if status := do(t, c); status != 0 || out.Text() != "" || !ran(t, path, "emptied") {
		t.Errorf("wait status %#x, output %q", status, out.Text())
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	c = command(t, "echo x", output(t))
	c.Output, c.Proof = null, proof(t, path, "dropped")
	if status := do(t, c); status != 0 || !ran(t, path, "dropped") {
		t.Errorf("wait status %#x", status)
	}
}

func TestProofOfAnAbandonedCommand(t *testing.T) {
	out, path := output(t), filepath.Join(t.TempDir(), "proof")
	c := command(t, "echo ran", out)
	c.Proof = proof(t, path, "run")
	child, err := forker().Start(c)
	if err != nil {
		t.Fatal(err)
	}
	child.Abandon()
	wait(t, child)
	if ran(t, path, "run") || out.Text() != "" {
		t.Errorf("it ran: %q", out.Text())
	}
}

func TestCommandThatCannotLeaveItsProof(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	mark := filepath.Join(t.TempDir(), "ran")
	c := command(t, "echo > "+mark, output(t))
	c.Proof = full
	if status := do(t, c); status.ExitStatus() != launch.UnrunStatus {
		t.Errorf("wait status %#x", status)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("it ran")
	}
}

// A proof that was made has its room, and one that cannot be made leaves nothing.
func TestProofOnAFullDisk(t *testing.T) {
	dir := harness.SmallDisk(t, "64k")
	path := filepath.Join(dir, "proofs")
	p := proofs(t, path)
	early, err := p.Create("early")
	if err != nil {
		t.Fatal(err)
	}
	defer early.Close()
	c := command(t, "true", output(t))
	c.Proof = early
	if err := os.WriteFile(filepath.Join(dir, "all"), make([]byte, 1<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	late := ""
	for n := 0; err == nil && n < 1000; n++ {
		late = strconv.Itoa(n)
		var f *os.File
		if f, err = p.Create(late); err == nil {
			_ = f.Close()
		}
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Errorf("all were made: %v", err)
	}
	if slices.Contains(p.IDs(), late) || slices.Contains(proofs(t, path).IDs(), late) {
		t.Error("half of one was left")
	}
	if status := do(t, c); status != 0 || !ran(t, path, "early") {
		t.Errorf("wait status %#x", status)
	}
}

// Proofs that were removed give their slots to new ones, and what no agent has written is no proof.
func TestProofsShareAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "proofs")
	p := proofs(t, path)
	make := func(ids ...string) {
		t.Helper()
		for _, id := range ids {
			f, err := p.Create(id)
			if err != nil {
				t.Fatal(err)
			}
			_ = f.Close()
		}
	}
	is := func(want ...string) {
		t.Helper()
		for _, p := range []*launch.Proofs{p, proofs(t, path)} {
			got := p.IDs()
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("proofs of %q, want %q", got, want)
			}
			for _, id := range want {
				if p.Ran(id) {
					t.Errorf("%s ran", id)
				}
			}
		}
	}
	make("a", "b", "c")
	if err := errors.Join(p.Remove("b"), p.Remove("unknown")); err != nil {
		t.Error(err)
	}
	is("a", "c")
	if !p.Ran("b") {
		t.Error("a command whose proof is lost may have run")
	}
	make("d", "a")
	is("a", "c", "d")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() != 3*64 {
		t.Errorf("the file has %d bytes", info.Size())
	}
	if _, err := p.Create(strings.Repeat("x", 64)); err == nil {
		t.Error("a long id was taken")
	}
	damaged := strings.Repeat("x", 100)
	for _, text := range []string{"-", "-..", "-.hidden", "-../state.db", "\n/etc/passwd", "-a\x00b"} {
		damaged = text + strings.Repeat("\x00", 64-len(text)) + damaged
	}
	if err := os.WriteFile(path, []byte(damaged), 0o600); err != nil {
		t.Fatal(err)
	}
	p = proofs(t, path)
	is()
	make("e", "f", "g")
	is("e", "f", "g")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	make("h")
	if p.Ran("h") || !proofs(t, path).Ran("h") {
		t.Error("without the file, this agent knows its proofs, and the next one does not")
	}
}

// TestDamagedProofs: a file of proofs that is far too long does not keep the next agent from its work, and neither does
// one that is full. The proofs in its slots count.
func TestDamagedProofs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "proofs")
	p := proofs(t, path)
	for _, id := range []string{"a", "b"} {
		f, err := p.Create(id)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString("\n"); err != nil || f.Close() != nil {
			t.Fatal(err)
		}
	}
	const bound = 16 << 20
	if err := os.Truncate(path, 8<<40); err != nil {
		t.Logf("this file system has no file of 8 TiB: %v", err)
		if err := os.Truncate(path, 1<<40); err != nil {
			t.Fatal(err)
		}
	}
	p = proofs(t, path)
	if got := p.IDs(); len(got) != 2 || !p.Ran("a") || !p.Ran("b") {
		t.Errorf("it has the proofs %v", got)
	}
	if f, err := p.Create("c"); err != nil {
		t.Error(err)
	} else if f.Close() != nil || p.Ran("c") || proofs(t, path).Ran("c") {
		t.Error("a new proof does not count")
	}
	info, err := os.Stat(path)
	if err != nil || info.Size() != bound {
		t.Fatalf("the file has %d bytes, %v", info.Size(), err)
	}
	full := make([]byte, bound)
	for at := 0; at < bound; at += 64 {
		copy(full[at:], "-"+strconv.Itoa(at))
	}
	if err := os.WriteFile(path, full, 0o600); err != nil {
		t.Fatal(err)
	}
	p = proofs(t, path)
	for range 2 {
		if _, err := p.Create("d"); err == nil || !strings.Contains(err.Error(), "too many commands are under way") {
			t.Errorf("a full file takes another: %v", err)
		}
	}
	if err := p.Remove("0"); err != nil {
		t.Fatal(err)
	}
	f, err := p.Create("d")
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	if info, err := os.Stat(path); err != nil || info.Size() != bound || proofs(t, path).Ran("d") {
		t.Errorf("the file has %d bytes, %v", info.Size(), err)
	}
}

// BenchmarkProofs makes and removes a thousand proofs, in slots and in a file for each.
func BenchmarkProofs(b *testing.B) {
	const many = 1000
	ids := make([]string, many)
	for i := range ids {
		ids[i] = "0123456789ab-" + strconv.Itoa(i) + "-p"
	}
	all := func(b *testing.B, create func(id string) (*os.File, error), remove func(id string) error) {
		b.Helper()
		for b.Loop() {
			for _, id := range ids {
				f, err := create(id)
				if err != nil {
					b.Fatal(err)
				}
				_ = f.Close()
			}
			for _, id := range ids {
				if err := remove(id); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	b.Run("slots", func(b *testing.B) {
		p := proofs(b, filepath.Join(b.TempDir(), "proofs"))
		all(b, p.Create, p.Remove)
	})
	b.Run("files", func(b *testing.B) {
		dir := b.TempDir()
		all(b, func(id string) (*os.File, error) {
			f, err := os.OpenFile(filepath.Join(dir, id), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
			if err == nil {
				_, err = f.WriteAt([]byte{'-'}, 0)
			}
			return f, err
		}, func(id string) error { return os.Remove(filepath.Join(dir, id)) })
	})
}

func TestOpenOutputOfNoCommand(t *testing.T) {
	if _, err := launch.OpenOutput(t.TempDir(), "out"); err == nil {
		t.Error("it was opened")
	}
}

// TestExecuting: a command that cannot be executed never looks like one that runs.
func TestExecuting(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("exit 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, runs := range map[string]bool{
		"exec /nonexistent a": false, "exec nonexistent": false, "exec " + script: false, "exec sleep 60": true,
	} {
		child, err := forker().Start(command(t, line, output(t)))
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Release(); err != nil {
			t.Fatal(err)
		}
		pid := child.Identity().PID
		for launch.Executing(live(), pid) {
			runtime.Gosched()
		}
		info, err := live().Info(pid)
		if alive := err == nil && !info.Zombie(); alive != runs {
			t.Errorf("%q runs: %t, want %t", line, alive, runs)
		}
		if runs {
			if err := unix.Kill(child.Identity().PID, unix.SIGKILL); err != nil {
				t.Error(err)
			}
		}
		wait(t, child)
	}
}
