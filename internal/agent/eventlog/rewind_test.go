package eventlog_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestRewind: the events that a database lacks are pending again, whatever the order of their times, and only those.
// That holds after a restart of the agent, too.
func TestRewind(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	rewind := func(what string, heard map[string]uint64, again bool, want []int) {
		t.Helper()
		if got := l.Rewind(heard); got != again {
			t.Errorf("%s: events are pending again: %v, want %v", what, got, again)
		}
		same(t, what, want, pids(pending(t, l)))
	}
	rewind("without events", nil, false, []int{})
	late := happened(1)
	late.At += 1 << 40
	l.Append(late)
	appendAll(l, 2, 4)
	first := decoded(pending(t, l))[0].Stream
	rewind("none is acknowledged", nil, false, upTo(1, 4))
	rewind("more is known than acknowledged", map[string]uint64{first: 3}, false, upTo(1, 4))
	l.Acknowledge(pending(t, l))
	rewind("all are known", map[string]uint64{first: 4}, false, []int{})
	rewind("two are known", map[string]uint64{first: 2}, true, upTo(3, 4))
	l.Acknowledge(pending(t, l))
	must(t, l.Close())

	l = open(t, dir)
	rewind("after a restart all are known", map[string]uint64{first: 4}, false, []int{})
	appendAll(l, 5, 6)
	second := decoded(pending(t, l))[0].Stream
	rewind("with others pending, three are known", map[string]uint64{first: 3}, true, upTo(4, 6))
	l.Acknowledge(pending(t, l)[:2])
	rewind("one is not acknowledged", map[string]uint64{first: 4, second: 1}, false, []int{6})
	l.Acknowledge(pending(t, l))
	rewind("the first stream is known", map[string]uint64{first: 4}, true, upTo(5, 6))
	l.Acknowledge(pending(t, l))
	rewind("the first stream is pruned", map[string]uint64{second: 1}, true, []int{6})
	l.Acknowledge(pending(t, l))
	rewind("nothing is known", map[string]uint64{"other": 9}, true, upTo(1, 6))
	must(t, l.Close())

	l = open(t, dir)
	same(t, "after a restart", upTo(1, 6), pids(pending(t, l)))
	l.Acknowledge(pending(t, l))
	must(t, l.Close())
	all, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	must(t, err)
	forgotten := time.Now().Add(-8 * 24 * time.Hour)
	must(t, os.Chtimes(all[len(all)-1], forgotten, forgotten)) // Open removes none behind a newer one
	l = open(t, dir)
	rewind("old events that nobody keeps", nil, false, []int{})
}
