package proxy

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"drover/internal/idle"

	"drover/internal/pki"
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
	Clients() int
	Update(account string) error
}

// uplink watches the connection to the servers and keeps the enrolment up to date. An open connection proves little:
// only an answer proves that messages pass in both directions.
type uplink struct {
	requester requester
	leaf      leafLink
	state     *enrolmentState
	build     string
	log       *slog.Logger
	// news says that the enrolment may have changed.
	news chan struct{}
	// moved says that the connection to the servers changed.
	moved chan struct{}

	mu sync.Mutex
	up bool
}

func newUplink(a requester, w leafLink, h *enrolmentState, build string, log *slog.Logger) *uplink {
	return &uplink{
		requester: a, leaf: w, state: h, build: build, log: log, news: make(chan struct{}, 1),
		moved: make(chan struct{}, 1),
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

// watch tests the connection repeatedly, until ctx ends.
func (u *uplink) watch(ctx context.Context) error {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for missed := 0; ; {
		if err := u.beat(ctx); err == nil {
			missed = 0
		} else if ctx.Err() == nil {
			missed++
			u.log.DebugContext(ctx, "no answer from a server", "missed", missed, "error", err)
		}
		u.note(ctx, missed)
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

// note records whether the servers are reachable, and logs a change. When they are reachable again, it asks for the
// enrolment, which may have changed meanwhile.
func (u *uplink) note(ctx context.Context, missed int) {
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
	}
}

func (u *uplink) beat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, beatTime)
	defer cancel()
	// The proxy itself is one of the clients.
	beat := wire.Beat{Version: wire.Version, Build: u.build, Agents: max(u.leaf.Clients()-1, 0)}
	var ack wire.BeatAck
	if err := u.ask(ctx, wire.ProxyBeatSubject, beat, &ack); err != nil {
		return err
	}
	if ack.Digest != "" && ack.Digest != u.state.enrolment().Digest { // the news was lost
		u.enrolmentChanged()
	}
	return nil
}

// ask sends one message and decodes the answer.
func (u *uplink) ask(ctx context.Context, subject func(area int, proxy string) string, question, answer any) error {
	_, err := u.exchange(ctx, subject, question, answer)
	return err
}

// exchange is ask that also returns the encoded question.
func (u *uplink) exchange(ctx context.Context, subject func(area int, proxy string) string, question,
	answer any,
) (asked []byte, err error) {
	data, err := json.Marshal(question)
	if err != nil {
		return nil, fmt.Errorf("cannot encode question: %w", err)
	}
	reply, err := u.requester.Request(ctx, subject(u.state.enrolment().Area, u.state.id.public), data)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(reply, answer); err != nil {
		return nil, fmt.Errorf("cannot read answer: %w", err)
	}
	return data, nil
}

// enrolment asks for a new enrolment. The answer counts only if a server has signed it, because it decides whom the
// proxy trusts.
func (u *uplink) enrolment(ctx context.Context, csr []byte) (answer wire.RefreshAnswer, err error) {
	var sealed wire.SealedRefresh
	asked, err := u.exchange(ctx, wire.ProxyRefreshSubject,
		wire.RefreshRequest{Version: wire.Version, Nonce: rand.Text(), Certificate: csr}, &sealed)
	if err != nil {
		return answer, err
	}
	var proof pki.Proof
	if err := json.Unmarshal(sealed.Proof, &proof); err != nil {
		return answer, errors.New("cannot trust the answer: no server signed it")
	}
	if err := proof.VerifyBy(u.state.servers, wire.ProvenRefresh(asked, sealed.Answer)); err != nil {
		return answer, fmt.Errorf("cannot trust the answer: %w", err)
	}
	if err := json.Unmarshal(sealed.Answer, &answer); err != nil {
		return answer, fmt.Errorf("cannot read answer: %w", err)
	}
	return answer, nil
}

// join forwards a host's join request.
func (u *uplink) join(ctx context.Context, r wire.RelayedJoin) (wire.RelayedAnswer, error) {
	var answer wire.RelayedAnswer
	err := u.ask(ctx, wire.ProxyJoinSubject, r, &answer)
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
	// The answer may have announced a new authority.
	if csr, err = u.state.renewalRequest(time.Now()); err == nil && len(csr) > 0 {
		idle.Wake(u.news)
	}
	return err
}
