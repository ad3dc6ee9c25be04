package specstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"drover/internal/agent/record"
	"drover/internal/agent/specstore"
	"drover/internal/process"
)

// TestAcceptIsIdempotent: an item that comes again is answered with what is known of it.
func TestAcceptIsIdempotent(t *testing.T) {
	s := open(t, t.TempDir(), boot)
	fresh, known := accept(t, s, entry("item-1", 1), entry("item-2", 2), entry("item-1", 9))
	want(t, "fresh", items(fresh), []string{"item-1", "item-2"})
	want(t, "known", items(known), []string{"item-1"})
	want(t, "process of the known one", known[0].Process, id(1))
	finish(t, s, "item-1", 1, success(), specstore.Change{})
	fresh, known = accept(t, s, entry("item-3", 3), entry("item-1", 1), entry("item-2", 2))
	want(t, "fresh", items(fresh), []string{"item-3"})
	want(t, "known", items(known), []string{"item-1", "item-2"})
	if known[0].Outcome == nil || known[0].Outcome.Text != process.Success || known[1].Outcome != nil {
		t.Errorf("known entries %+v", known)
	}
	open, unacked := journal(t, s)
	want(t, "open", open, []string{"item-2", "item-3"})
	want(t, "unacknowledged", unacked, []string{"item-1"})
	if fresh, known := accept(t, s); fresh != nil || known != nil {
		t.Errorf("nothing is accepted as %v, %v", fresh, known)
	}
}

func TestKnown(t *testing.T) {
	s := open(t, t.TempDir(), boot)
	accept(t, s, entry("item-1", 1), entry("item-2", 2))
	finish(t, s, "item-1", 1, success(), specstore.Change{})
	known, err := s.Entries([]string{"item-2", "item-3", "item-1"})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "known", items(known), []string{"item-2", "item-1"})
	if known[0].Outcome != nil || known[1].Outcome == nil {
		t.Errorf("known entries %+v", known)
	}
}

// TestAcceptOfTheKnownCommits: that nothing new is accepted still writes a meta page, by which a commit stands whose
// own could not be synced.
func TestAcceptOfTheKnownCommits(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, boot)
	meta := func() string {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(dir, "state.db"))
		if err != nil {
			t.Fatal(err)
		}
		return string(data[:2*os.Getpagesize()])
	}
	accept(t, s, entry("item-1", 1))
	before := meta()
	if _, err := s.Entries([]string{"item-1"}); err != nil || meta() != before {
		t.Errorf("a look is a commit, or fails: %v", err)
	}
	accept(t, s, entry("item-1", 1))
	if meta() == before {
		t.Error("nothing was written")
	}
}

// TestFinishKeepsTheFirstOutcome, and the record that came with it.
func TestFinishKeepsTheFirstOutcome(t *testing.T) {
	s := open(t, t.TempDir(), boot)
	accept(t, s, entry("item-1", 1))
	rec, other := recordOf(1), recordOf(1)
	other.Revision, other.Hosted = 8, false
	finish(t, s, "item-1", 1, success(), specstore.Change{Put: &rec})
	finish(t, s, "item-1", 1, process.Outcome{Fault: process.Failed, Text: "late"}, specstore.Change{Put: &other})
	finish(t, s, "item-1", 1, process.Outcome{Fault: process.Failed, Text: "late"}, specstore.Change{Delete: true})
	_, unacked, err := s.Journal()
	if err != nil || len(unacked) != 1 || unacked[0].Outcome.Text != process.Success {
		t.Errorf("entries %+v, %v", unacked, err)
	}
	records, _ := s.Records()
	want(t, "records", records, []record.Record{rec})
	if err := s.Finish("item-2", id(1), success(), specstore.Change{Put: &other}); err == nil ||
		!strings.Contains(err.Error(), "item item-2 is not in the journal") {
		t.Errorf("an item that was never accepted: %v", err)
	}
	records, _ = s.Records()
	want(t, "records", records, []record.Record{rec})
}

