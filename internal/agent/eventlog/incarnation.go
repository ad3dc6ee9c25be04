package eventlog

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"drover/internal/durable"
)

const (
	// incarnationFile names the incarnation of the database that has acknowledged the events.
	incarnationFile = "incarnation"
	// followSlack is how far the clock of the host may be behind that of the servers: events that are sent twice count
	// once.
	followSlack = 10 * time.Minute
)

// Follow notes the incarnation of the database that acknowledges from now on. If another one has acknowledged before,
// the kept events from since on are pending again, also after a restart of the agent: that database lacks them. It is
// not called at the same time as Pending and Acknowledge.
func (l *Log) Follow(incarnation string, since time.Time) {
	path := filepath.Join(l.cfg.Dir, incarnationFile)
	former, err := os.ReadFile(path) //nolint:gosec // a file of the log's own directory
	if err == nil && string(former) == incarnation {
		return
	}
	if err == nil {
		l.rewind(since.Add(-followSlack).UnixMilli())
	} else if !errors.Is(err, fs.ErrNotExist) {
		l.cfg.Log.Error("cannot read which database has acknowledged the events", "error", err)
	}
	// The position comes first: events that are sent twice do no harm.
	if err := durable.Replace(path, []byte(incarnation), 0o600); err != nil {
		l.cfg.Log.Error("cannot store which database acknowledges the events", "error", err)
	}
}

// rewind moves the position back to the first kept event of a time, in Unix milliseconds.
func (l *Log) rewind(since int64) {
	l.mu.Lock()
	segments, to := l.files.after(position{}), l.position
	l.mu.Unlock()
	for len(segments) > 0 && segments[0].changed.UnixMilli() < since {
		segments = segments[1:]
	}
	if len(segments) == 0 {
		return
	}
	t, err := walk(l.cfg.Dir, position{segment: segments[0].number}, segments[:1], func(line []byte) bool {
		var e struct {
			At int64 `json:"at"`
		}
		return json.Unmarshal(line, &e) == nil && e.At < since
	})
	if err != nil {
		t.end = position{segment: segments[0].number}
	}
	if !t.end.before(to) {
		return
	}
	l.mu.Lock()
	l.position = t.end
	l.mu.Unlock()
	l.marks.write(t.end)
}
