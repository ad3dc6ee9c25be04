// Package enrol lets hosts and proxies join, and removes them. It owns the rules of a token, the reasons of a
// refusal, and the limit on failed attempts. Package wire defines the request, the store keeps tokens and agents, and
// the Broker controls access to the fabric.
package enrol

import (
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"strings"
	"time"

	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/alarm"
	"drover/internal/server/audit"
	"drover/internal/server/fleet"
	"drover/internal/server/gate"
	"drover/internal/server/store"
	"drover/internal/wire"
)

// Store keeps tokens and agents.
type Store interface {
	CreateJoinToken(ctx context.Context, t store.JoinToken) error
	GetJoinToken(ctx context.Context, id string) (store.JoinToken, error)
	UseJoinToken(ctx context.Context, a store.Agent, check func(t store.JoinToken, again bool) error) error
	RemoveAgent(ctx context.Context, key string, at time.Time, last []store.NewEvent) error
	ObservedOn(ctx context.Context, agents []string, fn func(store.Observed)) error
	PutAbsence(ctx context.Context, a store.Absence) error
}

// Directory is the register of agents.
type Directory interface {
	ByKey(key string) (store.Agent, bool)
	LookupID(id string) (store.Agent, bool)
	Admit(ctx context.Context, a store.Agent, now time.Time, put func(context.Context, store.Agent) error) error
	Remove(ctx context.Context, key string, drop func(context.Context) error) error
	Presence(key string, now time.Time) fleet.Presence
}

// Broker decides whose credentials count, while it runs.
type Broker interface {
	Revoke(publicNKey string) error
	Restore(publicNKey string) error
}

// Config holds the parts and settings of an Enroller.
type Config struct {
	Store     Store
	Directory Directory
	Broker    Broker
	// Issue makes the enrolment by which an agent finds and trusts this server.
	Issue func(a store.Agent) (wire.Enrolment, error)
	// Proxies is the register of proxies.
	Proxies Proxies
	// Fingerprint returns the fingerprint of the authority that a client of the token verifies.
	Fingerprint func(t store.JoinToken) string
	// Happened is called when there are new events.
	Happened func()
	Now      func() time.Time
}

// Enroller lets hosts join. Its methods may be called from any goroutine.
type Enroller struct {
	Config
	failures *gate.Failures
}

// New returns a desk.
func New(cfg Config) *Enroller { return &Enroller{Config: cfg, failures: gate.NewFailures()} }

// NewToken stores a token that was described by the caller and returns it with the text that hosts join with, which is
// not kept.
func (e *Enroller) NewToken(
	ctx context.Context, t store.JoinToken, ttl time.Duration,
) (store.JoinToken, string, error) {
	now := e.Now()
	if t.Role == "" {
		t.Role = store.RoleAgent
	}
	made := wire.NewJoinToken(e.Fingerprint(t), now)
	t.ID, t.Hash, t.Created, t.Expires = made.ID, access.HashToken(made.Secret), now, now.Add(ttl)
	if err := e.Store.CreateJoinToken(ctx, t); err != nil {
		return store.JoinToken{}, "", err
	}
	return t, made.String(), nil
}

// Reason is the reason to reject a host.
type Reason uint8

// The reasons.
const (
	Malformed Reason = iota + 1 // not a request, or not signed by its key
	NoToken                     // unknown token, or wrong secret
	Ended                       // the token is spent, expired or revoked
	Unfit                       // the host's clock or names are invalid
	// another online agent, or an agent of another area, has the name; or the key belongs to another
	Taken
	TooOften // too many failures from the same address or proxy
	NotYet   // the server has just started, and another agent may hold the name
)

// Refusal is the reason why a host may not join, and advice.
type Refusal struct {
	Reason Reason
	Text   string
	// Retry is when to try again, for TooOften and NotYet.
	Retry time.Duration
}

// Error returns the text.
func (r *Refusal) Error() string { return r.Text }

func refuse(reason Reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Text: fmt.Sprintf(format, args...)}
}

// Attempt is the audit record of a request to join. It holds no secret. Unproven values are as the host claimed them.
type Attempt struct {
	// Via is the key of the proxy that forwarded the request.
	Via   string     `json:"via,omitempty"`
	Token string     `json:"token,omitempty"`
	Key   string     `json:"key,omitempty"`
	Cloud *int       `json:"cloud,omitempty"`
	IP    string     `json:"ip,omitempty"`
	ID    string     `json:"id,omitempty"`
	Name  string     `json:"name,omitempty"`
	Build string     `json:"build,omitempty"`
	Host  *wire.Host `json:"host,omitempty"`
	// Replaced is the key of the agent that was on the same host before, and whose processes the host has got.
	Replaced string `json:"replaced,omitempty"`
	// Proxy is set if a proxy asks; Name is then its own name.
	Proxy bool `json:"proxy,omitempty"`
}

