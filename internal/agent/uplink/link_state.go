package uplink

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"drover/internal/agent/uplink/linkstate"
	"drover/internal/idle"
	"drover/internal/wire"
)

// LinkState says what the agent and its server may do: the machine of package linkstate, its timer, and the callers
// that wait for it. The link, the reports and the orders report what they see, and ask what they may do. It is safe for
// concurrent use; only its methods with a context block.
type LinkState struct {
	log *slog.Logger
	// due says that the agent must introduce itself at once, linked that there is a new link.
	due, linked chan struct{}
	released    chan struct{}

	mu      sync.Mutex
	machine linkstate.Machine
	// takesOrders is closed while the machine takes orders; after that, a new channel replaces it.
	takesOrders chan struct{}
	// limit is the machine's timer, 0 for none. The timer itself runs only between start and stop.
	limit   time.Duration
	timer   *time.Timer
	running bool
	// reason is the last logged reason of a rejection.
	reason wire.Stranger
}

// NewLinkState returns the link state of an agent that has just started. Its time begins with the Run of
// its Link.
func NewLinkState(log *slog.Logger) *LinkState {
	s := &LinkState{
		log: log, due: make(chan struct{}, 1), linked: make(chan struct{}, 1), released: make(chan struct{}),
		takesOrders: make(chan struct{}),
	}
	m, actions := linkstate.New()
	s.machine = m
	s.perform(actions)
	return s
}

// start starts the machine's timer.
func (s *LinkState) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = true
	s.setTimer(s.limit)
}

// stop stops the timer: after that, no timer releases anything.
func (s *LinkState) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = false
	s.setTimer(0)
}

// Connected notes that there is a new link.
func (s *LinkState) Connected() {
	s.step(linkstate.Connected{})
	idle.Wake(s.linked)
}

// Lost notes that the link is down.
func (s *LinkState) Lost() { s.step(linkstate.Lost{}) }

// Outdated records that the agent's introduction has changed, or that the server asks for it: the agent introduces
// itself again.
func (s *LinkState) Outdated() { s.step(linkstate.Outdated{}) }

// Accepted notes that the server has accepted an introduction, and that its answer was applied. more says that the
// answer requires another introduction.
func (s *LinkState) Accepted(more bool) { s.step(linkstate.Accepted{More: more}) }

// Refused notes that the server has answered without accepting a report.
func (s *LinkState) Refused() { s.step(linkstate.Refused{}) }

// Rejected notes that the server does not accept the agent as the owner of its key. It logs each reason once.
func (s *LinkState) Rejected(why wire.Stranger) {
	s.mu.Lock()
	known := s.reason == why
	s.reason = why
	s.stepLocked(linkstate.Rejected{Certain: why.Clone})
	s.mu.Unlock()
	if known {
		return
	}
	const message = "server rejects the identity of this agent"
	if why.Clone {
		s.log.Error(message, "reason", why.Reason)
	} else {
		s.log.Warn(message, "reason", why.Reason)
	}
}

// BeginReport reports whether the next report must introduce the agent. The caller sends the report, and records its
// result here before the next BeginReport.
func (s *LinkState) BeginReport() (introduce bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, done := range []chan struct{}{s.due, s.linked} { // this report covers both
		select {
		case <-done:
		default:
		}
	}
	if introduce = s.machine.MustIntroduce(); introduce {
		s.machine, _ = s.machine.Step(linkstate.Sent{})
	}
	return introduce
}

// IntroductionDue is readable when the agent must introduce itself at once, Linked when there is a new link. Both have
// one reader, which makes the reports.
func (s *LinkState) IntroductionDue() <-chan struct{} { return s.due }

// Linked is readable when there is a new link.
func (s *LinkState) Linked() <-chan struct{} { return s.linked }

// Released is closed when the agent may begin the work that its disk asks for: the server has sent its records, or the
// agent waits no longer.
func (s *LinkState) Released() <-chan struct{} { return s.released }

// Now returns the machine as it is now.
func (s *LinkState) Now() linkstate.Machine {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.machine
}

// AwaitOrders blocks until the agent takes orders, at most for limit, and reports whether it does.
func (s *LinkState) AwaitOrders(ctx context.Context, limit time.Duration) bool {
	s.mu.Lock()
	takes, taken := s.machine.TakesOrders(), s.takesOrders
	s.mu.Unlock()
	if takes {
		return true
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-taken:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

func (s *LinkState) step(ev linkstate.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stepLocked(ev)
}

func (s *LinkState) stepLocked(ev linkstate.Event) {
	took := s.machine.TakesOrders()
	var actions []linkstate.Action
	s.machine, actions = s.machine.Step(ev)
	switch takes := s.machine.TakesOrders(); {
	case takes && !took:
		s.reason = wire.Stranger{}
		close(s.takesOrders)
	case took && !takes:
		s.takesOrders = make(chan struct{})
	}
	s.perform(actions)
}

// perform performs the actions of the machine; the caller holds the lock.
func (s *LinkState) perform(actions []linkstate.Action) {
	for _, a := range actions {
		switch a := a.(type) {
		case linkstate.Introduce:
			idle.Wake(s.due)
		case linkstate.Arm:
			s.setTimer(a.After)
		case linkstate.Disarm:
			s.setTimer(0)
		case linkstate.Release:
			if a.Unconfirmed {
				s.log.Warn("server did not confirm the records on this disk, continuing without confirmation")
			}
			close(s.released)
		}
	}
}

// setTimer replaces the timer; 0 is no timer. The caller holds the lock.
func (s *LinkState) setTimer(after time.Duration) {
	s.limit = after
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	if after == 0 || !s.running {
		return
	}
	var own *time.Timer
	own = time.AfterFunc(after, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.timer == own { // otherwise it fired and was replaced at the same moment
			s.timer, s.limit = nil, 0
			s.stepLocked(linkstate.Expired{})
		}
	})
	s.timer = own
}
