package server

import (
	"context"
	"log/slog"
	"net"
	"regexp"
	"strings"
	"sync"
	"time"

	"drover/internal/server/audit"
	"drover/internal/server/store"
)

const (
	// denialEvery is how often the same denial is put on record at most: an agent that was removed and runs on is
	// refused every few seconds.
	denialEvery = time.Hour
	// denialsOfOne is how many different ones of one agent, or of one address, are in that time.
	denialsOfOne = 20
	// mostDenied is how many agents and addresses are remembered; beyond that all are forgotten, and some denials are
	// on record twice.
	mostDenied = 1000
	// longestDenial is how much of a denial is on record, in bytes: it quotes what was wanted.
	longestDenial = 300
)

// denialLog puts on record what the fabric has refused.
type denialLog struct {
	audit *audit.Recorder
	log   *slog.Logger

	mu   sync.Mutex
	last map[string]recentDenials // by whom
}

// recentDenials is what one has been denied since a time.
type recentDenials struct {
	since time.Time
	what  map[string]bool
}

func newDenialLog(a *audit.Recorder, log *slog.Logger) *denialLog {
	return &denialLog{audit: a, log: log, last: map[string]recentDenials{}}
}

// note takes a line of the broker: "ADDRESS - cid:N - what was refused to whom".
func (d *denialLog) note(text string) {
	what, remote := text, ""
	if parts := strings.SplitN(text, " - ", 3); len(parts) == 3 {
		remote, what = parts[0], parts[2]
	}
	now := time.Now()
	what = audit.Clip(what, longestDenial)
	if d.known(deniedOne(remote, text), what, now) {
		return
	}
	row := store.AuditRow{At: now, Action: "fabric", Remote: remote, Targets: 1, Message: what}
	if err := d.audit.NoteAudit(context.Background(), row); err != nil {
		d.log.Error("cannot store the record of a denial", "error", err)
	}
}

// agentKey is how keys of agents and proxies look.
//
//nolint:gochecknoglobals // compiled once
var agentKey = regexp.MustCompile(`\bU[A-Z2-7]{55}\b`)

// deniedOne returns who was denied something: the agent that was let in, else whoever is at the address. All else in
// the text is the agent's own choice.
func deniedOne(remote, text string) string {
	if before, _, proven := strings.Cut(text, "Violation"); proven {
		if key := agentKey.FindString(before); key != "" {
			return key
		}
	}
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return remote
	}
	return host
}

// known reports whether a denial is on record, or as many others of the same one are.
func (d *denialLog) known(who, what string, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	one, there := d.last[who]
	if !there && len(d.last) >= mostDenied {
		clear(d.last)
	}
	if !there || now.Sub(one.since) >= denialEvery {
		one = recentDenials{since: now, what: map[string]bool{}}
		d.last[who] = one
	}
	if one.what[what] || len(one.what) >= denialsOfOne {
		return true
	}
	one.what[what] = true
	return false
}
