package orders

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"drover/internal/agent/specstore"
	"drover/internal/process"
	"drover/internal/wire"
)

// answerWithin is how long a receipt waits for the answers to the questions that came with its orders. Most take less
// than a millisecond; those that take longer are told in a report.
const answerWithin = 100 * time.Millisecond

// maxAnswers is how many bytes of answers there are in a receipt; what is beyond that is told in reports.
const maxAnswers = wire.MaxMessage / 4

// answers are the questions that have no answer yet: receipts wait for it, or it goes into a report.
type answers struct {
	mu   sync.Mutex
	open map[string]*answer // by item
}

// answer is what becomes of one question.
type answer struct {
	done    chan struct{} // closed when outcome is set
	outcome process.Outcome
	// begun says that limit, which is how long it may take, is known.
	begun bool
	limit time.Duration
	// late says that the answer goes into a report, whoever else waits for it.
	late bool
}

func newAnswers() *answers { return &answers{open: map[string]*answer{}} }

// adopt takes over the questions that an earlier agent has left. They are answered in reports, and one that comes again
// is not asked twice.
func (a *answers) adopt(left []specstore.Entry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range left {
		if e.Op == process.Query {
			a.open[e.Item] = &answer{done: make(chan struct{}), late: true}
		}
	}
}

// expect returns the answers that are waited for from now on, and the questions that are still to be asked: one that
// came before, and is not answered, is not asked twice.
func (a *answers) expect(questions []specstore.Entry) (expected []*answer, ask []specstore.Entry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, q := range questions {
		e, known := a.open[q.Item]
		if !known {
			e = &answer{done: make(chan struct{})}
			a.open[q.Item] = e
			ask = append(ask, q)
		}
		expected = append(expected, e)
	}
	return expected, ask
}

// began notes how long the answer may take; false says that it goes into a report.
func (a *answers) began(item string, limit time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	e, ok := a.open[item]
	if !ok || e.late {
		return false
	}
	e.begun, e.limit = true, limit
	return true
}

// resolve hands an answer to the receipts that wait for it; false says that it goes into a report, too.
func (a *answers) resolve(item string, outcome process.Outcome) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	e, ok := a.open[item]
	if !ok {
		return false
	}
	delete(a.open, item)
	e.outcome = outcome
	close(e.done)
	return !e.late
}

// settle ends the wait for an answer: if it is not there now it goes into a report, and began is called if the question
// has begun, before anybody can hear that it is over.
func (a *answers) settle(e *answer, began func(limit time.Duration)) (outcome process.Outcome, answered bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-e.done:
		return e.outcome, true
	default:
	}
	if !e.late && e.begun {
		began(e.limit)
	}
	e.late = true
	return process.Outcome{}, false
}

// await returns when all have been answered, when that has taken too long, or when ctx has ended; and which were not.
func await(ctx context.Context, expected []*answer) (open []int) {
	patience := time.NewTimer(answerWithin)
	defer patience.Stop()
	over := false
	for i, e := range expected {
		if !over {
			select {
			case <-e.done:
			case <-patience.C:
				over = true
			case <-ctx.Done():
				over = true
			}
		}
		select {
		case <-e.done:
		default:
			open = append(open, i)
		}
	}
	return open
}

// answer has questions answered. It returns the outcomes of those that are so at once, and the items of those that are
// noted on disk, to be answered in a report. What is neither has to be sent again.
func (i *Intake) answer(ctx context.Context,
	questions []specstore.Entry,
) (soon map[string]process.Outcome, noted []string) {
	if len(questions) == 0 {
		return nil, nil
	}
	boot := i.cfg.Disk.BootID() // as of a command when it is journalled
	for n := range questions {
		questions[n].Boot = boot
	}
	answers, reports := i.cfg.Tracker.answers, i.cfg.Tracker.reports
	expected, ask := answers.expect(questions)
	i.cfg.Metrics.Accepted(len(ask))
	i.cfg.Questions.Submit(ask)
	open := await(ctx, expected)
	// Whoever hears the answer is to see the state that belongs to it, and how that came about: as long as the server
	// does not have these the answer comes behind them, in a report.
	behind := reports.Behind()
	if behind {
		open = open[:0]
		for n := range questions {
			open = append(open, n)
		}
	}
	isNoted, err := i.note(questions, open)
	if err != nil {
		i.cfg.Log.Error("cannot store queries", "error", err)
	}
	soon = map[string]process.Outcome{}
	room := maxAnswers
	for n, e := range expected {
		item := questions[n].Item
		outcome, answered := answers.settle(e, func(limit time.Duration) { reports.Began(item, limit) })
		if !answered || behind {
			if answered {
				reports.Finished(item, outcome)
			}
			if isNoted[item] {
				noted = append(noted, item)
			}
			continue
		}
		size := sizeOf(outcome)
		fits := size <= room
		if fits {
			room -= size
			soon[item] = outcome
		}
		if !fits || isNoted[item] { // the note is dropped when the report has arrived
			reports.Finished(item, outcome)
		}
	}
	return soon, noted
}

// note has the open questions noted on disk, for this agent's successor. It comes before their answers go into reports:
// a report that was acknowledged first would leave the note behind.
func (i *Intake) note(questions []specstore.Entry, open []int) (noted map[string]bool, err error) {
	if len(open) == 0 {
		return nil, nil
	}
	entries := make([]specstore.Entry, 0, len(open))
	for _, n := range open {
		entries = append(entries, questions[n])
	}
	if _, _, err := i.cfg.Disk.Accept(entries); err != nil {
		return nil, err
	}
	noted = map[string]bool{}
	for _, e := range entries {
		noted[e.Item] = true
	}
	return noted, nil
}

// sizeOf is about how many bytes an outcome takes in a receipt.
func sizeOf(o process.Outcome) int {
	text, err := json.Marshal(o)
	if err != nil {
		return maxAnswers + 1 // the reporter says why it can't be told
	}
	return len(text)
}