// Origin is the source of a request.
type Origin struct {
	// Remote is an address; for a host behind a proxy it is the address that the proxy reports.
	Remote string
	// Relay is the proxy that forwarded the request; nil if there is none.
	Relay *Relay
}

// limited returns the key that counts failures. A proxy reports the addresses of its hosts itself, so its failures must
// not block other addresses.
func (f Origin) limited() string {
	if f.Relay == nil {
		return f.Remote
	}
	return f.Relay.Key + " " + f.Remote
}

// Relay is a proxy that passes on requests of its area.
type Relay struct {
	Key  string
	Area int
}

const (
	maxID    = 64
	maxText  = 128 // for values that are only recorded
	maxDrift = 10 * time.Minute
)

// Join lets a host or a proxy in that shows a token, or returns a *Refusal. One whose answer was lost may ask again
// with the same key and token, which counts as one use. The answer is a wire.Enrolment, that to a proxy a
// wire.ProxyEnrolment.
func (e *Enroller) Join(ctx context.Context, data []byte, from Origin) (answer any, attempt Attempt, err error) {
	now := e.Now()
	if from.Relay != nil {
		attempt.Via = from.Relay.Key
	}
	if wait := e.failures.Wait(from.limited(), now); wait > 0 {
		r := refuse(TooOften, "too many attempts to join from this address have failed: try again in %d s",
			int(wait.Seconds())+1)
		r.Retry = wait
		return nil, attempt, r
	}
	request, err := wire.OpenJoin(data)
	if errors.Is(err, wire.ErrVersion) {
		err = refuse(Malformed,
			"the agent is newer than the server: upgrade the server first, or install the agent of its version")
	} else if err != nil {
		err = refuse(Malformed, "cannot read the request: %v", err)
	}
	if err == nil {
		attempt.of(request)
		answer, err = e.attend(ctx, request, from, &attempt, now)
	}
	if refusal, ok := errors.AsType[*Refusal](err); ok {
		if refusal.Reason == Malformed || refusal.Reason == NoToken || refusal.Reason == Ended {
			e.failures.Note(from.limited(), now)
		}
		return nil, attempt, refusal
	}
	return answer, attempt, err
}

// of copies the values of a request.
func (a *Attempt) of(r wire.JoinRequest) {
	a.Token, a.Key, a.IP, a.ID, a.Name, a.Build = clip(r.Token), r.Key, clip(r.IP), clip(r.ID), clip(r.Name),
		clip(r.Build)
	if r.Proxy != nil {
		a.Proxy, a.Name = true, clip(r.Proxy.Name)
		return
	}
	a.Host = &wire.Host{OS: clip(r.Host.OS), Arch: clip(r.Host.Arch), CPUs: r.Host.CPUs, Memory: r.Host.Memory}
}

// clip shortens an unproven text.
func clip(text string) string { return audit.Clip(text, maxText) }

// attend is admit with a limit on attempts, because an attacker on the way can replay a request, and each attempt
// writes an audit row.
func (e *Enroller) attend(ctx context.Context, r wire.JoinRequest, from Origin, attempt *Attempt,
	now time.Time,
) (any, error) {
	who := "joined " + r.Key
	if wait := e.failures.Wait(who, now); wait > 0 {
		refusal := refuse(TooOften, "this host has joined too often: try again in %d s", int(wait.Seconds())+1)
		refusal.Retry = wait
		return nil, refusal
	}
	answer, err := e.admit(ctx, r, from, attempt, now)
	if err == nil {
		e.failures.Note(who, now)
	}
	return answer, err
}

// admit admits the sender of a request if the token allows it.
func (e *Enroller) admit(
	ctx context.Context, r wire.JoinRequest, from Origin, attempt *Attempt, now time.Time,
) (any, error) {
	token, err := e.token(ctx, r)
	if err != nil {
		return nil, err
	}
	attempt.Cloud = &token.Cloud
	if err := suits(token, r, from.Relay); err != nil {
		return nil, err
	}
	if err := punctual(r, now); err != nil {
		return nil, err
	}
	if r.Sealing == "" {
		return nil, refuse(Malformed, "the request has no sealing key: install drover of the server's version")
	}
	if r.Proxy != nil {
		return e.admitProxy(ctx, r, token, now)
	}
	return e.admitAgent(ctx, r, token, attempt, now)
}

