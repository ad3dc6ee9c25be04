package specstore_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"drover/internal/agent/procfs"
	"drover/internal/agent/specstore"
	"drover/internal/process"
)

const boot = "boot-1"

// open opens the store in dir until the test ends.
func open(t *testing.T, dir, boot string) *specstore.Store {
	t.Helper()
	s, err := specstore.Open(dir, boot)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func close(t *testing.T, s *specstore.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func id(n int) process.ID { return process.ID{Namespace: "ns", Name: fmt.Sprintf("p%d", n)} }

func record(n int) specstore.Record {
	return specstore.Record{
		ID: id(n), Hosted: true, Want: process.WantRunning, GivenUp: n%2 == 0, RegisteredAt: 1, Revision: 7,
		Spec: process.Spec{Identity: process.Identity{ProcName: "nginx"}, Labels: []byte(`{"a":[1,null]}`), Policy: process.Policy{}.Defaulted()},
	}
}

func entry(item string, n int) specstore.Entry {
	s := record(n).Spec
	return specstore.Entry{Item: item, Process: id(n), Op: process.Start, Spec: &s, BeginBy: uptime + time.Minute, Expires: time.Now().Add(time.Minute).UTC()}
}

func accept(t *testing.T, s *specstore.Store, entries ...specstore.Entry) (fresh, known []specstore.Entry) {
	t.Helper()
	fresh, known, err := s.Accept(entries)
	if err != nil {
		t.Fatal(err)
	}
	return fresh, known
}

func finish(t *testing.T, s *specstore.Store, item string, n int, o process.Outcome, c specstore.Change) {
	t.Helper()
	if err := s.Finish(item, id(n), o, c); err != nil {
		t.Fatal(err)
	}
}

// journal returns the items of the open and of the unacknowledged entries.
func journal(t *testing.T, s *specstore.Store) (open, unacked []string) {
	t.Helper()
	o, u, err := s.Journal()
	if err != nil {
		t.Fatal(err)
	}
	return items(o), items(u)
}

func items(entries []specstore.Entry) []string {
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Item)
	}
	return names
}

func want(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got): %s", what, diff)
	}
}

func success() process.Outcome { return process.Outcome{Text: process.Success, Hosted: true} }

// TestReopen: everything is there again for the next agent of the same boot.
func TestReopen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	s := open(t, dir, boot)
	accept(t, s, entry("item-1", 1), entry("item-2", 2), entry("item-3", 3))
	rec := record(1)
	finish(t, s, "item-1", 1, success(), specstore.Change{Put: &rec})
	finish(t, s, "item-2", 2, process.Outcome{Fault: process.Failed, Text: "no"}, specstore.Change{})
	if err := s.Acknowledge([]string{"item-2", "never-heard-of"}); err != nil {
		t.Fatal(err)
	}
	who := procfs.Identity{BootID: boot, PID: 4711, StartTicks: 99}
	rt := specstore.Runtime{Process: &who, Run: "r", PIDFile: "/f", LastStartAt: 5, Attempts: 2, LaunchedAt: 3, RetryAt: 4, LastExit: "x", Outside: true, Note: "n"}
	progress := specstore.Progress{Checked: true, Before: &who, Steps: []specstore.Step{{
		Name: "start", Phase: specstore.Done, Run: "r", Child: who, Until: 7, DoneAt: 8,
		Result: &specstore.CommandResult{Known: true, Code: 3, Text: "exit status 3", Output: "\x00\xffbytes"},
	}}}
	if err := errors.Join(s.PutRuntime(id(1), rt), s.PutProgress("item-3", progress)); err != nil {
		t.Fatal(err)
	}
	close(t, s)

	s = open(t, dir, boot)
	records, err := s.Records()
	if err != nil {
		t.Fatal(err)
	}
	want(t, "records", records, []specstore.Record{rec})
	open, unacked, err := s.Journal()
	if err != nil {
		t.Fatal(err)
	}
	first, third := entry("item-1", 1), entry("item-3", 3)
	outcome := success()
	first.Boot, third.Boot, first.Outcome = boot, boot, &outcome
	for _, c := range []struct{ got, want []specstore.Entry }{{open, []specstore.Entry{third}}, {unacked, []specstore.Entry{first}}} {
		if diff := cmp.Diff(c.want, c.got, cmpopts.EquateApproxTime(time.Minute)); diff != "" {
			t.Errorf("journal (-want +got): %s", diff)
		}
	}
	gotRuntime, err := s.GetRuntime(id(1))
	want(t, "error", err, nil)
	want(t, "runtime", gotRuntime, rt)
	gotProgress, err := s.GetProgress("item-3")
	want(t, "error", err, nil)
	progress.Steps[0].Result.Output = "\x00\ufffdbytes" // text, not bytes
	want(t, "progress", gotProgress, progress)
	want(t, "boot", s.BootID(), boot)
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory has mode %v, %v", info.Mode(), err)
	}
}

