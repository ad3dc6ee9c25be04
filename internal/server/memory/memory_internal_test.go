package memory

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestReleaseAtRest: memory is given back once in five minutes, and never within a minute in which the server had
// something to do.
func TestReleaseAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		begun := time.Now()
		var used atomic.Int64
		var released []time.Duration
		ended := make(chan error)
		go func() {
			ended <- releaseAtRest(ctx, func() time.Duration { return time.Duration(used.Load()) }, func() {
				released = append(released, time.Since(begun))
				used.Add(int64(restUse)) // its own work does not count
			})
		}()
		for minute := 1; minute <= 20; minute++ {
			time.Sleep(restTime - time.Second)
			used.Add(int64(restUse - 1))
			if minute == 10 || minute == 11 {
				used.Add(1)
			}
			time.Sleep(time.Second)
			synctest.Wait()
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		want := []time.Duration{5 * time.Minute, 12 * time.Minute, 17 * time.Minute}
		if len(released) != len(want) {
			t.Fatalf("released at %v, want %v", released, want)
		}
		for i := range want {
			if released[i] != want[i] {
				t.Errorf("released at %v, want %v", released, want)
			}
		}
	})
}

// TestReleaseMemory: the stacks of goroutines that once needed large ones go back to the system.
func TestReleaseMemory(t *testing.T) {
	const many, deep = 500, 60
	asked, leave := make(chan chan bool), make(chan struct{})
	for range many {
		go func() {
			for {
				select {
				case answer := <-asked:
					answer <- recurse(deep) > 0
				case <-leave:
					return
				}
			}
		}()
	}
	defer close(leave)
	answers := make(chan bool, many)
	for range many * 4 { // most goroutines get one
		asked <- answers
		<-answers
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	release()
	runtime.ReadMemStats(&after)
	held := func(m *runtime.MemStats) uint64 { return m.Sys - m.HeapReleased }
	if held(&after) >= held(&before) {
		t.Errorf("it held %d bytes, and holds %d", held(&before), held(&after))
	}
	if used := processorTime(); used <= 0 {
		t.Errorf("processor time is %v", used)
	}
}

// recurse needs 1 kB of stack for each call.
func recurse(n int) int {
	var room [1024]byte
	if n == 0 {
		return 1
	}
	room[n] = byte(n)
	return recurse(n-1) + int(room[n%512])
}
