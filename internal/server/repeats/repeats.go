// Package repeats is the rule by which the server's log leaves lines out: trouble that repeats for every agent, and
// messages that one agent or proxy may cause as often as it likes.
package repeats

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"drover/internal/loglimit"
	"drover/internal/server/store"
)

// UnregisteredAgent is the message about an agent that is not in the register; such agents retry forever.
const UnregisteredAgent = "rejected report of an unregistered agent"

const (
	// linesOfOne is how often each message about one agent or proxy is logged within forgetAfter. Further lines count
	// for all agents together, as one trouble, because an agent may cause them as often as it likes.
	linesOfOne  = 10
	forgetAfter = 24 * time.Hour
	// mostSenders is how many agents and proxies the rule distinguishes.
	mostSenders = 10_000
)

// Rule returns the rule of a server's log. One line a minute tells of a failing database, which affects every agent,
// and one of unregistered agents. Repeated messages about one agent are logged linesOfOne times, and then rarely.
func Rule() loglimit.Rule {
	s := senders{lines: map[string]int{}}
	return func(record slog.Record) (trouble string, lines int) {
		if trouble = common(record); trouble == "" {
			trouble = s.repeated(record)
		}
		return trouble, 1
	}
}

// common returns the trouble of a record that affects all agents; empty if there is none.
func common(record slog.Record) (trouble string) {
	if record.Level < slog.LevelWarn {
		return ""
	}
	record.Attrs(func(a slog.Attr) bool {
		if err, is := a.Value.Any().(error); is {
			if _, failed := errors.AsType[*store.Failure](err); failed {
				trouble = "database"
			}
		}
		return trouble == ""
	})
	if trouble == "" && record.Message == UnregisteredAgent {
		trouble = "unregistered agents"
	}
	return trouble
}

// senders counts the lines of each message about each agent or proxy since a time.
type senders struct {
	mu    sync.Mutex
	since time.Time
	lines map[string]int
}

// repeated returns the message of a record about an agent or a proxy that was logged too often; empty for a record that
// is logged.
func (s *senders) repeated(record slog.Record) string {
	sender := ""
	record.Attrs(func(a slog.Attr) bool {
		if a.Key == "agent" || a.Key == "proxy" || a.Key == "subject" {
			sender = a.Value.String()
		}
		return sender == ""
	})
	if sender == "" || record.Level < slog.LevelInfo {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if record.Time.Sub(s.since).Abs() >= forgetAfter { // or the clock was set back
		s.since = record.Time
		clear(s.lines)
	}
	name := record.Message + "\n" + sender
	if _, known := s.lines[name]; !known && len(s.lines) >= mostSenders { // the names are made up
		name = record.Message
	}
	if s.lines[name]++; s.lines[name] <= linesOfOne {
		return ""
	}
	return record.Message
}
