package eventlog

import "time"

// File is what a log asks of an open segment.
type File = file

// Disk has a log make its segments by a function; it is called before anything is appended.
func (l *Log) Disk(create func(path string) (File, error)) { l.files.create = create }

// Create makes a segment as a log does by itself.
func Create(path string) (File, error) { return create(path) }

// Limit bounds what is kept, in bytes.
func (l *Log) Limit(segment, acknowledged, all int64, age time.Duration) {
	l.files.limits = limits{segment: segment, acknowledged: acknowledged, all: all, age: age}
}

// MaxWaiting is how many events are kept in memory.
const MaxWaiting = maxWaiting
