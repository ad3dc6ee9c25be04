package agent

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nkeys"

	"drover/internal/process"
	"drover/internal/wire"
)

// TestConfirmation: the server's word ends the wait; without a link it takes five seconds, and three once there is one.
func TestConfirmation(t *testing.T) {
	const never = time.Hour
	for name, c := range map[string]struct {
		link, word, want time.Duration
	}{
		"at once":                 {0, 0, 0},
		"a link and a word":       {time.Second, 2 * time.Second, 2 * time.Second},
		"a link and no word":      {time.Second, never, 4 * time.Second},
		"a late link and no word": {4 * time.Second, never, 7 * time.Second},
		"no link":                 {never, never, 5 * time.Second},
		"a link that comes later": {6 * time.Second, 7 * time.Second, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conf := newConfirmation(slog.New(slog.DiscardHandler))
				ctx, cancel := context.WithCancel(t.Context())
				began, done := time.Now(), make(chan error, 1)
				go func() { done <- conf.run(ctx) }()
				time.AfterFunc(c.link, func() {
					conf.noteLink()
					conf.noteLink() // the link was lost meanwhile
				})
				time.AfterFunc(c.word, func() {
					conf.confirm()
					conf.confirm()
				})
				<-conf.done
				if took := time.Since(began); took != c.want {
					t.Errorf("it took %v, want %v", took, c.want)
				}
				<-time.After(time.Minute)
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestConfirmationEnds with the agent that waits.
func TestConfirmationEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	conf := newConfirmation(slog.New(slog.DiscardHandler))
	if err := conf.run(ctx); err != nil {
		t.Error(err)
	}
	select {
	case <-conf.done:
		t.Error("an agent that stops goes on")
	default:
	}
}

// TestI8_AnswersAreVerified: what the server is said to know is obeyed only if it is signed, fresh, for this agent, and
// whole. What is refused holds up nothing.
func TestI8_AnswersAreVerified(t *testing.T) {
	key, stranger := mustKey(t), mustKey(t)
	public, err := key.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	newAgent := func() *Agent {
		log := slog.New(slog.DiscardHandler)
		a := &Agent{
			cfg: Config{Log: log}, key: "me", uplink: uplink{
				confirmation: newConfirmation(log),
				acceptance:   newAcceptance("here"),
			},
			trust: &trust{key: "me", enrolment: enrolment{Enrolment: wire.Enrolment{ManifestKeys: []string{public}}}},
		}
		a.wall = func() time.Time { return now }
		a.intake = newOrderIntake(nil, fresh(now))
		return a
	}
	desired := &wire.Desired{Processes: []wire.Desires{{Process: process.ID{Namespace: "ns", Name: "a"}, Revision: 1}}}
	for name, c := range map[string]struct {
		m    wire.Manifest
		by   nkeys.KeyPair
		want string
	}{
		"by a stranger":     {wire.Manifest{Agent: "me", Issued: now, Desired: desired}, stranger, "not pinned"},
		"for another agent": {wire.Manifest{Agent: "you", Issued: now, Desired: desired}, key, "another agent"},
		"of long ago": {
			wire.Manifest{Agent: "me", Issued: now.Add(-48 * time.Hour), Desired: desired},
			key,
			"before the newest",
		},
		"of something else":    {wire.Manifest{Agent: "me", Issued: now}, key, "does not mention this disk"},
		"without a spec in it": {wire.Manifest{Agent: "me", Issued: now, Desired: desired}, key, "no spec of ns/a"},
	} {
		sealed, err := wire.Seal(c.m, c.by)
		if err != nil {
			t.Fatal(err)
		}
		a := newAgent()
		if again, err := a.reconcile(sealed); err == nil || again || !strings.Contains(err.Error(), c.want) {
			t.Errorf("an answer %s: %v, %v; want %q", name, again, err, c.want)
		}
		if a.introductionAnswered(sealed) {
			t.Errorf("an answer %s has the agent introduce itself again", name)
		}
		select {
		case <-a.confirmation.confirmed:
		default:
			t.Errorf("after an answer %s the agent waits", name)
		}
	}
	if a := newAgent(); a.introductionAnswered(nil) {
		t.Error("no answer at all has the agent introduce itself again")
	}
}

func mustKey(t *testing.T) nkeys.KeyPair {
	t.Helper()
	key, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	return key
}
