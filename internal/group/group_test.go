package group_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover/internal/group"
)

type key struct{}

// diary notes what happened in which order; synctest's bubble serialises the parts that write it, because each of them
// does so at an instant of its own.
type diary []string

func (d *diary) write(format string, args ...any) { *d = append(*d, fmt.Sprintf(format, args...)) }

// part takes a second to stop, so that parts which stopped side by side would be told apart from parts which stopped
// one after another.
func part(d *diary, begin time.Time, name string) group.Part {
	return group.Part{Name: name, Run: func(ctx context.Context) error {
		<-ctx.Done()
		d.write("%s told %v", name, time.Since(begin))
		time.Sleep(time.Second)
		d.write("%s gone %v", name, time.Since(begin))
		return ctx.Err()
	}}
}

func TestStopsInReverseOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := group.Run(ctx, part(&d, begin, "a"), part(&d, begin, "b"), part(&d, begin, "c")); err != nil {
			t.Errorf("regular stop returned %v, want nil", err)
		}
		want := diary{
			"c told 1m0s", "c gone 1m1s",
			"b told 1m1s", "b gone 1m2s",
			"a told 1m2s", "a gone 1m3s",
		}
		if diff := cmp.Diff(want, d); diff != "" {
			t.Errorf("order of stopping (-want +got):\n%s", diff)
		}
	})
}

func TestFailureStopsTheRestAndIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		begin := time.Now()
		broken := errors.New("disk is full")
		err := group.Run(t.Context(),
			part(&d, begin, "a"),
			group.Part{Name: "journal", Run: func(context.Context) error {
				time.Sleep(5 * time.Second)
				return broken
			}},
			part(&d, begin, "c"),
		)
		if !errors.Is(err, broken) || err.Error() != "journal: disk is full" {
			t.Errorf("got error %v, want %q", err, "journal: disk is full")
		}
		want := diary{"c told 5s", "c gone 6s", "a told 6s", "a gone 7s"}
		if diff := cmp.Diff(want, d); diff != "" {
			t.Errorf("order of stopping (-want +got):\n%s", diff)
		}
	})
}

func TestEveryFailureIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := errors.New("lost its listener"), errors.New("cannot close")
		err := group.Run(t.Context(),
			group.Part{Name: "store", Run: func(ctx context.Context) error { <-ctx.Done(); return second }},
			group.Part{Name: "http", Run: func(context.Context) error { return first }},
		)
		if !errors.Is(err, first) || !errors.Is(err, second) {
			t.Fatalf("got %v, want both failures in it", err)
		}
		for _, text := range []string{"http: lost its listener", "store: cannot close"} {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("error %q does not hold %q", err, text)
			}
		}
	})
}

func TestPartThatEndsWithoutErrorStopsTheGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		err := group.Run(t.Context(),
			part(&d, time.Now(), "a"),
			group.Part{Name: "once", Run: func(context.Context) error { return nil }},
		)
		if err != nil {
			t.Errorf("got error %v, want nil", err)
		}
		if diff := cmp.Diff(diary{"a told 0s", "a gone 1s"}, d); diff != "" {
			t.Errorf("order of stopping (-want +got):\n%s", diff)
		}
	})
}

func TestCancellationFromElsewhereIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := group.Run(t.Context(), group.Part{Name: "sync", Run: func(context.Context) error {
			return fmt.Errorf("query: %w", context.Canceled)
		}})
		if err == nil || !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the part's own cancellation reported", err)
		}
	})
}

func TestPartsSeeTheValuesOfTheContext(t *testing.T) {
	var got any
	ctx := context.WithValue(t.Context(), key{}, "blue")
	if err := group.Run(ctx, group.Part{Name: "a", Run: func(ctx context.Context) error {
		got = ctx.Value(key{})
		return nil
	}}); err != nil {
		t.Fatal(err)
	}
	if got != "blue" {
		t.Errorf("the part saw %v, want blue", got)
	}
}

func TestNoParts(t *testing.T) {
	if err := group.Run(t.Context()); err != nil {
		t.Errorf("got %v, want nil", err)
	}
}