func TestFinishDropsTheProgress(t *testing.T) {
	s := open(t, t.TempDir(), boot)
	accept(t, s, entry("item-1", 1), entry("item-2", 1))
	for _, item := range []string{"item-1", "item-2"} {
		if err := s.PutProgress(item, record.Progress{Checked: true}); err != nil {
			t.Fatal(err)
		}
	}
	finish(t, s, "item-1", 1, success(), specstore.Change{})
	for item, checked := range map[string]bool{"item-1": false, "item-2": true} {
		if p, err := s.GetProgress(item); err != nil || p.Checked != checked {
			t.Errorf("progress of %s: %+v, %v", item, p, err)
		}
	}
}

func TestFinishDeletes(t *testing.T) {
	s := open(t, t.TempDir(), boot)
	if err := errors.Join(s.PutRecord(recordOf(1)), s.PutRecord(recordOf(2)),
		s.PutRuntime(id(1), record.Runtime{Run: "r"})); err != nil {
		t.Fatal(err)
	}
	accept(t, s, entry("item-1", 1))
	finish(t, s, "item-1", 1, success(), specstore.Change{Delete: true})
	records, _ := s.Records()
	want(t, "records", records, []record.Record{recordOf(2)})
	if err := s.DeleteRuntime(id(1)); err != nil {
		t.Fatal(err)
	}
	rt, err := s.GetRuntime(id(1))
	want(t, "error", err, nil)
	want(t, "runtime", rt, record.Runtime{})
}

// uptime is how long the host has been up.
const uptime = 100 * time.Hour

// TestPruneByBoot: what another boot has left goes by the wall clock.
func TestPruneByBoot(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	s := open(t, dir, boot)
	command := entry("command", 1)
	command.BeginBy, command.Expires = uptime-2*time.Hour, now.Add(-2*time.Hour)
	accept(t, s, command)
	finish(t, s, command.Item, 1, success(), specstore.Change{})
	if err := s.Acknowledge([]string{command.Item}); err != nil {
		t.Fatal(err)
	}
	prune := func(s *specstore.Store, age specstore.Age) (left []string) {
		age.Keep = 24 * time.Hour
		if err := s.Prune(age); err != nil {
			t.Fatal(err)
		}
		_, known := accept(t, s, command)
		return items(known)
	}
	want(t, "left after two hours", prune(s, specstore.Age{SinceBoot: uptime, Wall: now}), []string{"command"})
	close(t, s)
	s = open(t, dir, "another boot")
	want(t, "left after a reboot", prune(s, specstore.Age{SinceBoot: time.Minute, Wall: now}), []string{"command"})
	want(t, "left two days after it", prune(s, specstore.Age{SinceBoot: time.Minute, Wall: now.Add(48 * time.Hour)}),
		[]string{})
}

// TestNewestManifest: it is there again after a restart.
func TestNewestManifest(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, boot)
	if at, err := s.NewestManifest(); err != nil || !at.IsZero() {
		t.Errorf("in a new file: %v, %v", at, err)
	}
	at := time.Now().Round(0)
	if err := errors.Join(s.NoteManifest(at), s.Close()); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, "another boot")
	if got, err := s.NewestManifest(); err != nil || !got.Equal(at) {
		t.Errorf("got %v, %v, want %v", got, err, at)
	}
}

func TestPrune(t *testing.T) {
	s := open(t, t.TempDir(), boot)
	now := time.Now()
	for item, age := range map[string]time.Duration{
		"old-open": time.Hour, "old-unacked": time.Hour,
		"old-acked": time.Hour, "new-acked": time.Minute,
	} {
		e := entry(item, 1)
		e.BeginBy, e.Expires = uptime-age, now.Add(24*time.Hour) // the wall clock was stepped: it does not count
		accept(t, s, e)
		if item != "old-open" {
			finish(t, s, item, 1, success(), specstore.Change{})
		}
	}
	if err := s.Acknowledge([]string{"old-acked", "new-acked"}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Prune(specstore.Age{SinceBoot: uptime, Wall: now, Keep: 30 * time.Minute}); err != nil {
			t.Fatal(err)
		}
		open, unacked := journal(t, s)
		want(t, "open", open, []string{"old-open"})
		want(t, "unacknowledged", unacked, []string{"old-unacked"})
	}
	fresh, known := accept(t, s, entry("old-acked", 1), entry("new-acked", 1))
	want(t, "fresh", items(fresh), []string{"old-acked"})
	want(t, "known", items(known), []string{"new-acked"})
	if known[0].Spec != nil {
		t.Error("the spec of an acknowledged operation is kept: it is of no use and may be large")
	}
}

