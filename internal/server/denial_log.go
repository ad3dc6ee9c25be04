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
	// denialEvery is the interval at which the same denial is recorded at most. A removed agent that still runs is
	// rejected every few seconds.
	denialEvery = time.Hour
	// denialsOfOne is how many different denials of one agent, or of one address, are recorded in that time.
	denialsOfOne = 20
	// mostDenied is how many agents and addresses the log remembers. Beyond that it forgets all, and records some
	// denials twice.
	mostDenied = 1000
	// longestDenial is the longest recorded denial, in bytes, because a denial quotes the agent's request.
	longestDenial = 300
)

// denialLog records the denials of the fabric.
type denialLog struct {
	audit *audit.Recorder
	log   *slog.Logger

	mu   sync.Mutex
	last map[string]recentDenials // by agent or address
}

// recentDenials holds the denials of one agent or address since a time.
type recentDenials struct {
	since time.Time
	what  map[string]bool
}

func newDenialLog(a *audit.Recorder, log *slog.Logger) *denialLog {
	return &denialLog{audit: a, log: log, last: map[string]recentDenials{}}
}

// note reads a line of the broker: "ADDRESS - cid:N - what was refused to whom".
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

// agentKey matches the keys of agents and proxies.
//
//nolint:gochecknoglobals // compiled once
var agentKey = regexp.MustCompile(`\bU[A-Z2-7]{55}\b`)

// deniedOne returns the agent or address that was denied something: the authenticated agent, else the address. The
// agent chooses all other words of the text.
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

// known reports whether a denial is recorded already, or denialsOfOne others of the same agent or address are.
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
