package logs

import (
	"errors"
	"strings"
	"time"

	"drover/internal/clip"
	"drover/internal/wire"
)

// keepOfEnd is how many bytes of each end of a run Text returns.
const keepOfEnd = 32 << 10

// Text returns what a run wrote: stdout, then stderr, each shortened to its first and last 32 KiB. It is valid UTF-8,
// without NULs and without newlines at its end. It is empty for an unknown run and an unreadable log.
func (store *Store) Text(run string) string {
	l := store.of(run)
	if l == nil {
		return ""
	}
	store.drain(l)
	l.mu.Lock()
	all, err := readMarks(l.dir)
	l.mu.Unlock()
	if err != nil {
		store.log.Warn("cannot read log", "run", run, "error", err)
		return ""
	}
	var parts []string
	for i, s := range l.streams {
		r, err := s.reader(all)
		if err != nil {
			store.log.Warn("cannot read log", "run", run, "error", err)
			continue
		}
		from, to := span(all, run, i, r.end())
		if text := shortened(r, from, to); text != "" {
			parts = append(parts, text)
		}
		r.close()
	}
	return strings.Join(parts, "\n")
}

// span returns where the text of a run begins and ends in a stream.
func span(all []mark, run string, stream int, end int64) (from, to int64) {
	runs := runsIn(all)
	for i := range runs {
		if runs[i].run != run {
			continue
		}
		from, to = runs[i].ends[stream], end
		if i+1 < len(runs) {
			to = runs[i+1].ends[stream]
		}
		return from, to
	}
	return 0, 0
}

func shortened(r *reader, from, to int64) string {
	if from >= to {
		return ""
	}
	head, tail, between := r.ends(from, to, keepOfEnd)
	return clip.Ends(head, between, tail)
}

// Lines returns the lines of a text that a question selects.
func Lines(q *wire.LogQuestion, text string) (lines []string, err error) {
	match, err := expression(q)
	switch {
	case err != nil:
		return nil, err
	case q.Run != 0 || q.Since != 0:
		return nil, errors.New("drover knows neither runs nor times of the output of a daemon: leave out run and since")
	case text == "" || q.New:
		return nil, nil
	}
	for line := range strings.SplitSeq(text, "\n") {
		if match.Match([]byte(line)) {
			lines = append(lines, line)
		}
	}
	if q.Tail > 0 {
		lines = lines[max(0, len(lines)-q.Tail):]
	}
	return lines, nil
}

// now is the present time in marks.
func now() int64 { return time.Now().UnixMilli() }