// TestAnotherBoot: what a reboot makes meaningless is gone, and nothing else.
func TestAnotherBoot(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, boot)
	accept(t, s, entry("item-1", 1))
	if err := errors.Join(
		s.PutRecord(record(1)), s.PutRuntime(id(1), specstore.Runtime{Run: "r"}), s.PutProgress("item-1", specstore.Progress{Checked: true}),
	); err != nil {
		t.Fatal(err)
	}
	if offset, err := s.ClockOffset(time.Hour); offset != time.Hour || err != nil {
		t.Errorf("the first clock offset is %v, %v", offset, err)
	}
	close(t, s)

	s = open(t, dir, boot)
	if offset, err := s.ClockOffset(2 * time.Hour); offset != time.Hour || err != nil {
		t.Errorf("the clock offset of the same boot is %v, %v", offset, err)
	}
	close(t, s)

	s = open(t, dir, "boot-2")
	rt, err := s.GetRuntime(id(1))
	want(t, "error", err, nil)
	want(t, "runtime", rt, specstore.Runtime{})
	progress, err := s.GetProgress("item-1")
	want(t, "error", err, nil)
	want(t, "progress", progress, specstore.Progress{})
	if offset, err := s.ClockOffset(3 * time.Hour); offset != 3*time.Hour || err != nil {
		t.Errorf("the clock offset of another boot is %v, %v", offset, err)
	}
	records, err := s.Records()
	want(t, "error", err, nil)
	want(t, "records", records, []specstore.Record{record(1)})
	open, _, err := s.Journal()
	if err != nil || len(open) != 1 || open[0].Boot != boot {
		t.Errorf("open entries %+v, %v: want one of the first boot", open, err)
	}
	fresh, _ := accept(t, s, entry("item-2", 1))
	if len(fresh) != 1 {
		t.Fatal("a new item is not fresh")
	}
	open, _, _ = s.Journal()
	want(t, "boot of the new item", open[1].Boot, "boot-2")
}

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

// TestFinishKeepsTheFirstOutcome, and the record that came with it.
func TestFinishKeepsTheFirstOutcome(t *testing.T) {
	s := open(t, t.TempDir(), boot)
	accept(t, s, entry("item-1", 1))
	rec, other := record(1), record(1)
	other.Revision, other.Hosted = 8, false
	finish(t, s, "item-1", 1, success(), specstore.Change{Put: &rec})
	finish(t, s, "item-1", 1, process.Outcome{Fault: process.Failed, Text: "late"}, specstore.Change{Put: &other})
	finish(t, s, "item-1", 1, process.Outcome{Fault: process.Failed, Text: "late"}, specstore.Change{Delete: true})
	_, unacked, err := s.Journal()
	if err != nil || len(unacked) != 1 || unacked[0].Outcome.Text != process.Success {
		t.Errorf("entries %+v, %v", unacked, err)
	}
	records, _ := s.Records()
	want(t, "records", records, []specstore.Record{rec})
	if err := s.Finish("item-2", id(1), success(), specstore.Change{Put: &other}); err == nil || !strings.Contains(err.Error(), "item item-2 is not in the journal") {
		t.Errorf("an item that was never accepted: %v", err)
	}
	records, _ = s.Records()
	want(t, "records", records, []specstore.Record{rec})
}

