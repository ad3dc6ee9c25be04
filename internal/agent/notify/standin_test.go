package notify_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"drover/internal/agent/notify"
	"drover/internal/test/harness"
)

// gap is a rig whose agent has ended, and whose stand-in listens.
func gap(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, path: newRig(t).path + "2", kept: filepath.Join(t.TempDir(), "kept"), runs: map[int]string{}}
	r.openIdle()
	r.leave()
	return r
}

// leave ends the agent and leaves a stand-in.
func (r *rig) leave() {
	r.t.Helper()
	for range 2 { // a second call changes nothing
		if err := r.StandIn(); err != nil {
			r.t.Fatal(err)
		}
	}
	if err := r.Close(); err != nil {
		r.t.Fatal(err)
	}
}

// TestStandIn: the next agent hears what processes have said while none ran, and no sender has waited for it.
func TestStandIn(t *testing.T) {
	r := gap(t)
	texts := []string{"STATUS=meanwhile", "READY=1\nSTOPPING=1\n" + strings.Repeat("x", 600)}
	for range 30 { // more than the kernel keeps
		texts = append(texts, "WATCHDOG=1")
	}
	main := r.sender("a", "stay", texts...).Process.Pid
	r.sender("a", "stay", "MAINPID="+strconv.Itoa(main))
	r.sender("", "stay", "READY=1")
	brief := r.sender("b", "brief", "READY=1")
	if err := brief.Wait(); err != nil {
		t.Fatal(err)
	}
	before := clock()
	r.openIdle()
	s, _ := r.State("a")
	if !s.Ready || !s.Stopping || s.Status != "meanwhile" || s.Main.PID != main || s.Watchdog < before {
		t.Errorf("%+v", s)
	}
	if run, ok := r.AwaitNotice(t.Context()); !ok || run != "a" {
		t.Errorf("heard of %q", run)
	}
	// A stranger, and one that has ended: nobody can tell which run it belonged to.
	if s, _ := r.State("b"); s.Ready || r.Ignored() != 2 {
		t.Errorf("%+v, %d ignored", s, r.Ignored())
	}
	r.leave()
	r.sender("a", "stay", "STATUS=again")
	r.sender("", "stay", "the last message may be heard twice")
	r.isKept("the last message")
	r.openIdle()
	if s, _ := r.State("a"); !s.Ready || s.Status != "again" {
		t.Errorf("%+v", s)
	}
	r.Keep(func(string) bool { return true }) // all is recorded
	r.leave()
	r.openIdle()
	if s, _ := r.State("a"); s.HasStatus {
		t.Errorf("%+v was dropped", s)
	}
	if pid := notify.StandsIn(r.kept); pid == 0 {
		t.Error("nobody stands in")
	}
}

// isKept waits until the stand-in has written a text.
func (r *rig) isKept(text string) {
	r.t.Helper()
	harness.Eventually(r.t, text+" in the file of the stand-in", func() bool {
		kept, err := os.ReadFile(r.kept)
		return err == nil && bytes.Contains(kept, []byte(text))
	})
}

// TestSocketThatACleanerRemoves: the listener listens again, hears those that are connected to the former socket, and
// the stand-in hears what comes to the new one.
func TestSocketThatACleanerRemoves(t *testing.T) {
	r := gap(t)
	run := r.openIdle()
	if notify.StandsIn(r.kept) == 0 {
		t.Fatal("nobody stands in")
	}
	former, err := net.Dial("unixgram", r.path)
	if err != nil {
		t.Fatal(err)
	}
	defer former.Close() //nolint:errcheck // the test is over
	r.mu.Lock()
	r.runs[os.Getpid()] = "former"
	r.mu.Unlock()
	if err := os.RemoveAll(filepath.Dir(r.path)); err != nil {
		t.Fatal(err)
	}
	run()
	harness.Eventually(t, "the socket", func() bool {
		_, err := os.Stat(r.path)
		return err == nil
	})
	harness.Eventually(t, "somebody who stands in", func() bool { return notify.StandsIn(r.kept) != 0 })
	r.sender("a", "stay", "READY=1")
	r.said("a", ready)
	if _, err := former.Write([]byte("READY=1")); err != nil {
		t.Fatal(err)
	}
	r.said("former", ready)
	if err := os.WriteFile(r.path+".other", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(r.path+".other", r.path); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the socket in place of a file", func() bool {
		info, err := os.Stat(r.path)
		return err == nil && info.Mode().Type() == os.ModeSocket
	})
	r.sender("b", "stay", "READY=1")
	r.said("b", ready)
}

// TestConnection: a connection to the socket lasts over the end of an agent, and over the next one. The word that the
// stand-in has heard last is never lost, whenever the stand-in is ended.
func TestConnection(t *testing.T) {
	r := gap(t)
	conn, err := net.Dial("unixgram", r.path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // nothing is kept in it
	r.mu.Lock()
	r.runs[os.Getpid()] = "a"
	r.mu.Unlock()
	says := func(text string) {
		t.Helper()
		if _, err := conn.Write([]byte("STATUS=" + text)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 20 {
		text := strconv.Itoa(i)
		says(text)
		r.openIdle()
		if i%2 == 0 { // the stand-in has perhaps heard the text, and perhaps not
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- r.Run(ctx) }()
			r.said("a", func(s notify.State) bool { return s.Status == text })
			says("heard")
			r.said("a", func(s notify.State) bool { return s.Status == "heard" })
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		r.leave()
	}
	if err := os.Remove(r.path); err != nil {
		t.Fatal(err)
	}
	r.openIdle()()
	r.sender("b", "stay", "READY=1") // a path that leads nowhere is made again
	r.said("b", ready)
}

// TestLaterProcess: a process counts as the sender of no message that is older than the process.
func TestLaterProcess(t *testing.T) {
	r := gap(t)
	r.sender("a", "stay", "READY=1")
	r.sender("b", "stay", "READY=1")
	var kept []byte
	for len(kept) < 2*notify.RecordLength {
		var err error
		if kept, err = os.ReadFile(r.kept); err != nil {
			t.Fatal(err)
		}
	}
	// The time of the first record is after the header of its control message (cmsg(3)).
	const at, day = 16, 24 * 60 * 60
	seconds := binary.NativeEndian.Uint64(kept[at:])
	binary.NativeEndian.PutUint64(kept[at:], seconds-day)
	if err := os.WriteFile(r.kept, kept, 0o600); err != nil {
		t.Fatal(err)
	}
	r.openIdle()
	earlier, _ := r.State("a")
	now, _ := r.State("b")
	if earlier.Ready || !now.Ready || r.Ignored() != 1 {
		t.Errorf("%+v, %+v, %d ignored", earlier, now, r.Ignored())
	}
}

// TestFullFile: a stand-in without room ends, and its senders go on.
func TestFullFile(t *testing.T) {
	r := gap(t)
	if err := os.Truncate(r.kept, notify.MaxKept); err != nil {
		t.Fatal(err)
	}
	if err := r.sender("a", "flood").Wait(); err != nil {
		t.Error(err)
	}
	if pid := notify.StandsIn(r.kept); pid != 0 {
		t.Errorf("pid %d stands in", pid)
	}
	r.openIdle()
	if err := r.StandIn(); err != nil {
		t.Error(err)
	}
}
