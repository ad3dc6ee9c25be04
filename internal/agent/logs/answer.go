package logs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"drover/internal/clip"
	"drover/internal/pattern"
	"drover/internal/process"
	"drover/internal/wire"
)

const (
	// maxReading is how many questions read at the same time, maxWaiting how many wait for text.
	// A question that searches has a place of its own, so that no expression delays other readers.
	maxReading = 2
	maxWaiting = 16
	// searchFor is how long one question searches. It then answers with what it has found so far.
	searchFor = 2 * time.Second
	// maxScan is how much text one question reads for lines that match, in bytes.
	maxScan = 4 << 20
	// waitFor is how long a question waits for text, lookAgain how often it looks.
	waitFor   = 2 * time.Second
	lookAgain = 100 * time.Millisecond
	// leastLimit is the least text of an answer.
	leastLimit = 4 << 10
)

// view is what one question sees of a log.
type view struct {
	q     *wire.LogQuestion
	match *pattern.Pattern // nil matches every line
	// over ends the search for lines that match.
	over    context.Context //nolint:containedctx // a view is of one question
	feeds   []*feed
	readers [streams]*reader
	runs    []mark
	moments []mark
	now     int64
}

// Answer returns a piece of the log of a process. It blocks while other questions read, and at most for some seconds
// if the question waits for text. It ends early with ctx.
func (store *Store) Answer(ctx context.Context, q wire.LogQuestion) wire.LogAnswer {
	match, err := expression(&q)
	if err != nil {
		return failed(err)
	}
	l := store.of(process.Hash(q.Process))
	if l == nil {
		return wire.LogAnswer{}
	}
	read := func(whole bool) (wire.LogAnswer, error) { return store.read(ctx, l, &q, match, whole) }
	a, err := read(!q.Follow)
	if err == nil && q.Follow && len(a.Blocks) == 0 && !a.More {
		q.Cursor = a.Cursor
		quiet := store.await(ctx, l)
		a, err = read(quiet)
	}
	if err != nil {
		return failed(err)
	}
	return a
}

// maxError is the longest error of an answer in bytes: it may quote the question.
const maxError = 500

func failed(err error) wire.LogAnswer {
	return wire.LogAnswer{Error: clip.Marked(err.Error(), maxError, "…")}
}

// expression checks a question, and returns its expression for lines.
func expression(q *wire.LogQuestion) (*pattern.Pattern, error) {
	if q.Limit <= 0 {
		q.Limit = wire.MaxLogText
	}
	q.Limit = min(max(q.Limit, leastLimit), wire.MaxLogText)
	if q.Tail < 0 || q.Tail > wire.MaxLogTail {
		return nil, fmt.Errorf("tail is %d: expected 0 to %d", q.Tail, wire.MaxLogTail)
	}
	if q.Run > 0 {
		return nil, fmt.Errorf("run is %d: expected 0 for the last run, or -1 for the run before", q.Run)
	}
	match, err := pattern.Parse(q.Grep)
	if err != nil {
		return nil, fmt.Errorf("grep %w", err)
	}
	return match, nil
}

// await waits until the process writes something. It reports whether it waited in vain. If too many questions wait, it
// returns at once.
func (store *Store) await(ctx context.Context, l *processLog) (quiet bool) {
	select {
	case store.waiting <- struct{}{}:
	default:
		return false
	}
	defer func() { <-store.waiting }()
	before := l.ends()
	over, tick := time.NewTimer(waitFor), time.NewTicker(lookAgain)
	defer over.Stop()
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if l.ends() != before {
				return false
			}
		case <-over.C:
			return true
		case <-ctx.Done():
			return false
		}
	}
}

// read returns the piece at the cursor of a question; whole says that a last line without a newline counts.
func (store *Store) read(ctx context.Context, l *processLog, q *wire.LogQuestion, match *pattern.Pattern, whole bool) (
	a wire.LogAnswer, err error,
) {
	places, soon := store.reading, ctx
	if match != nil {
		var stop context.CancelFunc
		soon, stop = context.WithTimeout(ctx, patience)
		defer stop()
		places = store.searching
	}
	select {
	case places <- struct{}{}:
	case <-soon.Done():
		if ctx.Err() == nil {
			return a, errors.New("too many searches in logs of this host are under way")
		}
		return a, ctx.Err()
	}
	defer func() { <-places }()
	ctx, cancel := context.WithTimeout(ctx, store.searchFor)
	defer cancel()
	v, err := l.view(q, match, whole)
	if err != nil {
		return a, err
	}
	defer v.close()
	v.over = ctx
	c, err := v.start()
	if err != nil {
		return a, err
	}
	return v.piece(c)
}

