package uplink

import (
	"context"
	"time"

	"drover/internal/frame"
)

// Handler handles the body of a message of the server. It returns the body of the answer, or nil if the server must
// send the message again.
type Handler func(ctx context.Context, body []byte) (answer []byte)

// waitForStanding is how long a message waits until the agent accepts orders. The server resends a message that got no
// answer.
const waitForStanding = 2 * time.Second

// answer opens a frame of the server, which must be of kind asks, and returns the answer to it as a frame of kind
// answers; nil if there is none. A frame counts once, near its time, and only while the server accepts the agent. A
// rejected frame gets a hint for the log of whoever has sent it.
func (l *Link) answer(ctx context.Context, asks, answers frame.Kind, data []byte, handle Handler) []byte {
	if !l.AwaitOrders(ctx, waitForStanding) {
		return nil
	}
	pair, head, body, err := l.open(asks, data)
	if err == nil {
		err = l.clock.Admit(head)
	}
	if err != nil {
		l.log.Warn("rejected message", "expected", asks, "error", err)
		return frame.Hint(err.Error())
	}
	answer := handle(ctx, body)
	if answer == nil {
		return nil
	}
	sealed, _, err := pair.Seal(answers, l.clock.Now(), head.Nonce, answer)
	if err != nil {
		l.log.Error("cannot seal an answer", "error", err)
		return nil
	}
	return sealed
}

// here answers a ping, and calls pinged. A copy of a ping proves nothing: the answer is for its own ping only.
func (l *Link) here(data []byte, pinged func()) []byte {
	pair, head, _, err := l.open(frame.Ping, data)
	if err != nil {
		l.log.Warn("rejected message", "expected", frame.Ping, "error", err)
		return frame.Hint(err.Error())
	}
	if l.clock.Admit(head) == nil { // a ping that somebody resends asks for nothing
		pinged()
	}
	sealed, _, err := pair.Seal(frame.Here, l.clock.Now(), head.Nonce, nil)
	if err != nil {
		l.log.Error("cannot seal an answer", "error", err)
		return nil
	}
	return sealed
}

// open opens a frame of the server, by any key of the fleet that the agent trusts.
func (l *Link) open(kind frame.Kind, data []byte) (pair *frame.Pair, head frame.Head, body []byte, err error) {
	if head, err = frame.Read(data); err != nil {
		return nil, head, nil, err
	}
	e := l.trust.current()
	if pair, err = l.sealing.Named(e.Fleet, e.SealingKeys, head.Pair); err != nil {
		return nil, head, nil, err
	}
	head, body, err = pair.Open(kind, data, frame.Nonce{})
	return pair, head, body, err
}
