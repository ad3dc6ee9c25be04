package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"drover/internal/fabric"
	"drover/internal/wire"
)

// counter answers every question alike.
type counter struct {
	answer []byte
	err    error
	// subject and question are the last ones.
	subject  string
	question wire.PackageQuestion
}

func (c *counter) Request(_ context.Context, subject string, data []byte) ([]byte, error) {
	c.subject = subject
	if err := json.Unmarshal(data, &c.question); err != nil {
		return nil, err
	}
	return c.answer, c.err
}

// TestPackagesOfTheServers: whatever is wrong on the way to them, an agent hears that it has to ask again.
func TestPackagesOfTheServers(t *testing.T) {
	for what, c := range map[string]struct {
		answer []byte
		err    error
		want   error
	}{
		"a piece":           {answer: wire.PackageData([]byte("piece"))},
		"no such package":   {answer: wire.PackageError("there is none"), want: wire.ErrNoPackage},
		"busy servers":      {answer: wire.PackageBusy(), want: wire.ErrDepotBusy},
		"no servers":        {err: fabric.ErrNobody, want: wire.ErrDepotBusy},
		"no connection":     {err: fabric.ErrNotConnected, want: wire.ErrDepotBusy},
		"an unknown answer": {answer: []byte("?"), want: wire.ErrDepotBusy},
	} {
		servers := &counter{answer: c.answer, err: c.err}
		data, err := upstream{servers, "subject"}.Piece(t.Context(), "1.4.0", "amd64", 7)
		if !errors.Is(err, c.want) || (c.want == nil) != (string(data) == "piece") || errors.Is(err, wire.ErrNoPackage) &&
			errors.Is(err, wire.ErrDepotBusy) {
			t.Errorf("%s: %q, %v", what, data, err)
		}
		if q := servers.question; servers.subject != "subject" || q.Version != "1.4.0" || q.Arch != "amd64" || q.Piece == nil ||
			*q.Piece != 7 {
			t.Errorf("%s: it asked %+v at %q", what, q, servers.subject)
		}
	}
	servers := &counter{answer: wire.PackageData([]byte("text"))}
	if text, err := (upstream{servers, "subject"}).Signed(t.Context(), "1.4.0", "arm64"); err != nil || string(text) != "text" ||
		servers.question.Piece != nil || servers.question.Arch != "arm64" {
		t.Errorf("the signed text is %q: %v, asked by %+v", text, err, servers.question)
	}
}
