package orders

import (
	"context"
	"encoding/json"

	"drover/internal/wire"
)

// Ask returns the answer to a question about a log or about processes; nil if there is none. It stores nothing.
func (i *Intake) Ask(ctx context.Context, question []byte) (answer []byte) {
	answer, err := json.Marshal(i.ask(ctx, question))
	if err != nil {
		i.cfg.Log.Error("cannot encode answer to a question", "error", err)
		return nil
	}
	return answer
}

func (i *Intake) ask(ctx context.Context, question []byte) any {
	var q wire.Question
	err := json.Unmarshal(question, &q)
	if err == nil && q.Version > wire.Version {
		err = wire.ErrVersion
	}
	switch {
	case err != nil:
		i.cfg.Log.Warn("rejected question", "error", err)
		return wire.LogAnswer{Error: "question refused: " + err.Error()}
	case q.Live != nil && len(q.Live.Processes) > wire.MaxLive:
		return wire.LiveAnswer{Error: "question refused: it names too many processes"}
	case q.Live != nil:
		return i.cfg.Logs.Live(ctx, *q.Live)
	case q.Usage != nil:
		return i.cfg.Logs.Usage(ctx, *q.Usage)
	case q.Log == nil:
		return wire.LogAnswer{Error: "question refused: it asks for nothing"}
	}
	return i.cfg.Logs.Answer(ctx, *q.Log)
}
