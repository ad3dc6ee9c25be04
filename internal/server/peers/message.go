package peers

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"drover/internal/server/fleet"
)

// version is the version of the messages. A newer message is dropped: its content is in the database, which is read
// later.
const version = 1

// The subjects. Agents and proxies have no right to them.
const (
	newsSubject  = "drover.v1.server.news"
	linksSubject = "drover.v1.server.known"
	// linksQueue is the queue group of the servers that answer on linksSubject.
	linksQueue = "servers"
)

// sender is the server that sends a message.
type sender struct {
	Version int    `json:"version"`
	ID      string `json:"id"`
	Name    string `json:"name"`
	Build   string `json:"build"`
	// Database is the id of the database that the sender keeps its state in.
	Database string `json:"database"`
}

// newsMessage is a server's notice to all others.
type newsMessage struct {
	sender
	// Number is the place of the news in this run of the server.
	Number uint64 `json:"number"`
	// Agents are the keys of agents whose rows in the register changed, and Tasks the ids of tasks with finished items.
	Agents []string `json:"agents,omitempty"`
	Tasks  []string `json:"tasks,omitempty"`
	// Events means that there are new events, Receivers that receivers changed, and Work that rollouts, schedules or
	// breakers changed.
	Events    bool          `json:"events,omitempty"`
	Receivers bool          `json:"receivers,omitempty"`
	Work      bool          `json:"work,omitempty"`
	Links     []linkMessage `json:"links,omitempty"`
	// Leaving means that the server stops.
	Leaving bool `json:"leaving,omitempty"`
}

// linksRequest asks for a server's state of links, after a key.
type linksRequest struct {
	sender
	After string `json:"after,omitempty"`
}

// linksReply is the answer. More links follow if Links is not empty.
type linksReply struct {
	sender
	Links []linkMessage `json:"links,omitempty"`
}

// linkMessage is the state of one agent's link. Times are ages in milliseconds, so that the servers need not compare
// clocks.
type linkMessage struct {
	Key          string               `json:"k"`
	Seen         *int64               `json:"s,omitempty"`
	Lost         *int64               `json:"l,omitempty"`
	Introduction *introductionMessage `json:"m,omitempty"`
	// Rival is a second host with the agent's key.
	Rival *rivalMessage `json:"r,omitempty"`
	// Load is how busy the host is: processors and memory, in tenths of a percent.
	Load *[2]int `json:"b,omitempty"`
	// Rare is set if the agent reports only once a minute.
	Rare bool `json:"q,omitempty"`
	// Trust is the digest of what the agent trusts.
	Trust string `json:"t,omitempty"`
}

// rivalMessage is a second host with the key of an agent.
type rivalMessage struct {
	Place   string `json:"place"`
	Name    string `json:"name,omitempty"`
	Session string `json:"session,omitempty"`
	Since   *int64 `json:"since"`
	Last    *int64 `json:"last"`
	Proven  *int64 `json:"proven,omitempty"`
}

// introductionMessage is the content of an agent's introduction.
type introductionMessage struct {
	Ago     int64     `json:"ago"`
	Started time.Time `json:"started,omitzero"`
	Place   string    `json:"place,omitempty"`
	Policy  string    `json:"policy,omitempty"`
	Wanted  string    `json:"wanted,omitempty"`
	Upgrade string    `json:"upgrade,omitempty"`
}

// linkMessages converts reports of a directory at a time.
func linkMessages(words []fleet.LinkReport, now time.Time) []linkMessage {
	list := make([]linkMessage, len(words))
	for i, w := range words {
		list[i] = linkMessage{
			Key: w.Key, Seen: ago(w.Seen, now), Lost: ago(w.Lost, now), Rare: w.Rare, Trust: w.Trust,
		}
		if w.Load != (fleet.Load{}) {
			list[i].Load = &[2]int{w.Load.CPU, w.Load.Memory}
		}
		if r := w.Rival; r.Place != "" {
			list[i].Rival = &rivalMessage{
				Place: r.Place, Name: r.Name, Session: r.Session, Since: ago(r.Since, now), Last: ago(r.Last, now),
				Proven: ago(r.Proven, now),
			}
		}
		if w.Introduced {
			list[i].Introduction = &introductionMessage{
				Ago: now.Sub(w.Since).Milliseconds(), Started: w.Facts.Started,
				Place: w.Facts.Place, Policy: w.Facts.Policy, Wanted: w.Facts.Wanted, Upgrade: w.Facts.Upgrade,
			}
		}
	}
	return list
}

// ago returns the age of a time; nil for the zero time.
func ago(t, now time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	ms := max(now.Sub(t).Milliseconds(), 0)
	return &ms
}

// read converts messages to reports for a directory at a time.
func read(list []linkMessage, now time.Time) []fleet.LinkReport {
	words := make([]fleet.LinkReport, len(list))
	for i, w := range list {
		words[i] = fleet.LinkReport{
			Key: w.Key, Seen: at(w.Seen, now), Lost: at(w.Lost, now), Rare: w.Rare, Trust: w.Trust,
		}
		if w.Load != nil {
			words[i].Load = fleet.Load{CPU: w.Load[0], Memory: w.Load[1]}
		}
		if r := w.Rival; r != nil {
			words[i].Rival = fleet.Rival{
				Place: r.Place, Name: r.Name, Session: r.Session, Since: at(r.Since, now), Last: at(r.Last, now),
				Proven: at(r.Proven, now),
			}
		}
		if m := w.Introduction; m != nil {
			words[i].Introduced, words[i].Since = true, at(&m.Ago, now)
			words[i].Facts = fleet.Facts{
				Started: m.Started, Place: m.Place, Policy: m.Policy, Wanted: m.Wanted, Upgrade: m.Upgrade,
			}
		}
	}
	return words
}

func at(ago *int64, now time.Time) time.Time {
	if ago == nil {
		return time.Time{}
	}
	return now.Add(-time.Duration(max(*ago, 0)) * time.Millisecond)
}

// errVersion rejects the message of a newer server.
var errVersion = errors.New("written by a newer version")

// decode decodes a message into m and its sender into from.
func decode(data []byte, m any, from *sender) error {
	if err := json.Unmarshal(data, m); err != nil {
		return fmt.Errorf("cannot read message: %w", err)
	}
	if from.Version > version {
		return fmt.Errorf("cannot read message of server %s, build %s: %w", from.Name, from.Build, errVersion)
	}
	return nil
}
