package eventlog

import (
	"encoding/json"
	"slices"
)

// last is the last event that was acknowledged since Open; its stream is empty before.
type last struct {
	Stream string `json:"stream"`
	Seq    uint64 `json:"seq"`
}

// isIn reports whether a database has the event, by the last number of each stream that it has.
func (e last) isIn(heard map[string]uint64) bool { return e.Stream != "" && e.Seq <= heard[e.Stream] }

// Rewind makes events pending again that were acknowledged, and that the database does not have, because it was
// restored from a copy. heard are the last numbers of streams that it has. What is older than the last event that the
// database has, it has, too. Rewind reports whether events are pending again; the database skips those that it has. It
// reads files, and is not called at the same time as Pending and Acknowledge.
func (l *Log) Rewind(heard map[string]uint64) bool {
	l.mu.Lock()
	segments, to, acknowledged := slices.Clone(l.files.all), l.position, l.acknowledged
	l.mu.Unlock()
	if acknowledged.isIn(heard) {
		return false
	}
	from := to
	for _, s := range slices.Backward(segments) {
		if s.number > to.segment {
			continue
		}
		if l.cfg.Now().Sub(s.changed) > l.files.limits.age { // the servers forget as early
			break
		}
		if s.number == to.segment {
			s.size = min(s.size, to.offset)
		}
		end, found := l.heardIn(s, heard)
		if from = end; found {
			break
		}
	}
	if !from.before(to) {
		return false
	}
	l.mu.Lock()
	l.position, l.acknowledged = from, last{}
	l.mu.Unlock()
	l.marks.write(from)
	return true
}

// heardIn returns the position after the last event of a segment that a database has, and otherwise its beginning.
func (l *Log) heardIn(s segment, heard map[string]uint64) (end position, found bool) {
	begin := position{segment: s.number}
	count, latest := 0, 0
	_, _ = walk(l.cfg.Dir, begin, []segment{s}, func(line []byte) bool {
		var e last
		count++
		if json.Unmarshal(line, &e) == nil && e.isIn(heard) {
			latest = count
		}
		return true
	})
	if latest == 0 { // or the segment is unreadable: events that are sent twice do no harm
		return begin, false
	}
	count = 0
	t, _ := walk(l.cfg.Dir, begin, []segment{s}, func([]byte) bool {
		count++
		return count <= latest
	})
	return t.end, true
}
