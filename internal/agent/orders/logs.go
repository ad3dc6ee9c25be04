package orders

import (
	"context"
	"encoding/json"

	"drover/internal/wire"
)

// Ask verifies a manifest with a question about a log or about running processes, and returns the signed answer; nil if
// there is none. It stores nothing. A copy of an old question gets no answer: what it asks for may be new.
func (i *Intake) Ask(ctx context.Context, manifest []byte) (answer []byte) {
	if !i.cfg.Link.AwaitOrders(ctx, waitForStanding) {
		return nil
	}
	answer, err := json.Marshal(i.ask(ctx, manifest))
	if err == nil {
		answer, err = i.cfg.Link.SealReceipt(answer, manifest)
	}
	if err != nil {
		i.cfg.Log.Error("cannot encode answer to a question", "error", err)
		return nil
	}
	return answer
}

func (i *Intake) ask(ctx context.Context, manifest []byte) any {
	m, err := i.cfg.Link.OpenManifest(manifest)
	if err == nil {
		err = i.freshness.admitQuestion(m.Issued, i.cfg.Wall())
	}
	switch {
	case err != nil:
		i.cfg.Log.Warn("rejected question", "error", err)
		return wire.LogAnswer{Error: "question refused: " + err.Error()}
	case m.Live != nil && len(m.Live.Processes) > wire.MaxLive:
		return wire.LiveAnswer{Error: "question refused: it names too many processes"}
	case m.Live != nil:
		return i.cfg.Logs.Live(ctx, *m.Live)
	case m.Log == nil:
		return wire.LogAnswer{Error: "question refused: it asks for nothing"}
	}
	return i.cfg.Logs.Answer(ctx, *m.Log)
}
