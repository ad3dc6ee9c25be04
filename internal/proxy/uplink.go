package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"drover/internal/frame"
	"drover/internal/idle"
	"drover/internal/wire"
)

const (
	beatEvery   = 5 * time.Second
	beatTime    = 4 * time.Second
	beatsMissed = 3 // in a row, over a connection that seems to work: then the proxy reconnects
	refreshTime = 10 * time.Second
	// refreshEvery is how often the proxy asks for its enrolment without a sign of a change. refreshAgain is the pause
	// after a failed attempt.
	refreshEvery = time.Hour
	refreshAgain = 10 * time.Second
)

// requester sends requests to the servers.
type requester interface {
	Request(ctx context.Context, subject string, data []byte) ([]byte, error)
}

// leafLink is the leaf node connection to the servers, as the proxy's relay sees it.
type leafLink interface {
	Joined() bool
	Rejoin() error
	SendAway() error
	Clients() int
	Update(account string) error
}

// uplink watches the connection to the servers and keeps the enrolment up to date. An open connection proves little:
// only an answer proves that messages pass in both directions. All messages are frames.
type uplink struct {
	requester requester
	leaf      leafLink
	state     *enrolmentState
	// clock is the clock of the fleet, as the answers to beats show it.
	clock *frame.Clock
	build string
	log   *slog.Logger
	// alive gives a sign of life of the proxy.
	alive func()
	// news says that the enrolment may have changed.
	news chan struct{}
	// moved says that the connection to the servers changed.
	moved chan struct{}

	mu sync.Mutex
	up bool
}

func newUplink(a requester, w leafLink, h *enrolmentState, build string, log *slog.Logger) *uplink {
	begun := time.Now()
	return &uplink{
		requester: a, leaf: w, state: h, clock: frame.NewClock(func() time.Duration { return time.Since(begun) }),
		build: build, log: log, alive: func() {}, news: make(chan struct{}, 1), moved: make(chan struct{}, 1),
	}
}

// ready returns why no server is reachable; nil if one is.
func (u *uplink) ready() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.up {
		return errors.New("this proxy does not reach its servers")
	}
	return nil
}

// enrolmentChanged wakes keep. It does not block.
func (u *uplink) enrolmentChanged() { idle.Wake(u.news) }

// hear handles a frame of the servers which says that the enrolment may have changed.
func (u *uplink) hear(data []byte) {
	e := u.state.enrolment()
	head, err := frame.Read(data)
	var pair *frame.Pair
	if err == nil {
		pair, err = u.state.id.sealing.Named(e.Fleet, e.SealingKeys, head.Pair)
	}
	if err == nil {
		head, _, err = pair.Open(frame.Change, data, frame.Nonce{})
	}
	if err == nil {
		err = u.clock.Admit(head)
	}
	if err != nil {
		u.log.Warn("rejected message", "expected", frame.Change, "error", err)
		return
	}
	u.enrolmentChanged()
}

