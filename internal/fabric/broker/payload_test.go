package broker_test

import (
	"context"
	"testing"
	"time"

	"drover/internal/fabric"
)

// TestAnAgentsMessagesAreBounded: an agent or a proxy cannot have a server take more than the largest that it has to
// say.
func TestAnAgentsMessagesAreBounded(t *testing.T) {
	n := newNetwork(t)
	stop, err := n.server.Serve("test.3.server.>", "servers", 4, func(_ context.Context, _ string, data []byte) []byte {
		return data[:1]
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for name, issue := range map[string]func(string, int) (string, error){
		"agent": n.IssueAgent, "proxy": n.IssueProxy,
	} {
		id := n.user(3, issue)
		conn := n.dial(n.URL(), id.Identity)
		ask := func(size int) error {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, err := conn.Request(ctx, areaReports(3, id.key), make([]byte, size))
			return err
		}
		if err := ask(fabric.MaxFromAgents); err != nil {
			t.Errorf("%s: the largest message: %v", name, err)
		}
		// by then the library may not have heard of the bound, and is cut off
		if err := ask(fabric.MaxFromAgents + 1); err == nil {
			t.Errorf("%s: one byte more was taken", name)
		}
	}
}
