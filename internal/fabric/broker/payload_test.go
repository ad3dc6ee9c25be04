package broker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"drover/internal/fabric"
)

// TestAnAgentsMessagesAreBounded: an agent or a proxy cannot have a server take more than the largest that it has to say.
func TestAnAgentsMessagesAreBounded(t *testing.T) {
	n := newNetwork(t)
	stop, err := n.server.Serve("test.3.server.>", "servers", 4, func(_ context.Context, _ string, data []byte) []byte { return data[:1] })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for name, issue := range map[string]func(string, int) (string, error){"agent": n.IssueAgent, "proxy": n.IssueProxy} {
		id := n.user(3, issue)
		conn := n.dial(n.URL(), id.Identity)
		for size, want := range map[int]error{fabric.MaxFromAgents: nil, fabric.MaxFromAgents + 1: fabric.ErrTooLarge} {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			_, err := conn.Request(ctx, areaReports(3, id.key), make([]byte, size))
			cancel()
			if !errors.Is(err, want) {
				t.Errorf("%s: %d bytes: %v, want %v", name, size, err, want)
			}
		}
	}
}