// view opens a log for one question.
func (l *processLog) view(q *wire.LogQuestion, match *pattern.Pattern, whole bool) (*view, error) {
	l.mu.Lock()
	marks, err := readMarks(l.dir)
	l.mu.Unlock()
	if err != nil {
		return nil, err
	}
	v := &view{q: q, match: match, runs: runsIn(marks), moments: moments(marks), now: now()}
	for i, s := range l.streams {
		r, err := s.reader(marks)
		if err != nil {
			v.close()
			return nil, err
		}
		v.readers[i] = r
		f := &feed{source: r, whole: whole, most: min(maxLine, q.Limit)}
		for _, run := range v.runs {
			f.breaks = append(f.breaks, run.ends[i])
		}
		v.feeds = append(v.feeds, f)
	}
	return v, nil
}

func (v *view) close() {
	for _, r := range v.readers {
		if r != nil {
			r.close()
		}
	}
}

// start returns where the question begins. A question that does not follow the log ends at its present end.
func (v *view) start() (c cursor, err error) {
	if v.q.Cursor != "" {
		return parseCursor(v.q.Cursor)
	}
	for i := range c {
		c[i].until = open
	}
	if v.q.Since == 0 || v.q.Run != 0 {
		if err := v.startOfRun(&c); err != nil {
			return c, err
		}
	}
	for i := range c {
		for _, m := range v.moments {
			if m.at < v.q.Since {
				c[i].at = max(c[i].at, m.ends[i])
			}
		}
		if v.q.Since > v.now || v.q.New {
			c[i].at = v.readers[i].end()
		}
		c[i].at = v.begin(i, c[i])
	}
	for i, name := range streamNames() {
		if v.q.Stream != "" && v.q.Stream != name {
			c[i] = place{} // it ends where it begins
		}
	}
	if !v.q.Follow { // a log that grows while it is read must have an end
		for i := range c {
			c[i].until = v.until(i, c[i])
		}
	}
	if v.q.Tail > 0 {
		return c, v.startOfTail(&c)
	}
	return c, nil
}

// begin returns where the text of a place begins. That of a run begins with a loss if nothing of it is left, or if its
// first text follows a loss: the loss then has all that is missing of the run.
func (v *view) begin(stream int, p place) int64 {
	first, begin := v.readers[stream].first(p.at), v.readers[stream].begin(p.at)
	ofRun := v.q.Since == 0 || v.q.Run != 0
	if ofRun && (begin < first || p.until != open && first >= p.until) {
		return p.at
	}
	return begin
}

// startOfRun sets the bounds of the run that the question is about.
func (v *view) startOfRun(c *cursor) error {
	n := len(v.runs) - 1 + v.q.Run
	if n < 0 {
		if v.q.Run == 0 {
			return nil // nothing has run: there is no text
		}
		return fmt.Errorf("there is no run %d: the log knows %s", v.q.Run, process.Count(len(v.runs), "run", "runs"))
	}
	for i := range c {
		c[i].at = v.runs[n].ends[i]
		if n+1 < len(v.runs) {
			c[i].until = v.runs[n+1].ends[i]
		}
	}
	return nil
}

// startOfTail moves the begin to the last lines of the streams together.
func (v *view) startOfTail(c *cursor) (err error) {
	var found [streams][]int64
	for i, f := range v.feeds {
		f.at, f.until = c[i].at, v.until(i, c[i])
		if found[i], err = v.lastLines(f); err != nil {
			return err
		}
		c[i].at = max(c[i].at, f.until)
	}
	for range v.q.Tail {
		last, at := -1, int64(0)
		for i := range found {
			if n := len(found[i]); n > 0 {
				if t := timeOf(v.moments, i, found[i][n-1], v.now); last < 0 || t >= at {
					last, at = i, t
				}
			}
		}
		if last < 0 {
			return nil
		}
		rest := found[last]                                             //nolint:gosec // it is the index of a stream
		c[last].at, found[last] = rest[len(rest)-1], rest[:len(rest)-1] //nolint:gosec // as above
	}
	return nil
}

