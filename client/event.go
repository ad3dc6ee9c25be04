package client

import (
	"context"
	"iter"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// Event is something that has happened to a process on a host.
type Event struct {
	// Cursor is its place in the order in which events arrived at the server.
	Cursor int64 `json:"cursor"`
	// At is when it happened, by the clock of the host.
	At         time.Time `json:"at"`
	ReceivedAt time.Time `json:"received_at"`
	Host       Host      `json:"host"`
	// Namespace and Name are empty where it is about the host.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Kind is a word such as "exited"; From and To are states, as in Process.
	Kind  string `json:"kind"`
	From  string `json:"from,omitempty"`
	To    string `json:"to,omitempty"`
	Cause *Cause `json:"cause,omitempty"`
	Actor Actor  `json:"actor,omitzero"`

	EventDetail
}

// EventDetail is what only some events have.
type EventDetail struct {
	PID  int   `json:"pid,omitempty"`
	Exit *Exit `json:"exit,omitempty"`
	// RunSeconds is how long the instance, or the command, had run.
	RunSeconds float64 `json:"run_seconds,omitempty"`
	// Output is the end of what it wrote.
	Output string `json:"output,omitempty"`
	// Attempt counts the relaunches since the budget was last full; of "events-lost" it is how many were lost.
	Attempt int     `json:"attempt,omitempty"`
	Breach  *Breach `json:"breach,omitempty"`
}

// Cause is why something is so. Its ID is stable, Text is for people.
type Cause struct {
	ID       string     `json:"id,omitempty"`
	Text     string     `json:"text,omitempty"`
	Evidence []string   `json:"evidence,omitempty"`
	Since    *time.Time `json:"since,omitempty"`
}

// Actor is who or what caused an event: caller (with App, User and Operation), policy, kernel, self or outside.
type Actor struct {
	Kind      string `json:"kind,omitempty"`
	App       string `json:"app,omitempty"`
	User      string `json:"user,omitempty"`
	Operation string `json:"operation,omitempty"`
}

// Exit is how a process or a command ended. Known is false where the kernel could not be asked.
type Exit struct {
	Known  bool       `json:"known"`
	Code   int        `json:"code"`
	Signal int        `json:"signal,omitempty"`
	Core   bool       `json:"core,omitempty"`
	OOM    bool       `json:"oom,omitempty"`
	At     *time.Time `json:"at,omitempty"`
}

// Breach is the proof of an exceeded limit, in percent of the whole machine.
type Breach struct {
	Resource string    `json:"resource"`
	Limit    float64   `json:"limit"`
	Samples  []float64 `json:"samples"`
	// Group is the process group whose limit it was, Scores how its processes stood, highest first.
	Group  string  `json:"group,omitempty"`
	Scores []Score `json:"scores,omitempty"`
}

// Score is how one process of a group stood when one was chosen.
type Score struct {
	Process ProcessID `json:"process"`
	Usage   float64   `json:"usage"`
	Limit   float64   `json:"limit,omitempty"`
	Score   float64   `json:"score"`
}

// ProcessID names a process.
type ProcessID struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// EventFilter chooses events. An empty field matches all. Namespaces and names are patterns: * is any text, ? any one
// character.
type EventFilter struct {
	Namespaces []string
	Name       string
	// Hosts are ids or cloud:ip, or patterns of those. Kinds are words of Event.Kind.
	Hosts []string
	Kinds []string
	// Since is included, Until is not; FollowEvents does not look at Until.
	Since, Until time.Time
	// Limit bounds the answer of Events; 0 does not. FollowEvents begins with so many events of the past; 0: none.
	Limit int
}

func (f *EventFilter) query() url.Values {
	query := url.Values{}
	set(query, "namespace", f.Namespaces...)
	set(query, "name", f.Name)
	set(query, "host", f.Hosts...)
	set(query, "kind", f.Kinds...)
	if !f.Since.IsZero() {
		query.Set("since", f.Since.UTC().Format(time.RFC3339Nano))
	}
	return query
}

// Events lists what has happened, the latest first.
func (c *Client) Events(ctx context.Context, f EventFilter) iter.Seq2[Event, error] {
	query := f.query()
	if !f.Until.IsZero() {
		query.Set("until", f.Until.UTC().Format(time.RFC3339Nano))
	}
	return pages[Event](ctx, c, "/events", query, f.Limit)
}

// FollowEvents yields what has happened last, the oldest first, and then each event once as it arrives, until ctx ends
// or the loop is left. An error of the first call ends it. A server that is lost later is yielded as an
// *UnreachableError; who goes on with the loop has the client come back to the server, and misses nothing. Any other
// error ends it too.
func (c *Client) FollowEvents(ctx context.Context, f EventFilter) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		past, last, err := c.recentEvents(ctx, f)
		if err != nil {
			yield(Event{}, err)
			return
		}
		seen := map[int64]bool{}
		for _, e := range slices.Backward(past) {
			seen[e.Cursor] = e.Cursor > last // it arrived while the list was read, and comes once more
			if !yield(e, nil) {
				return
			}
		}
		for e, err := range c.EventsAfter(ctx, f, last) {
			if err == nil && seen[e.Cursor] {
				continue
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// recentEvents returns the last f.Limit events, the latest first, and the cursor after which the history goes on.
func (c *Client) recentEvents(ctx context.Context, f EventFilter) (past []Event, last int64, err error) {
	var head struct {
		Last int64 `json:"last"`
	}
	query := f.query()
	query.Set("limit", strconv.Itoa(1))
	if err := c.get(ctx, "/events", query, &head); err != nil || f.Limit <= 0 {
		return nil, head.Last, err
	}
	past, err = Collect(pages[Event](ctx, c, "/events", f.query(), f.Limit))
	return past, head.Last, err
}
