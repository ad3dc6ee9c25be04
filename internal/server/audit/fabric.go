package audit

import (
	"context"
	"log/slog"
	"net"
	"regexp"
	"strings"
	"sync"
	"time"

	"drover/internal/server/store"
)

const (
	// fabricEvery is the interval at which the same denial is recorded at most. A removed agent that still runs is
	// rejected every few seconds.
	fabricEvery = time.Hour
	// fabricOfOne is how many different denials of one agent, or of one address, are recorded in that time.
	fabricOfOne = 20
	// mostFabric is how many agents and addresses the log remembers. Beyond that it forgets all, and records some
	// denials twice.
	mostFabric = 1000
	// longestFabric is the longest recorded denial, in bytes, because a denial quotes the agent's request.
	longestFabric = 300
)

// FabricDenials records what the fabric denies to agents, proxies and strangers. It is safe for concurrent use.
type FabricDenials struct {
	recorder *Recorder
	log      *slog.Logger

	mu   sync.Mutex
	last map[string]denialsOfSender // by agent or address
}

// denialsOfSender are the denials of one agent or address since a time.
type denialsOfSender struct {
	since time.Time
	what  map[string]bool
}

// NewFabricDenials returns a record that writes through a recorder.
func NewFabricDenials(r *Recorder, log *slog.Logger) *FabricDenials {
	return &FabricDenials{recorder: r, log: log, last: map[string]denialsOfSender{}}
}

// Record stores a denial, unless it is on record already. text is a line of the broker: "ADDRESS - cid:N - what was
// refused to whom". Record logs an error of the store.
func (d *FabricDenials) Record(text string) {
	what, remote := text, ""
	if parts := strings.SplitN(text, " - ", 3); len(parts) == 3 {
		remote, what = parts[0], parts[2]
	}
	now := time.Now()
	what = Clip(what, longestFabric)
	if d.known(deniedOne(remote, text), what, now) {
		return
	}
	row := store.AuditRow{At: now, Action: "fabric", Remote: remote, Targets: 1, Message: what}
	if err := d.recorder.NoteAudit(context.Background(), row); err != nil {
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

// known reports whether a denial is recorded already, or fabricOfOne others of the same agent or address are.
func (d *FabricDenials) known(who, what string, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	one, there := d.last[who]
	if !there && len(d.last) >= mostFabric {
		clear(d.last)
	}
	if !there || now.Sub(one.since) >= fabricEvery {
		one = denialsOfSender{since: now, what: map[string]bool{}}
		d.last[who] = one
	}
	if one.what[what] || len(one.what) >= fabricOfOne {
		return true
	}
	one.what[what] = true
	return false
}