// suits rejects a token for another role, and a token of another area than that of the forwarding proxy: the right to
// one area must not open another.
func suits(t store.JoinToken, r wire.JoinRequest, relay *Relay) error {
	switch {
	case r.Proxy != nil && relay != nil:
		return refuse(Unfit, "a proxy joins the server itself, not through another proxy")
	case r.Proxy != nil && t.Role != store.RoleProxy:
		return refuse(Unfit,
			"the token is for agents: create a token for a proxy with 'drover token create --role proxy'")
	case r.Proxy == nil && t.Role == store.RoleProxy:
		return refuse(Unfit, "the token is for a proxy: create a token for agents with 'drover token create'")
	case relay != nil && t.Cloud != relay.Area:
		return refuse(Unfit, "the token is for area %d, and this proxy serves area %d", t.Cloud, relay.Area)
	default:
		return nil
	}
}

// admitAgent admits an agent.
func (e *Enroller) admitAgent(ctx context.Context, r wire.JoinRequest, token store.JoinToken, attempt *Attempt,
	now time.Time,
) (any, error) {
	ip, err := fit(r)
	if err != nil {
		return nil, err
	}
	a, known := e.Directory.ByKey(r.Key)
	again := known && a.Token == token.ID // an answer was lost, and a token of --replaces finds no former host any more
	labels, business := a.Labels, a.Business
	if !known {
		a = store.Agent{Key: r.Key, Created: now}
	}
	a.Cloud, a.IP, a.ID, a.Build, a.Name, a.Sealing = token.Cloud, ip, r.ID, clip(r.Build), clip(r.Name), r.Sealing
	a.Token, a.Labels, a.Business, a.Replaces = token.ID, token.Labels, token.Business, token.Replaces
	if again {
		a.Labels, a.Business = labels, business
	}
	if former, ok := e.Directory.ByKey(token.Replaces); ok && !known { // it is the same host
		a.Labels = maps.Clone(former.Labels)
		if a.Labels == nil {
			a.Labels = map[string]string{}
		}
		maps.Copy(a.Labels, token.Labels)
		a.Business = cmp.Or(token.Business, former.Business)
	}
	replaced := ""
	err = e.Directory.Admit(ctx, a, now, func(ctx context.Context, a store.Agent) error {
		replaced = a.Replaces
		return e.Store.UseJoinToken(ctx, a, func(t store.JoinToken, again bool) error { return ended(t, again, now) })
	})
	switch {
	case errors.Is(err, store.ErrKeyUsed):
		return nil,
			refuse(Taken, "this identity belongs or belonged to a proxy: make a new identity with --new-identity")
	case errors.Is(err, fleet.ErrMisleading):
		return nil,
			refuse(Unfit, "--id %q reads as the address of another host than %d:%s: join with another --id, or without",
				a.ID, a.Cloud, a.IP)
	case errors.Is(err, fleet.ErrElsewhere):
		return nil,
			refuse(Taken,
				"id %q belongs to an agent of another area: remove that agent ('drover hosts remove'), or join with another --id", a.ID)
	case errors.Is(err, fleet.ErrTaken):
		return nil,
			refuse(Taken,
				"%d:%s%s belongs to another agent, which is online: stop that agent, remove it ('drover hosts remove'), or join with another --ip or --id",
				a.Cloud, a.IP, orID(a.ID))
	case errors.Is(err, fleet.ErrKnown):
		return nil, e.known(a)
	case errors.Is(err, fleet.ErrUnsettled):
		r := refuse(NotYet,
			"%d:%s%s belongs to another agent, and the server does not know yet whether that agent is online: try again in %d s",
			a.Cloud, a.IP, orID(a.ID), int(fleet.AwayAfter.Seconds()))
		r.Retry = fleet.AwayAfter
		return nil, r
	case errors.Is(err, store.ErrNotFound): // the token was just deleted
		return nil, unknown()
	case err != nil:
		return nil, err
	}
	if replaced != "" {
		attempt.Replaced = replaced
		if err := e.Broker.Revoke(replaced); err != nil {
			return nil, err
		}
	}
	// The key may have been removed before.
	if err := e.Broker.Restore(a.Key); err != nil {
		return nil, err
	}
	return e.Issue(a)
}

// known rejects a host under a name of an agent that is offline: a token alone must not give the place of another host,
// with its processes and their secrets.
func (e *Enroller) known(a store.Agent) error {
	name := fmt.Sprintf("%d:%s", a.Cloud, a.IP)
	if _, taken := e.Directory.LookupID(a.ID); taken && a.ID != "" {
		name = a.ID
	}
	return refuse(Taken, "%s belongs to another agent: if this is the same host with an empty disk, "+
		"join with a token of 'drover token create --replaces %s --area %d --uses 1 --ttl 1h'; "+
		"if that host is gone, remove it first ('drover hosts remove %s'); otherwise join with another --ip or --id",
		name, name, a.Cloud, name)
}

