//nolint:thelper // what runs in a bubble is the test itself
package engine_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/engine"
	"drover/internal/server/store"
	"drover/internal/wire"
)

// answering is a link to agents that answer everything at once.
func answering(text string) linkFunc {
	return func(_ context.Context, _ string, m *wire.Manifest) (*wire.Receipt, error) {
		r := &wire.Receipt{Version: wire.Version, Answers: map[string]process.Outcome{}}
		for _, o := range m.Orders {
			r.Answers[o.Item] = process.Outcome{Text: text, Status: &process.Status{Message: text}}
		}
		return r, nil
	}
}

// TestAnswersInTheReceipt end what was asked, without another message, and wake who waits and what comes next.
func TestAnswersInTheReceipt(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.answer(answering("up"))
		begin := time.Now()
		r.submit("t", process.Query, "agent-0", "agent-1")
		if err := r.Wait(t.Context(), "t"); err != nil {
			t.Fatal(err)
		}
		r.shows("t", "up", "up")
		r.submit("next", process.Query, "agent-0")
		r.pass(2 * time.Millisecond) // the two answers may have shared a write; the next item waits for no other timer
		r.shows("next", "up")
		if took := time.Since(begin); took > time.Second {
			t.Errorf("it took %v", took)
		}
		r.taken()
		r.pass(time.Hour)
		if n := len(r.taken()); n != 0 {
			t.Errorf("%d manifests were sent after the answers", n)
		}
	})
}

// TestLongAnswers: of what an agent has not cut the server keeps the two ends.
func TestLongAnswers(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.answer(answering("begin" + strings.Repeat("x", 1<<20) + "end"))
		r.submit("t", process.Query, "agent-0")
		err := r.db.TaskItems(t.Context(), "t", "", func(v store.ItemView) error {
			for _, text := range []string{v.Outcome.Text, v.Outcome.Status.Message} {
				if len(text) > 129<<10 || !strings.HasPrefix(text, "begin") || !strings.HasSuffix(text, "end") {
					t.Errorf("%d bytes are kept: %.20q…", len(text), text)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// TestAnswersToWhatWasNotAsked are ignored: a receipt speaks for its manifest and for nothing else, and an answer
// counts for more than what else it says of an item.
func TestAnswersToWhatWasNotAsked(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.submit("running", process.Start, "agent-0")
		r.submit("elsewhere", process.Start, "agent-1")
		var others []string
		for _, m := range r.taken() {
			others = append(others, m.Orders[0].Item)
		}
		r.answer(func(ctx context.Context, agent string, m *wire.Manifest) (*wire.Receipt, error) {
			receipt, err := answering("up")(ctx, agent, m)
			for _, item := range others {
				receipt.Answers[item] = process.Outcome{Text: "forged"}
			}
			receipt.Accepted = append(receipt.Accepted, m.Orders[0].Item)
			return receipt, err
		})
		request := store.Request{
			Op: process.Query, Process: process.ID{Namespace: "ns", Name: "other"}, Spec: &process.Spec{},
			Targets: []store.Target{{ItemKey: "a", Spelling: "a", Agent: "agent-0"}},
		}
		if err := r.Submit(t.Context(), &store.Task{ID: "t", Requests: []store.Request{request}},
			store.AuditRow{}); err != nil {
			t.Fatal(err)
		}
		r.shows("t", "up")
		r.pass(time.Second) // receipts are written down
		r.shows("running", "")
		r.shows("elsewhere", "")
		r.shows("t", "up")
	})
}

// unwilling is a store that takes no outcomes for some time.
type unwilling struct {
	engine.Store
	fails atomic.Bool
	tried atomic.Int32
}

func (s *unwilling) Finish(ctx context.Context, given []store.ReportedOutcome) ([]string, error) {
	s.tried.Add(1)
	if s.fails.Load() {
		return nil, errors.New("disk full")
	}
	return s.Store.Finish(ctx, given)
}

// TestAnswersThatCannotBeStored: nothing is kept of them, here or at the agent, which is asked once more when the lease
// has ended.
func TestAnswersThatCannotBeStored(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.stop()
		db := &unwilling{}
		db.fails.Store(true)
		r.wrap = func(s engine.Store) engine.Store { db.Store = s; return db }
		r.start()
		r.answer(answering("up"))
		r.submit("t", process.Query, "agent-0")
		first := r.takenOne()
		r.shows("t", "")
		if db.tried.Load() == 0 {
			t.Fatal("nothing was tried")
		}
		db.fails.Store(false)
		r.pass(7*time.Second - time.Millisecond)
		if n := len(r.taken()); n != 0 {
			t.Errorf("it was asked %d times again while it was leased", n)
		}
		r.pass(time.Second)
		if again := r.takenOne(); again.Item != first.Item {
			t.Errorf("asked again as %s, first as %s", again.Item, first.Item)
		}
		r.shows("t", "up")
	})
}
