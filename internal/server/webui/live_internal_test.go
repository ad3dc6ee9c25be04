package webui

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"drover/internal/server/bus"
)

// browser is what a stream writes to.
type browser struct {
	mu    sync.Mutex
	began time.Time
	lines []string
	at    []time.Duration
}

func (b *browser) Header() http.Header { return http.Header{} }
func (b *browser) WriteHeader(int)     {}
func (b *browser) Flush()              {}

func (b *browser) Write(data []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, strings.TrimSuffix(strings.TrimPrefix(string(data), "data: "), "\n\n"))
	b.at = append(b.at, time.Since(b.began))
	return len(data), nil
}

// heard returns what the browser has got so far, and when.
func (b *browser) heard() (lines []string, at []time.Duration) {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.lines), slices.Clone(b.at)
}

// TestHints: a stream begins with all versions, tells a burst of changes at most twice a second and without what has not
// changed, tells all versions every 10 s, and ends when its person may not be here any more.
func TestHints(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, b := bus.New(time.Now()), &browser{began: time.Now()}
		s := hints{w: b, control: http.NewResponseController(b), bus: p, pause: new(streams).pause}
		var gone atomic.Bool
		var checks atomic.Int64
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.run(t.Context(), func() bool {
				checks.Add(1)
				return !gone.Load()
			})
		}()
		for range 200 { // 200 changes in 2 s
			time.Sleep(10 * time.Millisecond)
			p.Changed(bus.Tasks)
		}
		time.Sleep(time.Second)
		lines, at := b.heard()
		if n := len(lines); n < 4 || n > 6 {
			t.Errorf("%d hints in 3 s: %q", n, lines)
		}
		for i, line := range lines {
			var told map[bus.Topic]int64
			if err := json.Unmarshal([]byte(line), &told); err != nil {
				t.Fatal(err)
			}
			if i == 0 && len(told) != len(bus.PageTopics()) || i > 0 && (len(told) != 1 || told[bus.Tasks] == 0) {
				t.Errorf("hint %d is %s", i, line)
			}
			if i > 0 && at[i]-at[i-1] < hintPause {
				t.Errorf("hint %d comes %s after the one before", i, at[i]-at[i-1])
			}
		}
		before := len(lines)
		time.Sleep(8 * time.Second)
		lines, _ = b.heard()
		if n := len(lines) - before; n != 1 || checks.Load() != 1 || !strings.Contains(lines[before], "hosts") {
			t.Errorf("after 10 s: %d checks and %q", checks.Load(), lines[before:])
		}
		gone.Store(true)
		began := time.Now()
		<-ended
		if took := time.Since(began); took > recheck+hintPause {
			t.Errorf("the stream ended after %s", took)
		}
		if lines, _ = b.heard(); !strings.HasPrefix(lines[len(lines)-1], "event: over\n") {
			t.Errorf("the last words of the stream are %q", lines[len(lines)-1])
		}
	})
}

// TestHintsEnd: a stream ends with its context, also while it pauses.
func TestHintsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &browser{began: time.Now()}
		ctx, cancel := context.WithCancel(t.Context())
		s := hints{w: b, control: http.NewResponseController(b), bus: bus.New(time.Now()), pause: new(streams).pause}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.run(ctx, func() bool { return true })
		}()
		synctest.Wait()
		cancel()
		<-ended
		if took := time.Since(b.began); took != 0 {
			t.Errorf("the stream ended after %s", took)
		}
	})
}

// TestStreams: a person has so many streams, all people together so many, and a stream that ends makes room.
func TestStreams(t *testing.T) {
	t.Parallel()
	var s streams
	var leaves []func()
	enter := func(person string) bool {
		leave, ok := s.enter(person)
		if ok {
			leaves = append(leaves, leave)
		}
		return ok
	}
	for range personStreams {
		if !enter("anna") {
			t.Fatal("anna gets no stream")
		}
	}
	if enter("anna") || !enter("bo") {
		t.Error("anna gets too many streams, or bo none")
	}
	if got := s.pause(); got != time.Duration(personStreams+1)*hintShare {
		t.Errorf("%d streams pause for %s", s.open, got)
	}
	leaves[0]()
	if !enter("anna") {
		t.Error("a stream that has ended makes no room")
	}
	for n := s.open; n < allStreams; n++ {
		if !enter(string(rune('A' + n))) {
			t.Fatalf("there is no room for stream %d", n)
		}
	}
	if enter("zoe") {
		t.Error("there are too many streams")
	}
	if got := s.pause(); got != longestPause {
		t.Errorf("%d streams pause for %s", s.open, got)
	}
	leaves[1]()
	if !enter("zoe") {
		t.Error("zoe gets no stream")
	}
}

// TestCell: a spreadsheet runs no cell.
func TestCell(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "api": "api", "=1+1": "'=1+1", "+1": "'+1", "-1": "'-1", "@SUM(A1)": "'@SUM(A1)", "\tx": "'\tx",
		"a=b": "a=b", "\x1b[31m": "␛[31m", "7": "7",
	} {
		if got := cell(text); got != want {
			t.Errorf("cell(%q) is %q, want %q", text, got, want)
		}
	}
}
