package specstore_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"drover/internal/agent/instance"
	"drover/internal/agent/record"
	"drover/internal/agent/specstore"
	"drover/internal/process"
	"drover/internal/spec"
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

func recordOf(n int) record.Record {
	return record.Record{
		ID: id(n), Hosted: true, Want: process.WantRunning, GivenUp: n%2 == 0, RegisteredAt: 1, Revision: 7,
		Spec: process.Spec{
			ProcessName: "nginx", Compat: &spec.Compat{Labels: `{"a":[1,null]}`},
		},
	}
}

func entry(item string, n int) record.Entry {
	s := recordOf(n).Spec
	return record.Entry{
		Item: item, Process: id(n), Op: process.Start, Spec: &s, BeginBy: uptime + time.Minute,
		Expires: time.Now().Add(time.Minute).UTC(),
	}
}

func accept(t *testing.T, s *specstore.Store, entries ...record.Entry) (fresh, known []record.Entry) {
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

func items(entries []record.Entry) []string {
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
	rec := recordOf(1)
	finish(t, s, "item-1", 1, success(), specstore.Change{Put: &rec})
	finish(t, s, "item-2", 2, process.Outcome{Fault: process.Failed, Text: "no"}, specstore.Change{})
	if err := s.Acknowledge([]string{"item-2", "never-heard-of"}); err != nil {
		t.Fatal(err)
	}
	who := instance.Identity{BootID: boot, PID: 4711, StartTicks: 99}
	rt := record.Runtime{
		Process: &who, Run: "r", PIDFile: "/f", LastStartAt: 5, Attempts: 2, LaunchedAt: 3,
		RetryAt: 4, LastExit: &process.Exit{Known: true, Code: 3}, Outside: true, Note: "n",
	}
	progress := record.Progress{Checked: true, Before: &who, Steps: []record.Step{{
		Name: "start", Phase: record.Done, Run: "r", Child: who, Until: 7, DoneAt: 8,
		Result: &record.CommandResult{Known: true, Code: 3, Text: "exit status 3", Output: "\x00\xffbytes"},
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
	want(t, "records", records, []record.Record{rec})
	open, unacked, err := s.Journal()
	if err != nil {
		t.Fatal(err)
	}
	first, third := entry("item-1", 1), entry("item-3", 3)
	outcome := success()
	first.Boot, third.Boot, first.Outcome = boot, boot, &outcome
	if len(unacked) == 1 {
		first.Ended = unacked[0].Ended
	}
	if ago := time.Since(time.UnixMilli(first.Ended)); ago < 0 || ago > time.Minute {
		t.Errorf("the operation ended %v ago", ago)
	}
	for _, c := range []struct{ got, want []record.Entry }{
		{open, []record.Entry{third}},
		{unacked, []record.Entry{first}},
	} {
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
		s.PutRecord(recordOf(1)), s.PutRuntime(id(1), record.Runtime{Run: "r"}),
		s.PutProgress("item-1", record.Progress{Checked: true}),
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
	want(t, "runtime", rt, record.Runtime{})
	progress, err := s.GetProgress("item-1")
	want(t, "error", err, nil)
	want(t, "progress", progress, record.Progress{})
	if offset, err := s.ClockOffset(3 * time.Hour); offset != 3*time.Hour || err != nil {
		t.Errorf("the clock offset of another boot is %v, %v", offset, err)
	}
	records, err := s.Records()
	want(t, "error", err, nil)
	want(t, "records", records, []record.Record{recordOf(1)})
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