// TestAcknowledgementsRideAlong: an acknowledgement costs no write of its own. A crash before the next change loses it,
// so the next agent reports the outcome once more.
func TestAcknowledgementsRideAlong(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, boot)
	accept(t, s, entry("item-1", 1))
	finish(t, s, "item-1", 1, success(), specstore.Change{})
	state, err := os.ReadFile(filepath.Join(dir, "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Acknowledge([]string{"item-1"}); err != nil {
		t.Fatal(err)
	}
	_, unacked := journal(t, s)
	want(t, "unacknowledged", unacked, []string{})
	// crashed is the unacknowledged entries that an agent finds that starts now.
	crashed := func() []string {
		state, err := os.ReadFile(filepath.Join(dir, "state.db"))
		if err != nil {
			t.Fatal(err)
		}
		fresh := t.TempDir()
		if err := os.WriteFile(filepath.Join(fresh, "state.db"), state, 0o600); err != nil {
			t.Fatal(err)
		}
		next := open(t, fresh, boot)
		defer close(t, next)
		_, unacked := journal(t, next)
		return unacked
	}
	want(t, "unacknowledged after a crash", crashed(), []string{"item-1"})
	now, err := os.ReadFile(filepath.Join(dir, "state.db"))
	if err != nil || !bytes.Equal(state, now) {
		t.Errorf("the acknowledgement was written by itself: %v", err)
	}
	accept(t, s, entry("item-2", 2))
	want(t, "unacknowledged after a change and a crash", crashed(), []string{})
	finish(t, s, "item-2", 2, success(), specstore.Change{})
	if err := s.Acknowledge([]string{"item-2"}); err != nil {
		t.Fatal(err)
	}
	close(t, s)
	want(t, "unacknowledged after Close", crashed(), []string{})
}

// TestOrder: the journal is read in the order in which entries were accepted, many times over.
func TestOrder(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, boot)
	var accepted []string
	for i := range 60 {
		item := fmt.Sprintf("%d", (i*7919)%1000) // neither rising nor falling
		accept(t, s, entry(item, i))
		accepted = append(accepted, item)
		if i == 30 {
			close(t, s)
			s = open(t, dir, boot)
		}
	}
	got, _ := journal(t, s)
	want(t, "order", got, accepted)
}

// TestConcurrentUse: every item is fresh exactly once, whoever sends it, and has one outcome.
func TestConcurrentUse(t *testing.T) {
	s := open(t, t.TempDir(), boot)
	var mu sync.Mutex
	fresh := map[string]int{}
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range 25 {
				item := fmt.Sprintf("item-%d", i)
				got, _, err := s.Accept([]record.Entry{
					entry(item, i),
					entry(fmt.Sprintf("own-%d-%d", worker, i), i),
				})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for _, e := range got {
					fresh[e.Item]++
				}
				mu.Unlock()
				rec := recordOf(i)
				if err := errors.Join(
					s.Finish(item, id(i), process.Outcome{Text: fmt.Sprint(worker)}, specstore.Change{Put: &rec}),
					s.PutRuntime(id(i), record.Runtime{Attempts: worker}),
					s.PutProgress("relaunch", record.Progress{}),
					s.Acknowledge([]string{fmt.Sprintf("own-%d-%d", worker, i)}),
				); err != nil {
					t.Error(err)
				}
				if _, err := s.GetRuntime(id(i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if len(fresh) != 25+8*25 {
		t.Errorf("%d items, want %d", len(fresh), 25+8*25)
	}
	for item, n := range fresh {
		if n != 1 {
			t.Errorf("%s was fresh %d times", item, n)
		}
	}
	_, unacked, err := s.Journal()
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(unacked, func(a, b record.Entry) int { return strings.Compare(a.Item, b.Item) })
	if len(unacked) != 25 {
		t.Errorf("%d entries have an outcome, want 25", len(unacked))
	}
}
