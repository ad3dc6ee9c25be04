package netns_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"drover/internal/test/harness"
	"drover/test/judge"
)

func letGo(t testing.TB, dir string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestI1_I2_I5_KillEachPart kills the server, each proxy and an agent while a command runs on a host behind proxies.
func TestI1_I2_I5_KillEachPart(t *testing.T) {
	r := newRig(t)
	for _, victim := range []string{"server", "north-p1", "north-p2", "north-a"} {
		p := r.daemon("north-a", "killed-"+victim)
		p.Control["reload_cmd"] = "echo reload >>run.log; until [ -e go ]; do sleep 0.05; done"
		r.does(p, judge.Start)
		pid := harness.ReadPID(t, judge.Dir(p)+"/d.pid")
		task := r.submit(p, judge.Reload)
		harness.Eventually(t, "the command to run", func() bool { return judge.Ran(p, "reload") == 1 })
		r.kill(victim)
		letGo(t, judge.Dir(p))
		if lanOf(victim) == north && victim != "north-a" {
			// The other proxy leads to the agent before this one is back.
			if got := r.outcome(p, task); got.Code != 0 {
				t.Errorf("%s killed: %d %s", victim, got.Code, got.Msg)
			}
		}
		r.restart(victim)
		if got := r.outcome(p, task); got.Code != 0 {
			t.Errorf("%s killed: %d %s", victim, got.Code, got.Msg)
		}
		if seen := r.settled(p); seen.PID != pid || !seen.Hosted || judge.Ran(p, "reload") != 1 ||
			judge.Ran(p, "start") != 1 {
			t.Errorf("%s killed: pid %d is %+v now, %d reloads, %d starts", victim, pid, seen, judge.Ran(p, "reload"),
				judge.Ran(p, "start"))
		}
		for _, name := range r.all() {
			r.Online(r.host(name))
		}
	}
}

// TestI1_I4_FullDisks fills the disk below a proxy and below an agent. (That of a server is test/faults'.)
func TestI1_I4_FullDisks(t *testing.T) {
	r := newRig(t)
	for _, full := range []string{"south-p1", "south-a"} {
		p := r.daemon("south-a", "full-"+full)
		r.does(p, judge.Start)
		r.kill(full)
		dir := r.AgentDir(full)
		moved := dir + ".moved"
		if err := os.Rename(dir, moved); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
			t.Fatal(err)
		}
		r.run("cp", "-a", moved+"/.", dir)
		r.restart(full)
		r.settled(p)
		filler := filepath.Join(dir, "filler")
		fill(t, filler)
		// What runs goes on being kept alive, and the host is reached, if not for operations.
		harness.Signal(t, harness.ReadPID(t, judge.Dir(p)+"/d.pid"), 9)
		harness.Eventually(t, "a relaunch", func() bool {
			return judge.Ran(p, "start") == 2 &&
				judge.Instances(t, judge.Dir(p)) == 1
		})
		if got := r.outcome(p, r.submit(p, judge.Query)); got.Code == 117 {
			t.Errorf("with the disk of %s full: %d %s", full, got.Code, got.Msg)
		}
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		harness.Eventually(t, "an operation once there is room",
			func() bool { return r.outcome(p, r.submit(p, judge.Reload)).Code == 0 })
		r.settled(p)
		r.does(p, judge.Stop)
		r.kill(full)
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(moved, dir); err != nil {
			t.Fatal(err)
		}
		r.restart(full)
	}
}

// fill writes until nothing more goes in.
func fill(t testing.TB, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 16; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
}

const randomTime = 20 * time.Second // if nothing is said

// TestI1_to_I8_RandomRun lets callers operate at random on hosts everywhere while links are cut and parts are killed.
func TestI1_to_I8_RandomRun(t *testing.T) {
	length, seed := judge.Choices(t, randomTime)
	r := newRig(t)
	end := time.Now().Add(length)
	for n := 0; n == 0 || time.Now().Before(end) && !t.Failed(); n++ {
		trouble := &trouble{rig: r}
		round := judge.Round{
			Post: r.post, Callers: 2, Random: rand.New(rand.NewPCG(seed, uint64(n))),
			Length: min(time.Minute, max(time.Until(end), 10*time.Second)),
			Cut:    true, Disturb: trouble.cause, Mend: trouble.mend,
		}
		for _, host := range r.all() {
			for i := range 2 {
				round.Processes = append(round.Processes, judge.Restless(r.daemon(host, fmt.Sprintf("r%d-p%d", n, i))))
			}
		}
		round.Run(t)
	}
}

// trouble is what was cut and not healed yet.
type trouble struct {
	*rig
	cuts []struct {
		link
		direction
	}
}

// cause kills a part and starts it again, or cuts a link, or heals one.
func (tr *trouble) cause(random *rand.Rand) {
	tr.t.Helper()
	switch random.IntN(5) {
	case 0:
		tr.strike("server")
	case 1:
		victims := slices.Concat(tr.all(), []string{"north-p1", "north-p2", "south-p1", "south-p2"})
		tr.strike(victims[random.IntN(len(victims))])
	case 2, 3:
		w := ways()[random.IntN(len(ways()))]
		c := struct {
			link
			direction
		}{w.links[random.IntN(len(w.links))], []direction{there, back, both}[random.IntN(3)]}
		tr.t.Logf("link %v is cut %s", c.link, c.direction)
		tr.cut(c.link, c.direction)
		tr.cuts = append(tr.cuts, c)
	case 4:
		tr.mend()
	}
}

// strike kills a part and starts it again.
func (tr *trouble) strike(victim string) {
	tr.t.Helper()
	tr.t.Logf("%s is killed", victim)
	tr.kill(victim)
	tr.restart(victim)
}

// mend heals every link.
func (tr *trouble) mend() {
	for _, c := range tr.cuts {
		tr.heal(c.link, c.direction)
	}
	tr.cuts = nil
}
