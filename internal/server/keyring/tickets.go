package keyring

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"drover/internal/idle"
)

const (
	// ticketFact is the name of the ticket keys among the facts of the fleet.
	ticketFact = "tickets"
	// ticketPeriod is how long a ticket key encrypts new tickets, and ticketsKept is the number of kept keys.
	ticketPeriod = 24 * time.Hour
	ticketsKept  = 3
	// ticketPoll is the interval at which the keys of other servers are read.
	ticketPoll = time.Minute
)

// ticketKey is a key that encrypts the tickets of TLS sessions.
type ticketKey struct {
	Made time.Time `json:"made"`
	Key  [32]byte  `json:"key"`
}

// ticketKeys are the valid ticket keys, the newest first.
type ticketKeys struct {
	// Revision is the revision of the fleet's keys that the ticket keys were made for.
	Revision int         `json:"revision"`
	Keys     []ticketKey `json:"keys"`
}

// at returns the keys that are valid at a time, with a new key if it is due. A later revision of the fleet's keys ends
// all sessions, because a session would skip the certificate that the change is about.
func (k ticketKeys) at(revision int, now time.Time) (valid ticketKeys, changed bool) {
	valid.Revision = max(k.Revision, revision)
	if valid.Revision == k.Revision {
		for _, key := range k.Keys {
			// A key from the future would never be replaced, after somebody has set the clock back.
			if age := now.Sub(key.Made); -ticketPoll < age && age < ticketsKept*ticketPeriod {
				valid.Keys = append(valid.Keys, key)
			}
		}
	}
	if len(valid.Keys) == 0 || now.Sub(valid.Keys[0].Made) >= ticketPeriod {
		made := ticketKey{Made: now.UTC()}
		_, _ = rand.Read(made.Key[:]) // it never fails
		valid.Keys = append([]ticketKey{made}, valid.Keys...)
		valid.Keys = valid.Keys[:min(len(valid.Keys), ticketsKept)]
		return valid, true
	}
	return valid, len(valid.Keys) != len(k.Keys)
}

// TicketConfig holds the parts and settings of Tickets.
type TicketConfig struct {
	// Facts is the database of the fleet.
	Facts Facts
	// Secrets returns secrets of 32 bytes, which only the servers of the fleet know (Ring.Secrets). They seal the keys
	// in the database.
	Secrets func() ([][]byte, error)
	// Revision returns the present revision of the fleet's keys.
	Revision func() int
	Now      func() time.Time
	Log      *slog.Logger
}

// Tickets holds the keys by which the servers of a fleet encrypt the tickets of TLS sessions. With these keys a server
// resumes a session of another server, or of its own from before a restart. The servers share the keys in their
// database: a new key each day, and the two before it. Its methods may be called from any goroutine, and do nothing on
// nil.
type Tickets struct {
	cfg  TicketConfig
	look chan struct{}
	// keys holds the keys for crypto/tls, and nothing else.
	keys *tls.Config
	// used are the keys in keys; only one goroutine at a time refreshes.
	used ticketKeys
}

// OpenTickets reads the keys of the fleet, or makes the first key. It fails if it cannot read or write the database.
func OpenTickets(ctx context.Context, cfg TicketConfig) (*Tickets, error) {
	t := &Tickets{
		cfg: cfg, look: make(chan struct{}, 1),
		keys: &tls.Config{MinVersion: tls.VersionTLS13},
	}
	if err := t.refresh(ctx); err != nil {
		return nil, fmt.Errorf("cannot open ticket keys: %w", err)
	}
	return t, nil
}

// Resume makes a listener resume sessions. From then on it accepts TLS 1.3 only: in TLS 1.2 a ticket key would open all
// recorded connections.
func (t *Tickets) Resume(listener *tls.Config) {
	if t == nil {
		return
	}
	listener.MinVersion = tls.VersionTLS13
	listener.WrapSession, listener.UnwrapSession = t.keys.EncryptTicket, t.keys.DecryptTicket
}

// Changed tells that the keys of the fleet have another revision, which ends all sessions. It does not wait.
func (t *Tickets) Changed() {
	if t != nil {
		idle.Wake(t.look)
	}
}

// Run replaces the keys and reads those of other servers, until ctx ends.
func (t *Tickets) Run(ctx context.Context) error {
	if t == nil {
		<-ctx.Done()
		return nil
	}
	for {
		idle.Wait(ctx, ticketPoll, t.look)
		if ctx.Err() != nil {
			return nil
		}
		if err := t.refresh(ctx); err != nil && ctx.Err() == nil {
			t.cfg.Log.WarnContext(ctx, "cannot share ticket keys", "error", err)
		}
	}
}

// refresh adopts the keys in the database, and replaces those that are not valid any more. Without the database this
// server goes on with keys of its own, so that an old key does not stay.
func (t *Tickets) refresh(ctx context.Context) error {
	valid, err := t.share(ctx)
	if err != nil {
		if len(t.used.Keys) == 0 {
			return err
		}
		valid, _ = t.used.at(t.cfg.Revision(), t.cfg.Now())
	}
	t.used = valid
	keys := make([][32]byte, len(valid.Keys))
	for i, key := range valid.Keys {
		keys[i] = key.Key
	}
	t.keys.SetSessionTicketKeys(keys)
	return err
}

// share returns the keys of the fleet, after it has stored a new key if one is due.
func (t *Tickets) share(ctx context.Context) (ticketKeys, error) {
	for {
		facts, err := t.cfg.Facts.Identify(ctx, map[string]string{ticketFact: ""})
		if err != nil {
			return ticketKeys{}, err
		}
		valid, changed := t.open(ctx, facts[ticketFact]).at(t.cfg.Revision(), t.cfg.Now())
		if !changed {
			return valid, nil
		}
		text, err := t.seal(valid)
		if err != nil {
			return ticketKeys{}, err
		}
		swapped, err := t.cfg.Facts.SwapFact(ctx, ticketFact, facts[ticketFact], text)
		if swapped || err != nil {
			return valid, err
		}
		// another server was faster: its keys count
	}
}

func (t *Tickets) seal(k ticketKeys) (string, error) {
	text, err := json.Marshal(k)
	if err != nil {
		return "", err
	}
	vault, err := OpenVault(t.cfg.Secrets)
	if err != nil {
		return "", err
	}
	return vault.Seal(text, ticketFact), nil
}

// open returns no keys for a text that this server cannot read: the database was adopted, another server has a later
// sealing key, or there is no text yet.
func (t *Tickets) open(ctx context.Context, text string) (k ticketKeys) {
	if text == "" {
		return k
	}
	vault, err := OpenVault(t.cfg.Secrets)
	var data []byte
	if err == nil {
		data, _, err = vault.Open(text, ticketFact)
	}
	if err == nil {
		err = json.Unmarshal(data, &k)
	}
	if err != nil {
		t.cfg.Log.WarnContext(ctx, "cannot read ticket keys, making new ones", "error", err)
		return ticketKeys{}
	}
	return k
}
