package server

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"drover/internal/server/bus"
	"drover/internal/server/receiver"
	"drover/internal/server/store"
)

// oneReceiver is a database with one receiver, which fails a number of times.
type oneReceiver struct {
	store.Store
	row   store.Receiver
	fails int
}

func (o *oneReceiver) CreateReceiver(_ context.Context, r store.Receiver, _ int64) error {
	o.row = r
	return nil
}

func (o *oneReceiver) ListReceivers(context.Context) ([]store.Subscription, error) {
	if o.fails > 0 {
		o.fails--
		return nil, errors.New("the database is away")
	}
	return []store.Subscription{{Receiver: o.row}}, nil
}

func (o *oneReceiver) ChangeReceiver(_ context.Context, _ string, change func(*store.Receiver) error) (
	store.Subscription, error,
) {
	err := change(&o.row)
	return store.Subscription{Receiver: o.row}, err
}

func (o *oneReceiver) GetReceiver(context.Context, string) (store.Subscription, error) {
	return store.Subscription{Receiver: o.row}, nil
}

// TestSecretsAreSealedAgainAfterAFailure: after a change of the keys the database fails twice. The secrets of receivers
// do not stay sealed with the former key, which is dropped later.
func TestSecretsAreSealedAgainAfterAFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := &oneReceiver{}
		keys := [][]byte{bytes.Repeat([]byte{1}, 32)}
		log := slog.New(slog.DiscardHandler)
		s := &Server{
			cfg: Config{Log: log}, bus: bus.New(time.Now()), sender: receiver.New(receiver.Config{Log: log}),
			receivers: receiver.NewSealed(db, func() ([][]byte, error) { return keys, nil }),
		}
		if err := s.receivers.CreateReceiver(t.Context(), store.Receiver{Name: "r", Secret: "secret"}, 0); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.runAlarms(ctx) }()
		synctest.Wait()
		sealed := db.row.Secret
		keys, db.fails = [][]byte{bytes.Repeat([]byte{2}, 32), keys[0]}, 2
		s.bus.Changed(bus.Keys)
		time.Sleep(time.Minute)
		synctest.Wait()
		if db.fails != 0 || db.row.Secret == sealed {
			t.Errorf("after %d failures the secret has the former key: %v", 2-db.fails, db.row.Secret == sealed)
		}
		keys = keys[:1] // the former key is dropped
		if r, err := s.receivers.GetReceiver(ctx, "r"); err != nil || r.Receiver.Secret != "secret" {
			t.Errorf("without the former key the secret is %q, %v", r.Receiver.Secret, err)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
