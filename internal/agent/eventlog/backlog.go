package eventlog

// Backlog is the data that the server does not have yet.
type Backlog struct {
	// Bytes is the size of the events on disk that are not acknowledged.
	Bytes int64
	// Unwritten counts the events in memory that the disk did not take. Lost counts the events that were lost since
	// Open.
	Unwritten, Lost int
}

// Backlog returns how much there is still to tell.
func (l *Log) Backlog() Backlog {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := Backlog{Unwritten: len(l.queue), Lost: l.confessed + l.lostCount}
	for _, s := range l.files.after(l.position) {
		b.Bytes += s.size
		if s.number == l.position.segment {
			b.Bytes -= l.position.offset
		}
	}
	return b
}