// watch tests the connection repeatedly, until ctx ends.
func (u *uplink) watch(ctx context.Context) error {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	told := ""
	for missed := 0; ; {
		if err := u.beat(ctx); err == nil {
			missed = 0
		} else if ctx.Err() == nil {
			missed++
			u.log.DebugContext(ctx, "no answer from a server", "missed", missed, "error", err)
			if hint, ok := errors.AsType[*frame.HintError](err); ok && hint.Text != told {
				told = hint.Text
				u.log.WarnContext(ctx, "server does not accept the messages of this proxy", "error", err)
			}
		}
		u.alive()
		u.recordMissed(ctx, missed)
		if missed >= beatsMissed {
			missed = 0
			if u.leaf.Joined() {
				u.log.WarnContext(ctx, "closed connection to the server: it is open, but nothing comes through")
				if err := u.leaf.Rejoin(); err != nil {
					u.log.ErrorContext(ctx, "cannot reconnect to the server", "error", err)
				}
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// recordMissed records whether the servers are reachable, and logs a change. When they are unreachable, it sends the
// agents away once: they may reach another proxy, and would notice the silence of the servers much later. When the
// servers are reachable again, it asks for the enrolment, which may have changed meanwhile.
func (u *uplink) recordMissed(ctx context.Context, missed int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case missed == 0 && !u.up:
		u.up = true
		u.log.InfoContext(ctx, "reached servers")
		u.enrolmentChanged()
	case missed >= beatsMissed && u.up:
		u.up = false
		u.log.WarnContext(ctx, "servers are unreachable")
		if err := u.leaf.SendAway(); err != nil {
			u.log.ErrorContext(ctx, "cannot send the agents to another proxy", "error", err)
		}
	}
}

// beat sends a heartbeat. The first one has no time, and so does not show that the proxy is online: a second one
// follows.
func (u *uplink) beat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, beatTime)
	defer cancel()
	for range 2 {
		// The proxy itself is one of the clients.
		beat := wire.Beat{Version: wire.Version, Build: u.build, Agents: max(u.leaf.Clients()-1, 0)}
		timed, asked := !u.clock.Now().IsZero(), u.clock.Reading()
		var ack wire.BeatAck
		at, err := u.ask(ctx, question{wire.ProxyBeatSubject, frame.Beat, frame.Digest}, beat, &ack)
		if err != nil {
			return err
		}
		u.clock.Set(at, asked)
		if ack.Digest != "" && ack.Digest != u.state.enrolment().Digest { // the news was lost
			u.enrolmentChanged()
		}
		if timed {
			return nil
		}
	}
	return nil
}

// question is a question to the servers: its subject, its kind, and the kind of its answer.
type question struct {
	subject       func(area int, proxy string) string
	asks, answers frame.Kind
}

// ask sends a question to the servers and decodes the answer. It returns the time of the fleet when the answer was
// sealed.
func (u *uplink) ask(ctx context.Context, q question, body, answer any) (at time.Time, err error) {
	e := u.state.enrolment()
	pair, err := u.state.id.sealing.Present(e.Fleet, e.SealingKeys)
	if err != nil {
		return at, err
	}
	data, err := json.Marshal(body)
	if err != nil {
		return at, fmt.Errorf("cannot encode question: %w", err)
	}
	data, nonce, err := pair.Seal(q.asks, u.clock.Now(), frame.Nonce{}, data)
	if err != nil {
		return at, err
	}
	reply, err := u.requester.Request(ctx, q.subject(e.Area, u.state.id.public), data)
	if err != nil {
		return at, err
	}
	head, told, err := pair.Open(q.answers, reply, nonce)
	if err := u.state.id.sealing.Answered(pair, e.SealingKeys, err); err != nil {
		u.log.Error("cannot drop former sealing key", "error", err)
	}
	// The servers may not have the proxy's newest key, which a refresh announces. A refresh that fails has a pause of
	// its own.
	if _, hinted := errors.AsType[*frame.HintError](err); hinted && q.asks != frame.Refresh {
		u.enrolmentChanged()
	}
	if err != nil {
		return at, fmt.Errorf("cannot trust the answer: %w", err)
	}
	if err := json.Unmarshal(told, answer); err != nil {
		return at, fmt.Errorf("cannot read answer: %w", err)
	}
	return head.Time, nil
}

// timed makes the proxy know the clock of the fleet, because questions must have their time. The answer to a beat has
// the time.
func (u *uplink) timed(ctx context.Context) error {
	if !u.clock.Now().IsZero() {
		return nil
	}
	return u.beat(ctx)
}

// enrolment asks for a new enrolment, and announces the proxy's new sealing key if it has one. The answer decides whom
// the proxy trusts.
func (u *uplink) enrolment(ctx context.Context, csr []byte) (answer wire.RefreshAnswer, err error) {
	if err := u.timed(ctx); err != nil {
		return answer, err
	}
	sealing, err := u.state.newSealing(u.clock.Now())
	if err != nil {
		return answer, err
	}
	_, err = u.ask(ctx, question{wire.ProxyRefreshSubject, frame.Refresh, frame.Enrolment},
		wire.RefreshRequest{Version: wire.Version, Certificate: csr, Sealing: sealing}, &answer)
	if err == nil && answer.Error == "" && len(sealing) > 0 {
		u.state.id.sealing.Taken()
	}
	return answer, err
}

// join forwards a host's join request.
func (u *uplink) join(ctx context.Context, r wire.RelayedJoin) (wire.RelayedAnswer, error) {
	var answer wire.RelayedAnswer
	err := u.timed(ctx)
	if err == nil {
		_, err = u.ask(ctx, question{wire.ProxyJoinSubject, frame.Join, frame.Joined}, r, &answer)
	}
	if err == nil && (answer.Status < 200 || answer.Status > 599) {
		err = fmt.Errorf("cannot pass on the status %d", answer.Status)
	}
	return answer, err
}

// keep asks for the enrolment whenever it may have changed, until ctx ends.
func (u *uplink) keep(ctx context.Context) error {
	timer := time.NewTimer(refreshEvery)
	defer timer.Stop()
	for {
		select {
		case <-u.news:
		case <-timer.C:
		case <-ctx.Done():
			return nil
		}
		next := refreshEvery
		if err := u.refresh(ctx); err != nil && ctx.Err() == nil {
			u.log.WarnContext(ctx, "cannot renew enrolment", "error", err)
			next = refreshAgain
		}
		timer.Reset(next)
	}
}

func (u *uplink) refresh(ctx context.Context) error {
	csr, err := u.state.renewalRequest(time.Now())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, refreshTime)
	defer cancel()
	answer, err := u.enrolment(ctx, csr)
	if err != nil {
		return err
	}
	switch {
	case answer.Version > wire.Version:
		return wire.ErrVersion
	case answer.Error != "":
		return errors.New(answer.Error)
	case answer.Enrolment == nil:
		return errors.New("the answer is empty")
	}
	made, err := u.state.replace(*answer.Enrolment)
	if err != nil {
		return err
	}
	if made.account {
		if err := u.leaf.Update(answer.Enrolment.Account); err != nil {
			return err
		}
	}
	if made.uplink {
		idle.Wake(u.moved)
	}
	if len(csr) > 0 {
		u.log.InfoContext(ctx, "renewed certificate", "ends", u.state.certificate().Leaf.NotAfter)
		return nil
	}
	if _, _, announce := u.state.id.sealing.Newest(); announce { // the answer had another key of the fleet
		idle.Wake(u.news)
	}
	// The answer may have announced a new authority.
	if csr, err = u.state.renewalRequest(time.Now()); err == nil && len(csr) > 0 {
		idle.Wake(u.news)
	}
	return err
}
