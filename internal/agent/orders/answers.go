package orders

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"drover/internal/agent/record"
	"drover/internal/process"
	"drover/internal/wire"
)

// answerWithin is how long a receipt waits for the answers to the queries of its manifest. Most answers take less than
// a millisecond; slower ones go into a report.
const answerWithin = 100 * time.Millisecond

// maxAnswers is how many bytes of answers fit into a receipt, beside its items; reports carry the rest.
const maxAnswers = wire.MaxReport / 2

// answers has the queries that are still open: receipts wait for their answers, or the answers go into a report.
type answers struct {
	mu   sync.Mutex
	open map[string]*answer // by item
}

// answer is one open query.
type answer struct {
	done    chan struct{} // closed when outcome is set
	outcome process.Outcome
	// begun says that the query has begun and that limit is its time limit.
	begun bool
	limit time.Duration
	// late says that the answer goes into a report, even if a receipt still waits for it.
	late bool
}

func newAnswers() *answers { return &answers{open: map[string]*answer{}} }

// adopt takes over the queries of an earlier agent. Reports carry their answers. If such a query arrives again, the
// agent does not run it twice.
func (a *answers) adopt(left []record.Entry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range left {
		if e.Op == process.Query {
			a.open[e.Item] = &answer{done: make(chan struct{}), late: true}
		}
	}
}

// expect returns the answers to wait for, and the queries to submit. It leaves out a query that is already under way.
func (a *answers) expect(questions []record.Entry) (expected []*answer, ask []record.Entry) {
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

// began records the time limit of a query that begins; false says that the answer goes into a report.
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

// resolve passes an answer to the receipts that wait for it; false says that the answer goes into a report too.
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

// settle ends the wait for an answer. If the answer is not there yet, it goes into a report. If the query has begun,
// settle then calls began while it holds the lock, so that nobody learns of the end first.
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

// await waits for all answers, for answerWithin, or until ctx ends. It returns the indexes of the missing answers.
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

// answer runs queries, and adds to the receipt the outcomes that are ready now. The receipt accepts the queries that
// are on disk and get their answer in a report. The server must resend all other queries.
func (i *Intake) answer(ctx context.Context, questions []record.Entry, receipt *wire.Receipt) {
	boot := i.cfg.Disk.BootID() // the journal does this for commands
	for n := range questions {
		questions[n].Boot = boot
	}
	answers, reports := i.cfg.Tracker.answers, i.cfg.Tracker.reports
	expected, ask := answers.expect(questions)
	i.cfg.Metrics.Accepted(len(ask))
	i.cfg.Questions.Submit(ask)
	open := await(ctx, expected)
	// The receiver of an answer must also see the matching state and its events. While the server lacks those, the
	// answers follow them in a report.
	behind := reports.Behind()
	if behind {
		open = open[:0]
		for n := range questions {
			open = append(open, n)
		}
	}
	isNoted, err := i.storeOpen(questions, open)
	if err != nil {
		i.cfg.Log.Error("cannot store queries", "error", err)
	}
	receipt.Answers = map[string]process.Outcome{}
	room := maxAnswers
	for n, e := range expected {
		item := questions[n].Item
		outcome, answered := answers.settle(e, func(limit time.Duration) {
			reports.Began(item, limit)
			if isNoted[item] {
				receipt.Begun[item] = inSeconds(limit)
			}
		})
		if !answered || behind {
			if answered {
				reports.Finished(item, outcome)
			}
			if isNoted[item] {
				receipt.Accepted = append(receipt.Accepted, item)
			}
			continue
		}
		size := sizeOf(outcome)
		fits := size <= room
		if fits {
			room -= size
			receipt.Answers[item] = outcome
		}
		if !fits || isNoted[item] { // the report's acknowledgement drops the stored query
			reports.Finished(item, outcome)
		}
	}
}

// storeOpen stores the open queries for the next agent. It must precede the report with their answers: if that report
// were acknowledged first, the stored query would stay.
func (i *Intake) storeOpen(questions []record.Entry, open []int) (noted map[string]bool, err error) {
	if len(open) == 0 {
		return nil, nil
	}
	entries := make([]record.Entry, 0, len(open))
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
		return maxAnswers + 1 // the reporter reports the error
	}
	return len(text)
}
