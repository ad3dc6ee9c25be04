package frame

import (
	"sync"
	"time"
)

// Clock is the clock of the servers at a member, as their answers show it. It is late by the time that an answer took
// at most. It admits each frame of the servers once, near its time. It is safe for concurrent use.
type Clock struct {
	// since is the time since some moment, which nobody can step.
	since func() time.Duration

	mu sync.Mutex
	// at is the time of the last answer, which came at read by since; zero before the first one.
	at   time.Time
	read time.Duration
	// window begins with the first question that was answered: nobody knows which frames came before.
	window *Window
}

// NewClock returns a clock that is unknown before the first Set. since is the time since some moment, such as the boot
// of the host; nobody can step it.
func NewClock(since func() time.Duration) *Clock { return &Clock{since: since} }

// ServersApart is how far the clocks of servers may differ: they go by the clock of their database.
const ServersApart = time.Second

// Reading returns the time that Set needs of a question, when it is sent.
func (c *Clock) Reading() time.Duration { return c.since() }

// Set takes the time of an answer that has just come. asked is the Reading when its question was sent.
func (c *Clock) Set(at time.Time, asked time.Duration) {
	if at.IsZero() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.read = at, c.since()
	if c.window == nil { // a server sends frames even before its first answer
		c.window = NewWindow(at.Add(asked - c.read - ServersApart))
	}
}

// Admit admits a frame of the servers that has been opened; see Window. It returns ErrStale while the clock is unknown.
func (c *Clock) Admit(h Head) error {
	now := c.Now()
	if now.IsZero() {
		return ErrStale
	}
	return c.window.Admit(h, now) // set before at is
}

// Now returns the time of the servers; zero if it is unknown.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() {
		return time.Time{}
	}
	return c.at.Add(c.since() - c.read)
}
