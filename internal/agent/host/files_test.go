package host

import (
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestAnswerInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFileProber(patience)
		got, err := within(f, "", "/x", func() int {
			<-time.After(patience - time.Second)
			return 7
		})
		if got != 7 || err != nil {
			t.Errorf("%d, %v", got, err)
		}
	})
}

// TestAnswerThatDoesNotCome: who asks gets away in time, the next one at once and without another look, and all is well
// again when the answer has come.
func TestAnswerThatDoesNotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFileProber(patience)
		hang := make(chan struct{})
		var looks atomic.Int32
		look := func() int {
			looks.Add(1)
			<-hang
			return 7
		}
		began := time.Now()
		_, err := within(f, "", "/x", look)
		if err == nil || !strings.Contains(err.Error(), "did not answer within 5s") || time.Since(began) != patience {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		began = time.Now()
		if _, err = within(f, "", "/x", look); err == nil || time.Since(began) != 0 || looks.Load() != 1 {
			t.Errorf("%v after %v and %d looks", err, time.Since(began), looks.Load())
		}
		if got, err := within(f, "", "/y", func() int { return 1 }); got != 1 || err != nil {
			t.Errorf("elsewhere: %d, %v", got, err)
		}
		close(hang)
		synctest.Wait()
		got, err := within(f, "", "/x", look)
		synctest.Wait() // its slot is free once the look is over, which is after the answer
		if got != 7 || err != nil || len(f.hung) > 0 || len(f.slots) > 0 {
			t.Errorf("afterwards: %d, %v; hung %v", got, err, f.hung)
		}
	})
}

// TestLooksThatHangAreBounded: each costs a thread.
func TestLooksThatHangAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFileProber(patience)
		hang := make(chan struct{})
		var looks atomic.Int32
		for i := range maxAsked + 50 {
			go func() {
				_, _ = within(f, "", strconv.Itoa(i), func() int {
					looks.Add(1)
					<-hang
					return 0
				})
			}()
		}
		<-time.After(2 * patience)
		synctest.Wait()
		if n := looks.Load(); n != maxAsked {
			t.Errorf("%d looks, want %d", n, maxAsked)
		}
		if _, err := within(f, "", "another", func() int { return 0 }); err == nil ||
			!strings.Contains(err.Error(), "looks at files for anybody hang") {
			t.Errorf("one more: %v", err)
		}
		close(hang)
		synctest.Wait()
		if _, err := within(f, "", "another", func() int { return 0 }); err != nil || len(f.hung) > 0 {
			t.Errorf("afterwards: %v; hung %v", err, f.hung)
		}
	})
}

// TestLooksOfOneAccountAreBounded: who has his own file systems hang is looked for no more, and others are.
func TestLooksOfOneAccountAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFileProber(patience)
		hang := make(chan struct{})
		var looks atomic.Int32
		for i := range 2 * maxAsked {
			go func() {
				_, _ = within(f, "app", strconv.Itoa(i), func() int {
					looks.Add(1)
					<-hang
					return 0
				})
			}()
		}
		<-time.After(2 * patience)
		synctest.Wait()
		if n := looks.Load(); n != maxOfOne {
			t.Errorf("%d looks, want %d", n, maxOfOne)
		}
		if _, err := within(f, "app", "another", func() int { return 0 }); err == nil ||
			!strings.Contains(err.Error(), "looks at files for app hang") {
			t.Errorf("one more: %v", err)
		}
		for _, other := range []string{"other", "root", ""} {
			if got, err := within(f, other, "elsewhere", func() int { return 7 }); got != 7 || err != nil {
				t.Errorf("for %q: %d, %v", other, got, err)
			}
		}
		close(hang)
		synctest.Wait()
		if got, err := within(f, "app", "another", func() int { return 7 }); got != 7 || err != nil {
			t.Errorf("afterwards: %d, %v", got, err)
		}
		synctest.Wait() // a look gives its slot back after its answer
		if len(f.slots) > 0 {
			t.Errorf("afterwards %d slots are taken", len(f.slots))
		}
	})
}

// TestLimitOfABusyHost: a wait ends after its steps, however late each of them comes.
func TestLimitOfABusyHost(t *testing.T) {
	t.Parallel()
	l := startLimit(2*patienceStep + 1)
	defer l.Stop()
	for i, want := range []bool{true, true, false} {
		if got := l.step(); got != want {
			t.Errorf("after step %d: %t, want %t", i+1, got, want)
		}
	}
}
