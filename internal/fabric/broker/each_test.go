package broker_test

import (
	"context"
	"strings"
	"testing"
)

// TestOneFloodsItsOwnPlaceOnly: who sends without waiting for answers has one place, and what others send has the
// others.
func TestOneFloodsItsOwnPlaceOnly(t *testing.T) {
	b := start(t)
	hub := connect(t, b.URL(), b.ServerIdentity())
	entered, leave := make(chan struct{}, 1), make(chan struct{})
	stop, err := hub.ServeEach("test.server.>", "servers", 2,
		func(ctx context.Context, subject string, data []byte) []byte {
			if strings.HasSuffix(subject, ".flood") {
				entered <- struct{}{}
				select {
				case <-leave:
				case <-ctx.Done():
				}
			}
			return data
		})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	for range 10 {
		if err := hub.Publish("test.server.flood", []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	<-entered
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for range 3 { // also one after the other
		if reply, err := hub.Request(ctx, "test.server.other", []byte("y")); err != nil || string(reply) != "y" {
			t.Fatalf("another one is answered %q, %v", reply, err)
		}
	}
	close(leave)
	if reply, err := hub.Request(ctx, "test.server.another", []byte("z")); err != nil || string(reply) != "z" {
		t.Errorf("a third one is answered %q, %v", reply, err)
	}
	if len(entered) > 0 {
		t.Error("more than one of the flood is handled")
	}
}
