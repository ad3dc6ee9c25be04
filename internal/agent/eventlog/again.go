package eventlog

import (
	"encoding/json"

	"drover/internal/process"
)

// An agent writes the events of a change before it stores the new state. If the agent dies between the two, the next
// agent comes to the same events. To know them again, the next agent reads the newest segments, so many and about so
// many bytes of them, and remembers so many events of each process: no change has more.
const (
	rereadSegments = 16
	rereadBytes    = 1 << 20
	rereadEvents   = 3
)

// mark is the part of an event that the next agent knows, too.
type mark struct {
	Kind    process.EventKind
	PID     int
	Attempt int
}

// earlier are the last events of a process that earlier agents have written, oldest first. follows says that this agent
// has come to the event before them.
type earlier struct {
	marks   []mark
	follows bool
}

// newest returns the segments to read again.
func newest(all []segment) []segment {
	first, size := len(all), int64(0)
	for first > 0 && len(all)-first < rereadSegments && size < rereadBytes {
		first--
		size += all[first].size
	}
	return all[first:]
}

// reread calls visit with each line of the newest segments of earlier agents, oldest first.
func (l *Log) reread(visit func(line []byte)) {
	_, err := walk(l.cfg.Dir, position{}, l.inherited, func(line []byte) bool { visit(line); return true })
	if err != nil {
		l.cfg.Log.Warn("cannot read the events of the agent before, an event may be told twice", "error", err)
	}
}

// Operations returns the operations that the newest events of earlier agents tell of, each with a blank and the process
// of the event: an operation of a caller may be one on many processes. It also returns the time of the
// first of these events, in Unix milliseconds; 0 if there are none. It reads files of some MiB at most.
func (l *Log) Operations() (told map[string]bool, since int64) {
	told = map[string]bool{}
	l.reread(func(line []byte) {
		var e struct {
			At      int64
			Process process.ID
			Actor   struct{ Operation string }
		}
		if json.Unmarshal(line, &e) == nil {
			told[e.Actor.Operation+" "+e.Process.String()] = true
			if since == 0 {
				since = e.At
			}
		}
	})
	return told, since
}

// again reports whether an earlier agent has written the event. Only the first events of a process can be such. The
// caller holds the lock.
func (l *Log) again(e *process.Event) bool {
	if e.Kind == process.EventState {
		return false
	}
	if l.earlier == nil {
		l.remember()
	}
	was := l.earlier[e.Process]
	for i, m := range was.marks {
		first := was.follows && i == 0 || !was.follows && (leads(e.Kind) || i == len(was.marks)-1)
		if first && m.is(e) {
			l.earlier[e.Process] = earlier{marks: was.marks[i+1:], follows: true}
			return true
		}
	}
	delete(l.earlier, e.Process)
	return false
}

// remember reads the last events that earlier agents of this boot have written of each process.
func (l *Log) remember() {
	l.earlier = map[process.ID]earlier{}
	l.reread(func(line []byte) {
		var e struct {
			mark
			At      int64
			Process process.ID
		}
		if json.Unmarshal(line, &e) == nil && e.Kind != process.EventState && e.At >= l.cfg.Booted {
			marks := append(l.earlier[e.Process].marks, e.mark)
			l.earlier[e.Process] = earlier{marks: marks[max(0, len(marks)-rereadEvents):]}
		}
	})
}

// is reports whether the mark is that of an event. Events of other kinds may come twice for the same instance.
func (m mark) is(e *process.Event) bool {
	switch e.Kind {
	case process.EventGivenUp, process.EventFlapping, process.EventSteady, process.EventReady, process.EventNotReady:
	default:
		if ends(e.Kind) { // the next agent may know less of the end
			return ends(m.Kind) && m.PID == e.PID
		}
		if !leads(e.Kind) {
			return false
		}
	}
	return m == mark{Kind: e.Kind, PID: e.PID, Attempt: e.Attempt}
}

// leads reports whether an event of the kind can be the first one of several of a change.
func leads(kind process.EventKind) bool {
	switch kind {
	case process.EventRelaunched, process.EventRelaunchFailed, process.EventRunStarted, process.EventFound,
		process.EventReplaced:
		return true
	default:
		return ends(kind)
	}
}

// ends reports whether an event of the kind tells of the end of an instance.
func ends(kind process.EventKind) bool {
	switch kind {
	case process.EventExited, process.EventStopped, process.EventKilled, process.EventTakenDown, process.EventRunEnded,
		process.EventRunFailed:
		return true
	default:
		return false
	}
}