func TestFinishDropsTheProgress(t *testing.T) {
	s := open(t, t.TempDir(), boot)
	accept(t, s, entry("item-1", 1), entry("item-2", 1))
	for _, item := range []string{"item-1", "item-2"} {
		if err := s.PutProgress(item, specstore.Progress{Checked: true}); err != nil {
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
	if err := errors.Join(s.PutRecord(record(1)), s.PutRecord(record(2)), s.PutRuntime(id(1), specstore.Runtime{Run: "r"})); err != nil {
		t.Fatal(err)
	}
	accept(t, s, entry("item-1", 1))
	finish(t, s, "item-1", 1, success(), specstore.Change{Delete: true})
	records, _ := s.Records()
	want(t, "records", records, []specstore.Record{record(2)})
	if err := s.DeleteRuntime(id(1)); err != nil {
		t.Fatal(err)
	}
	rt, err := s.GetRuntime(id(1))
	want(t, "error", err, nil)
	want(t, "runtime", rt, specstore.Runtime{})
}

// uptime is how long the host has been up.
const uptime = 100 * time.Hour

// TestPruneByKindAndBoot: questions go before commands, and what another boot has left goes by the wall clock.
func TestPruneByKindAndBoot(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	s := open(t, dir, boot)
	question, command := entry("question", 1), entry("command", 1)
	question.Op = process.Query
	for _, e := range []*specstore.Entry{&question, &command} {
		e.BeginBy, e.Expires = uptime-2*time.Hour, now.Add(-2*time.Hour)
		accept(t, s, *e)
		finish(t, s, e.Item, 1, success(), specstore.Change{})
	}
	if err := s.Acknowledge([]string{"question", "command"}); err != nil {
		t.Fatal(err)
	}
	prune := func(s *specstore.Store, age specstore.Age) (left []string) {
		age.Questions, age.Commands = time.Hour, 24*time.Hour
		if err := s.Prune(age); err != nil {
			t.Fatal(err)
		}
		_, known := accept(t, s, question, command)
		return items(known)
	}
	want(t, "left after two hours", prune(s, specstore.Age{SinceBoot: uptime, Wall: now}), []string{"command"})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, "another boot")
	want(t, "left after a reboot", prune(s, specstore.Age{SinceBoot: time.Minute, Wall: now}), []string{"question", "command"})
	want(t, "left two days after it", prune(s, specstore.Age{SinceBoot: time.Minute, Wall: now.Add(48 * time.Hour)}), []string{"question"})
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
	for item, age := range map[string]time.Duration{"old-open": time.Hour, "old-unacked": time.Hour, "old-acked": time.Hour, "new-acked": time.Minute} {
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
		if err := s.Prune(specstore.Age{SinceBoot: uptime, Wall: now, Questions: time.Minute, Commands: 30 * time.Minute}); err != nil {
			t.Fatal(err)
		}
		open, unacked := journal(t, s)
		want(t, "open", open, []string{"old-open"})
		want(t, "unacknowledged", unacked, []string{"old-unacked"})
	}
	fresh, known := accept(t, s, entry("old-acked", 1), entry("new-acked", 1))
	want(t, "fresh", items(fresh), []string{"old-acked"})
	want(t, "known", items(known), []string{"new-acked"})
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
				got, _, err := s.Accept([]specstore.Entry{entry(item, i), entry(fmt.Sprintf("own-%d-%d", worker, i), i)})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for _, e := range got {
					fresh[e.Item]++
				}
				mu.Unlock()
				rec := record(i)
				if err := errors.Join(
					s.Finish(item, id(i), process.Outcome{Text: fmt.Sprint(worker)}, specstore.Change{Put: &rec}),
					s.PutRuntime(id(i), specstore.Runtime{Attempts: worker}), s.PutProgress("relaunch", specstore.Progress{}),
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
	slices.SortFunc(unacked, func(a, b specstore.Entry) int { return strings.Compare(a.Item, b.Item) })
	if len(unacked) != 25 {
		t.Errorf("%d entries have an outcome, want 25", len(unacked))
	}
}
