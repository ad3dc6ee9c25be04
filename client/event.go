package client

import (
	"context"
	"iter"
	"net/url"
	"slices"
	"strconv"
	"time"

	v1 "drover/api/v1"
)

// EventFilter selects events. An empty field matches all. Namespaces and names are patterns: * matches any text, ? one
// character.
type EventFilter struct {
	Namespaces []string
	Name       string
	// Hosts are ids or cloud:ip, or patterns of either. Kinds are values of Event.Kind.
	Hosts []string
	Kinds []string
	// Selector is an expression about labels and facts of hosts.
	Selector string
	// Since is inclusive, Until exclusive; FollowEvents ignores Until.
	Since, Until time.Time
	// Limit is the largest number of events that Events yields; 0 means no limit. FollowEvents begins with this number
	// of past events; 0 means none.
	Limit int
}

func (f *EventFilter) query() url.Values {
	query := url.Values{}
	set(query, "namespace", f.Namespaces...)
	set(query, "name", f.Name)
	set(query, "host", f.Hosts...)
	set(query, "selector", f.Selector)
	set(query, "kind", f.Kinds...)
	if !f.Since.IsZero() {
		query.Set("since", f.Since.UTC().Format(time.RFC3339Nano))
	}
	return query
}

// Events lists past events, the latest first.
func (c *Client) Events(ctx context.Context, f EventFilter) iter.Seq2[v1.Event, error] {
	return pages[v1.Event](ctx, c, at(v1.RouteListEvents), f.pastQuery(), f.Limit)
}

// pastQuery has the parameters of a list of past events.
func (f *EventFilter) pastQuery() url.Values {
	query := f.query()
	if !f.Until.IsZero() {
		query.Set("until", f.Until.UTC().Format(time.RFC3339Nano))
	}
	return query
}

// EventPage returns one page of Events, in the way of HostPage.
func (c *Client) EventPage(ctx context.Context, f EventFilter, cursor string) (Page[v1.Event], error) {
	return page[v1.Event](ctx, c, at(v1.RouteListEvents), f.pastQuery(), f.Limit, cursor)
}

// FollowEvents yields the latest past events, the oldest first, and then each event once as it arrives, until ctx ends
// or the caller leaves the loop. An error of the first call ends it. If the server becomes unreachable later,
// FollowEvents yields an *UnreachableError. If the caller continues the loop, the client reconnects, and no event is
// lost. Any other error ends it, too.
func (c *Client) FollowEvents(ctx context.Context, f EventFilter) iter.Seq2[v1.Event, error] {
	return func(yield func(v1.Event, error) bool) {
		past, last, err := c.recentEvents(ctx, f)
		if err != nil {
			yield(v1.Event{}, err)
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

// recentEvents returns the last f.Limit events, the latest first, and the cursor after which to continue.
func (c *Client) recentEvents(ctx context.Context, f EventFilter) (past []v1.Event, last int64, err error) {
	var head v1.EventPage
	query := f.query()
	query.Set("limit", strconv.Itoa(1))
	if err := c.do(ctx, at(v1.RouteListEvents), query, nil, &head); err != nil || f.Limit <= 0 {
		return nil, head.Last, err
	}
	past, err = Collect(pages[v1.Event](ctx, c, at(v1.RouteListEvents), f.query(), f.Limit))
	return past, head.Last, err
}
