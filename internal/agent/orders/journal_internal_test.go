package orders

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"drover/internal/agent/record"
	"drover/internal/agent/specstore"
	"drover/internal/process"
)

// oddDisk is a journal whose disk fails: before it has taken anything, or, with torn, after it has taken all.
type oddDisk struct {
	*specstore.Store
	err  error
	torn bool
}

func (d *oddDisk) Accept(entries []record.Entry) (fresh, known []record.Entry, err error) {
	if d.err != nil && !d.torn {
		return nil, nil, d.err
	}
	if fresh, known, err = d.Store.Accept(entries); err == nil && d.err != nil {
		return nil, nil, d.err
	}
	return fresh, known, err
}

// slowDisk is a journal in memory that takes nothing before it is let.
type slowDisk struct {
	Disk
	pass chan struct{}
	err  error

	mu      sync.Mutex
	journal map[string]bool
}

func (d *slowDisk) Entries(items []string) (known []record.Entry, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, item := range items {
		if d.journal[item] {
			known = append(known, command(item))
		}
	}
	return known, nil
}

func (d *slowDisk) Accept(entries []record.Entry) (fresh, known []record.Entry, err error) {
	<-d.pass
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil {
		return nil, nil, d.err
	}
	if d.journal == nil {
		d.journal = map[string]bool{}
	}
	for _, e := range entries {
		d.journal[e.Item] = true
	}
	return entries, nil, nil
}

func oddJournal(t *testing.T) *oddDisk {
	t.Helper()
	store, err := specstore.Open(t.TempDir(), "boot")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return &oddDisk{Store: store}
}

func command(item string) record.Entry {
	return record.Entry{
		Item: item, Process: process.ID{Namespace: "ns", Name: item}, Op: process.Start,
		BeginBy: time.Hour,
	}
}

func commands(items ...string) (all []record.Entry) {
	for _, item := range items {
		all = append(all, command(item))
	}
	return all
}

// took fails unless these items are new and those known.
func took(t *testing.T, got journalled, fresh, known []string) {
	t.Helper()
	if f, k := itemsOf(got.fresh), itemsOf(got.known); !slices.Equal(f, fresh) || !slices.Equal(k, known) ||
		got.refusal != nil {
		t.Errorf("%q are new, %q known, and %v; want %q and %q", f, k, got.refusal, fresh, known)
	}
}

// TestKnownBeforeRefusal: what was taken before is known, whatever keeps others from being taken.
func TestKnownBeforeRefusal(t *testing.T) {
	disk := oddJournal(t)
	j := newJournal(disk)
	got, err := j.accept(t.Context(), commands("1", "2", "1"), nil)
	if err != nil {
		t.Fatal(err)
	}
	took(t, got, []string{"1", "2"}, []string{})
	if err := disk.Finish("1", command("1").Process, process.Outcome{Text: process.Success},
		specstore.Change{}); err != nil {
		t.Fatal(err)
	}
	stale := errors.New("of long ago")
	for _, c := range []struct{ disk, manifest, want error }{
		{nil, stale, stale}, {syscall.ENOSPC, nil, syscall.ENOSPC}, {syscall.EIO, stale, stale},
	} {
		disk.err = c.disk
		got, err := j.accept(t.Context(), commands("1", "3", "2"), c.manifest)
		if err != nil || !errors.Is(got.refusal, c.want) {
			t.Errorf("%v, %v: it is refused with %v (%v)", c.disk, c.manifest, got.refusal, err)
		}
		got.refusal = nil
		took(t, got, []string{}, []string{"1", "2"})
		if got.known[0].Outcome == nil || got.known[1].Outcome != nil {
			t.Errorf("known are %+v", got.known)
		}
	}
	got, err = j.accept(t.Context(), commands("1", "2"), stale)
	if err != nil {
		t.Fatal(err)
	}
	took(t, got, []string{}, []string{"1", "2"})
}

