package upgrade

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"drover/internal/agent/record"
	"drover/internal/agent/specstore"
	"drover/internal/process"
	"drover/internal/release"
)

// office has the orders of an upgrader, and its journal.
type office struct {
	begun     time.Time
	cancelled bool
	asked     time.Time // when the upgrader asked whether the order may begin
	outcome   *process.Outcome
}

func (o *office) MayBegin(context.Context, string) (bool, error) {
	o.asked = time.Now()
	return !o.cancelled, nil
}

func (*office) Began(string, time.Duration) {}

func (*office) Finished(string, process.Outcome) {}

func (*office) BootID() string { return "boot" }

func (o *office) Finish(_ string, _ process.ID, outcome process.Outcome, _ specstore.Change) error {
	o.outcome = &outcome
	return nil
}

// upgrader returns an upgrader, and an order that has to begin within ten minutes.
func (o *office) upgrader(dir string, d *depot, s *source) (*Upgrader, *record.Entry) {
	o.begun = time.Now()
	k := New(Config{
		Dir: dir, Keys: s.keys, Arch: "amd64", Format: release.Format, Orders: o, Journal: o,
		Allow: func(process.Op) error { return nil }, Ask: d.ask, Sights: func() []Sight { return nil },
		Changed: func(process.Event) {}, Clock: func() time.Duration { return time.Since(o.begun) }, Log: quiet(),
	})
	return k, &record.Entry{
		Item: "i", Op: process.UpgradeOp("1.4.0"), Boot: "boot", BeginBy: 10 * time.Minute,
		Expires: o.begun.Add(10 * time.Minute),
	}
}

// TestCancelledWhileItFetches: an order begins when the program is there, so it can be cancelled until then.
func TestCancelledWhileItFetches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		d, s := newDepot(t, dir)
		o := &office{}
		k, order := o.upgrader(dir, d, s)
		d.spoil = func(_ int, answer []byte) []byte {
			time.Sleep(time.Minute) // virtual
			o.cancelled = true
			return answer
		}
		if k.carryOut(t.Context(), order) || o.outcome == nil || o.outcome.Fault != process.Cancelled {
			t.Errorf("the outcome is %+v", o.outcome)
		}
		if k.Begun("i") {
			t.Error("it counts as begun")
		}
	})
}

// TestSlowFetch: shortly before its deadline an order begins, and goes on for long. A restart of the agent does not
// make it expire.
func TestSlowFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		d, s := newDepot(t, dir)
		o := &office{}
		k, order := o.upgrader(dir, d, s)
		d.spoil = func(_ int, answer []byte) []byte {
			if time.Since(o.begun) < 20*time.Minute {
				return nil
			}
			return answer
		}
		ctx, stop := context.WithTimeout(t.Context(), 12*time.Minute) // the agent restarts
		defer stop()
		if k.carryOut(ctx, order) || o.outcome != nil {
			t.Fatalf("before the restart: %+v", o.outcome)
		}
		if at := o.asked.Sub(o.begun); at < 8*time.Minute || at > 10*time.Minute {
			t.Errorf("it began after %v", at)
		}
		begun := o.begun
		k, _ = o.upgrader(dir, d, s)
		o.begun = begun
		if !k.Begun("i") || !k.carryOut(t.Context(), order) {
			t.Fatalf("after the restart: %+v", o.outcome)
		}
		after, err := load(dir)
		if err != nil || after.Trial == nil || after.Trial.Item != "i" || after.Fetching != "" {
			t.Errorf("%+v is stored: %v", after, err)
		}
	})
}

// TestSameProgramSignedAnew: a later signature of the program in use closes the way to packages that were signed
// between.
func TestSameProgramSignedAnew(t *testing.T) {
	for former, want := range map[string]struct {
		name, text string
		fault      process.Fault
	}{
		"1.4.0": {"", "version 1.4.0 was already in use", process.None},
		"1.3.9": {"1.4.0", "version 1.4.0 is the same program as version 1.3.9, which was in use", process.None},
		"1.4.1": {"", "refused: version 1.4.0 is below 1.4.1, which runs here", process.Failed},
	} {
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			d, s := newDepot(t, dir)
			p, err := s.describe(t.Context(), "1.4.0")
			if err != nil {
				t.Fatal(err)
			}
			old := &Program{Version: former, SHA256: p.SHA256, Signed: 5, Format: p.Format}
			if err := save(dir, state{Current: old, Signed: 5}); err != nil {
				t.Fatal(err)
			}
			o := &office{}
			k, order := o.upgrader(dir, d, s)
			if k.carryOut(t.Context(), order) || o.outcome == nil || o.outcome.Fault != want.fault ||
				!strings.HasPrefix(o.outcome.Text, want.text) || k.Name() != want.name {
				t.Fatalf("from %s: the name is %q, the outcome %+v", former, k.Name(), o.outcome)
			}
			if after, err := load(dir); err != nil || want.fault == process.None &&
				(after.Signed != p.Signed || after.Current.Version != "1.4.0") {
				t.Errorf("from %s: %+v is stored: %v", former, after, err)
			}
		})
	}
}
