package eventlog_test

import (
	"testing"
	"time"
)

// TestFollow: the events since a moment are pending again for another database than the one that has acknowledged them,
// also after a restart of the agent, and only once.
func TestFollow(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	early, late := happened(1), happened(2)
	late.At = early.At + time.Hour.Milliseconds()
	l.Append(early)
	l.Append(late)
	l.Follow("one", time.UnixMilli(0))
	l.Acknowledge(pending(t, l))
	l.Follow("one", time.UnixMilli(0))
	same(t, "for the same database", []int{}, pids(pending(t, l)))
	must(t, l.Close())

	l = open(t, dir)
	l.Append(happened(3))
	l.Follow("two", time.UnixMilli(late.At))
	same(t, "for another database", []int{2, 3}, pids(pending(t, l)))
	l.Acknowledge(pending(t, l))
	l.Follow("two", time.UnixMilli(0))
	same(t, "once more", []int{}, pids(pending(t, l)))
	l.Follow("three", time.UnixMilli(0))
	same(t, "for a third one, of a copy that knows nothing", []int{1, 2, 3}, pids(pending(t, l)))
}
