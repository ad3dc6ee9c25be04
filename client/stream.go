package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	v1 "drover/api/v1"
)

const (
	// silence is how long a stream may send nothing: the server sends something every 15 s.
	silence = 45 * time.Second
	// maxMessage is the longest line of a stream in bytes.
	maxMessage = 4 << 20
	// The client calls a lost server again after a pause that doubles from soonest to latest.
	soonest = time.Second
	latest  = 15 * time.Second
)

// errSilent ends a stream whose server has sent nothing for too long.
var errSilent = fmt.Errorf("it was silent for %s", silence)

// errLeft ends a stream whose reader left the loop.
var errLeft = errors.New("the loop was left")

// EventsAfter yields each event that arrives after the event with the given cursor, in the order of arrival. It reports
// an unreachable server like FollowEvents, but already at the first call. A program that stores the cursor of the last
// event that it handled misses nothing between two runs.
func (c *Client) EventsAfter(ctx context.Context, f EventFilter, cursor int64) iter.Seq2[v1.Event, error] {
	return func(yield func(v1.Event, error) bool) {
		query := f.query()
		wait := soonest
		for ctx.Err() == nil {
			query.Set("after", strconv.FormatInt(cursor, 10))
			err := c.stream(ctx, query, func(id int64, data []byte) error {
				wait = soonest
				if data == nil {
					cursor = id
					return nil
				}
				var e v1.Event
				if err := json.Unmarshal(data, &e); err != nil {
					return fmt.Errorf("cannot read an event of %s: %w", c.name, err)
				}
				if e.Cursor != id { // what is in an event has got out of it
					return fmt.Errorf("cannot read the events of %s: the one with cursor %d came as %d", c.name,
						e.Cursor, id)
				}
				cursor = id
				if !yield(e, nil) {
					return errLeft
				}
				return nil
			})
			switch lost := isLost(err); {
			case errors.Is(err, errLeft):
				return
			case ctx.Err() != nil:
				yield(v1.Event{}, ctx.Err())
				return
			case err == nil: // the server ends a stream now and then
			case !lost:
				yield(v1.Event{}, err)
				return
			default:
				if refusal, ok := errors.AsType[*v1.Problem](err); ok {
					err = &UnreachableError{Server: c.name, Err: refusal}
				}
				if !yield(v1.Event{}, err) {
					return
				}
			}
			pause(ctx, wait/2+rand.N(wait/2)) //nolint:gosec // it spreads readers over time, and is no secret
			wait = min(2*wait, latest)
		}
	}
}

// isLost reports whether an error may go away by itself: there was no answer, or a gateway answered for a server that
// is away.
func isLost(err error) bool {
	refusal, refused := errors.AsType[*v1.Problem](err)
	_, unreachable := errors.AsType[*UnreachableError](err)
	return unreachable || refused && refusal.Status >= http.StatusInternalServerError
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// stream reads server-sent events until take returns an error, or until the server ends them, which is not an error.
// Data is nil if the server only reports its cursor.
func (c *Client) stream(ctx context.Context, query url.Values,
	take func(id int64, data []byte) error,
) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	hangUp := func() { cancel(errSilent) }
	req, err := c.request(ctx, at(v1.RouteStreamEvents), query, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "text/event-stream")
	watch := time.AfterFunc(silence, hangUp)
	defer watch.Stop()
	resp, err := c.http.Do(req)
	if err != nil {
		return c.lost(ctx, err)
	}
	defer resp.Body.Close() //nolint:errcheck // nobody wants the rest
	if kind := resp.Header.Get("Content-Type"); resp.StatusCode >= http.StatusBadRequest ||
		!strings.HasPrefix(kind, "text/event-stream") {
		data, _ := io.ReadAll(io.LimitReader(resp.Body, maxReply))
		return c.refusal(resp, data)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxMessage)
	var id int64
	var data []byte
	for lines.Scan() {
		watch.Reset(silence)
		name, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case name == "id":
			if id, err = strconv.ParseInt(value, 10, 64); err != nil {
				return fmt.Errorf("cannot read the events of %s: %w", c.name, err)
			}
		case name == "data":
			data = []byte(value)
		case lines.Text() == "":
			watch.Stop() // the reader may take its time for an event
			if err := take(id, data); err != nil {
				return err
			}
			data = nil
			watch.Reset(silence)
		}
	}
	if err := lines.Err(); err != nil {
		return c.lost(ctx, err)
	}
	return nil
}

// lost wraps the error of a broken stream, and says if the server was silent for too long.
func (c *Client) lost(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errSilent) {
		err = errSilent
	}
	return &UnreachableError{Server: c.name, Err: err}
}