func orID(id string) string {
	if id == "" {
		return ""
	}
	return fmt.Sprintf(" or id %q", id)
}

// token returns the token whose secret the request has. A caller without the secret learns nothing about the token.
func (e *Enroller) token(ctx context.Context, r wire.JoinRequest) (store.JoinToken, error) {
	token, err := e.Store.GetJoinToken(ctx, r.Token)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return store.JoinToken{}, err
	}
	// An unknown token has an empty hash, which matches no secret.
	if subtle.ConstantTimeCompare([]byte(access.HashToken(r.Secret)), []byte(token.Hash)) != 1 {
		return store.JoinToken{}, unknown()
	}
	return token, nil
}

func unknown() error {
	return refuse(NoToken,
		"this server does not know the token: did you copy all of it, and did this server create it?")
}

// ended rejects a token that is no longer valid; again is set if the agent has joined with it before.
func ended(t store.JoinToken, again bool, now time.Time) error {
	const more = ": make another one with 'drover token create'"
	switch {
	case !t.Revoked.IsZero():
		return refuse(Ended, "the token was revoked on %s"+more, stamp(t.Revoked))
	case !now.Before(t.Expires):
		return refuse(Ended, "the token has expired on %s"+more, stamp(t.Expires))
	case t.Used >= t.Uses && !again:
		return refuse(Ended, "the token is used up: it was valid for %d"+more, t.Uses)
	default:
		return nil
	}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// punctual rejects a host whose clock is far off. Orders have times, and such a host would reject them.
func punctual(r wire.JoinRequest, now time.Time) error {
	if drift := r.At.Sub(now); drift.Abs() > maxDrift {
		word := "ahead of"
		if drift < 0 {
			word = "behind"
		}
		return refuse(Unfit, "the clock of this host is %s %s the server's: set it, and join again",
			drift.Abs().Round(time.Second), word)
	}
	return nil
}

// fit rejects a host with invalid names, and returns its address in the canonical spelling: rights, policies and names
// depend on the spelling.
func fit(r wire.JoinRequest) (ip string, err error) {
	addr, err := netip.ParseAddr(r.IP)
	if wrong := wire.NameFaults(r.IP, r.ID); wrong != nil {
		return "", refuse(Unfit, "%s", strings.ReplaceAll(wrong.Error(), "\n", "; "))
	}
	if err != nil {
		return "", refuse(Unfit, "--ip %q is not an IP address", r.IP)
	}
	return addr.Unmap().WithZone("").String(), nil
}

// Remove removes an agent: the broker disconnects it at once and rejects it when it reconnects, and the store deletes
// it. The processes on its host continue, and the alarms of the host end. Remove returns store.ErrNotFound for an
// unknown agent.
func (e *Enroller) Remove(ctx context.Context, key string, by process.Actor) error {
	now := e.Now()
	last := store.Absence{Agent: key, Since: now, Until: now, Alive: e.Directory.Presence(key, now).Alive(now)}
	return e.Directory.Remove(ctx, key, func(ctx context.Context) error {
		events, err := e.removal(ctx, key, by, now)
		if err != nil {
			return err
		}
		if err := e.Store.PutAbsence(ctx, last); err != nil { // nobody knows it afterwards
			return err
		}
		if err := e.Store.RemoveAgent(ctx, key, now, events); err != nil {
			return err
		}
		e.Happened()
		return e.Broker.Revoke(key)
	})
}

// removal returns the events of the removal of a host: one of the host, and one of each process with an open alarm.
func (e *Enroller) removal(ctx context.Context, key string, by process.Actor, now time.Time) (list []store.NewEvent,
	err error,
) {
	processes := []process.ID{{}}
	err = e.Store.ObservedOn(ctx, []string{key}, func(o store.Observed) {
		if alarm.Open(&o.Status) {
			processes = append(processes, o.Process)
		}
	})
	if err != nil {
		return nil, err
	}
	for i, id := range processes {
		event := process.Event{
			Stream: "removal", Seq: uint64(max(now.UnixMilli(), 1)) + uint64(i), //nolint:gosec // it is positive
			At: now.UnixMilli(), Kind: process.EventHostRemoved, Process: id, Actor: by,
			Cause: process.Cause{Text: "the host was removed from the fleet"},
		}
		body, err := json.Marshal(&event)
		if err != nil {
			return nil, fmt.Errorf("cannot encode the event of a removal: %w", err)
		}
		list = append(list, store.NewEvent{Event: event, Body: string(body)})
	}
	return list, nil
}