// lastLines returns where the last lines of a feed begin that match.
func (v *view) lastLines(f *feed) ([]int64, error) {
	found := f.lastLines(v.q.Tail, v.matches, v.late)
	if v.late() {
		return nil, fmt.Errorf("the search for the last %d lines that match took longer than %v: "+
			"leave out tail, or search for a simpler expression", v.q.Tail, searchFor)
	}
	return found, nil
}

// late reports whether the search has taken too long, or whether nobody waits for it.
func (v *view) late() bool { return v.match != nil && v.over.Err() != nil }

// until is where the text to read ends now.
func (v *view) until(stream int, p place) int64 {
	end := v.readers[stream].end()
	if p.until != open {
		end = min(end, p.until)
	}
	return end
}

func (v *view) matches(text []byte) bool { return v.match.Match(text) }

// piece returns the lines from a cursor on, in the order of their times.
func (v *view) piece(c cursor) (a wire.LogAnswer, err error) {
	for i, f := range v.feeds {
		f.at, f.until, f.buffer = c[i].at, v.until(i, c[i]), nil
		f.whole = f.whole || c[i].until != open
	}
	var heads [streams]*line
	size, full := 0, false
	for {
		var next *line
		from, scanned := 0, int64(0)
		for i, f := range v.feeds {
			if heads[i] == nil {
				if l, ok := v.nextOf(i); ok {
					heads[i] = &l
				} else if f.err != nil {
					return a, f.err
				}
			}
			scanned += f.scanned
			if l := heads[i]; l != nil && (next == nil || v.timeOf(i, l) < v.timeOf(from, next)) {
				next, from = l, i
			}
		}
		if next == nil {
			break
		}
		if next.lost > 0 || v.matches(next.text) {
			full = size > 0 && size+len(next.text)+1 > v.q.Limit || !v.add(&a, from, next)
			size += len(next.text) + 1
		}
		if full || scanned >= maxScan {
			a.More = true
			break
		}
		heads[from] = nil //nolint:gosec // it is the index of a feed
		if a.More = v.late(); a.More {
			break
		}
	}
	for i, f := range v.feeds {
		c[i].at = f.at
		if heads[i] != nil {
			c[i].at = heads[i].from
		}
	}
	a.Cursor = c.String()
	return a, nil
}

// nextOf returns the next line of a stream. A line without its end counts if it has waited: it may go on growing.
func (v *view) nextOf(stream int) (line, bool) {
	f := v.feeds[stream]
	l, ok := f.next()
	if !ok && f.err == nil && v.now-timeOf(v.moments, stream, f.at, v.now) >= waitFor.Milliseconds() {
		f.whole = true
		return f.next()
	}
	return l, ok
}

func (v *view) timeOf(stream int, l *line) int64 { return timeOf(v.moments, stream, l.from, v.now) }

// add adds a line to an answer. It reports false if the answer has no room for another block.
func (v *view) add(a *wire.LogAnswer, stream int, l *line) bool {
	b := wire.LogBlock{
		Stream: streamNames()[stream], Run: v.runOf(stream, l.from), Time: v.timeOf(stream, l), Lost: l.lost,
	}
	if n := len(a.Blocks); n > 0 {
		last := &a.Blocks[n-1]
		switch same := last.Stream == b.Stream && last.Run == b.Run; {
		case same && b.Lost > 0 && last.Lost > 0: // more text went while the reader looked for the next
			last.Lost += b.Lost
			return true
		case same && b.Lost == 0 && last.Lost == 0 && last.Time == b.Time:
			last.Text = append(append(last.Text, '\n'), l.text...)
			return true
		}
	}
	if len(a.Blocks) == wire.MaxLogBlocks {
		return false
	}
	if b.Lost == 0 {
		b.Text = bytes.Clone(l.text)
	}
	a.Blocks = append(a.Blocks, b)
	return true
}

// runOf returns the number of the run that wrote the byte at.
func (v *view) runOf(stream int, at int64) (number int) {
	for _, run := range v.runs {
		if run.ends[stream] > at {
			break
		}
		number = run.number
	}
	return number
}