// TestFailedSync: a command that is in the journal although its last sync has failed is neither answered nor handed on.
// When it comes again it is, once.
func TestFailedSync(t *testing.T) {
	disk := oddJournal(t)
	j := newJournal(disk)
	disk.torn = true
	for _, failure := range []error{
		fmt.Errorf("cannot journal: %w", syscall.EIO), errors.New("quota exceeded"),
		syscall.EIO,
	} {
		disk.err = failure
		if got, err := j.accept(t.Context(), commands("1", "2"), nil); err == nil {
			t.Fatalf("%v: took %+v", failure, got)
		}
		if got, err := j.accept(t.Context(), commands("2"), errors.New("of long ago")); err == nil {
			t.Fatalf("%v: took %+v of a manifest of long ago", failure, got)
		}
	}
	disk.err = nil
	for _, c := range []struct {
		items        []string
		fresh, known []string
	}{
		{[]string{"2", "2"}, []string{"2"}, []string{}},
		{[]string{"2", "3", "1"}, []string{"3", "1"}, []string{"2"}},
		{[]string{"1", "2", "3"}, []string{}, []string{"1", "2", "3"}},
	} {
		got, err := j.accept(t.Context(), commands(c.items...), nil)
		if err != nil {
			t.Fatal(err)
		}
		took(t, got, c.fresh, c.known)
	}
	if len(j.uncertain) > 0 || len(j.inflight) > 0 {
		t.Errorf("it keeps %v and %v in mind", j.uncertain, j.inflight)
	}
}

// TestCommandsThatComeTwiceAtOnce: the second copy waits for what becomes of the first, and others do not.
func TestCommandsThatComeTwiceAtOnce(t *testing.T) {
	for _, failure := range []error{nil, syscall.ENOSPC} {
		synctest.Test(t, func(t *testing.T) {
			disk := &slowDisk{pass: make(chan struct{})}
			j := newJournal(disk)
			var copies sync.WaitGroup
			results := make([]journalled, 3)
			for n, items := range [][]string{{"1", "2"}, {"2", "3"}, {"4"}} {
				copies.Go(func() {
					var err error
					if results[n], err = j.accept(t.Context(), commands(items...), nil); err != nil {
						t.Error(err)
					}
				})
				synctest.Wait()
			}
			disk.pass <- struct{}{} // for the first or the third: the second is not that far
			disk.pass <- struct{}{}
			synctest.Wait()
			disk.err = failure // what was taken is out of the disk's hands
			disk.pass <- struct{}{}
			copies.Wait()
			took(t, results[0], []string{"1", "2"}, []string{})
			took(t, results[2], []string{"4"}, []string{})
			if !errors.Is(results[1].refusal, failure) {
				t.Errorf("the second is refused with %v", results[1].refusal)
			}
			results[1].refusal = nil
			fresh := []string{"3"}
			if failure != nil {
				fresh = []string{}
			}
			took(t, results[1], fresh, []string{"2"})
		})
	}
}

// endingOnly is a journal on a full disk.
type endingOnly struct{ Disk }

func (endingOnly) Entries([]string) ([]record.Entry, error) { return nil, nil }

func (endingOnly) Accept(entries []record.Entry) (fresh, known []record.Entry, err error) {
	for _, e := range entries {
		if !e.Ends() {
			return nil, nil, syscall.ENOSPC
		}
	}
	return entries, nil, nil
}

// TestFullDiskTakesStops: also those that come together with what it does not take.
func TestFullDiskTakesStops(t *testing.T) {
	orders := []record.Entry{
		{Item: "a", Op: process.Start},
		{Item: "b", Op: process.Stop},
		{Item: "c", Op: process.Restart},
		{Item: "d", Op: process.Kill},
	}
	got, err := newJournal(endingOnly{}).accept(t.Context(), orders, nil)
	if err != nil || !slices.Equal(got.items(), []string{"b", "d"}) || !errors.Is(got.refusal, syscall.ENOSPC) {
		t.Errorf("took %v, refused the rest with %v, %v", got.items(), got.refusal, err)
	}
}

// TestACopyWaitsNoLongerThanTheAgent: an agent that stops does not wait for a disk that takes the first copy.
func TestACopyWaitsNoLongerThanTheAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &slowDisk{pass: make(chan struct{})}
		j := newJournal(disk)
		var first sync.WaitGroup
		first.Go(func() {
			if _, err := j.accept(t.Context(), commands("1"), nil); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if got, err := j.accept(ctx, commands("1", "2"), nil); !errors.Is(err, context.Canceled) {
			t.Errorf("took %+v, %v", got, err)
		}
		disk.pass <- struct{}{}
		first.Wait()
		if len(j.inflight) > 0 {
			t.Errorf("it keeps %v in mind", j.inflight)
		}
	})
}
