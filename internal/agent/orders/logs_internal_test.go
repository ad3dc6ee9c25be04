package orders

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"drover/internal/process"
	"drover/internal/wire"
)

// parrot answers with what it is asked for.
type parrot struct{}

func (parrot) Live(_ context.Context, q wire.LiveQuestion) wire.LiveAnswer {
	return wire.LiveAnswer{Processes: []wire.LiveProcess{{Process: q.Processes[0], PID: 7}}}
}

func (parrot) Answer(_ context.Context, q wire.LogQuestion) wire.LogAnswer {
	return wire.LogAnswer{Cursor: q.Process.String() + " " + q.Cursor}
}

// TestQuestionsAboutLogs: only a fresh question of the server to this agent is answered, and nothing else of it counts.
func TestQuestionsAboutLogs(t *testing.T) {
	link := newKeys(t)
	now := time.Now()
	i := newIntake(link, badDisk{}, now)
	i.cfg.Logs = parrot{}
	q := &wire.LogQuestion{Process: process.ID{Namespace: "shop", Name: "api"}, Cursor: "5"}
	ask := func(m wire.Manifest, key nkeys.KeyPair) wire.LogAnswer {
		t.Helper()
		sealed, err := wire.Seal(m, key)
		if err != nil {
			t.Fatal(err)
		}
		reply, err := wire.OpenReceipt(i.Ask(t.Context(), sealed), sealed, public(t, link.agent))
		if err != nil {
			t.Fatal(err)
		}
		var a wire.LogAnswer
		if err := json.Unmarshal(reply, &a); err != nil {
			t.Fatal(err)
		}
		return a
	}
	at := func(issued time.Time) wire.Manifest {
		return wire.Manifest{Agent: "me", Issued: issued, Expires: issued.Add(time.Second), Log: q}
	}
	if a := ask(at(now), link.server); a.Error != "" || a.Cursor != "shop/api 5" {
		t.Errorf("a question is answered with %+v", a)
	}
	other := at(now)
	other.Agent = "you"
	empty := at(now)
	empty.Log, empty.Orders = nil, []wire.Order{{Item: "1", Op: process.Start}}
	for name, c := range map[string]struct {
		manifest wire.Manifest
		key      nkeys.KeyPair
		want     string
	}{
		"of a stranger":       {at(now), mustKey(t), "not pinned"},
		"to another agent":    {other, link.server, "another agent"},
		"that asks nothing":   {empty, link.server, "asks for nothing"},
		"of two minutes ago":  {at(now.Add(-2 * time.Minute)), link.server, "it is a copy"},
		"of some months ago":  {at(now.Add(-1000 * time.Hour)), link.server, "it is a copy"},
		"of a time before it": {at(time.Time{}), link.server, "it is a copy"},
	} {
		if a := ask(c.manifest, c.key); a.Cursor != "" || !strings.Contains(a.Error, c.want) {
			t.Errorf("a question %s is answered with %+v, want %q", name, a, c.want)
		}
	}
}

// TestQuestionsAboutRunningProcesses: they are answered on the same subject, if they are not too long.
func TestQuestionsAboutRunningProcesses(t *testing.T) {
	link := newKeys(t)
	now := time.Now()
	i := newIntake(link, badDisk{}, now)
	i.cfg.Logs = parrot{}
	ask := func(q wire.LiveQuestion) wire.LiveAnswer {
		t.Helper()
		m := wire.Manifest{Agent: "me", Issued: now, Expires: now.Add(time.Second), Live: &q}
		sealed, err := wire.Seal(m, link.server)
		if err != nil {
			t.Fatal(err)
		}
		reply, err := wire.OpenReceipt(i.Ask(t.Context(), sealed), sealed, public(t, link.agent))
		if err != nil {
			t.Fatal(err)
		}
		var a wire.LiveAnswer
		if err := json.Unmarshal(reply, &a); err != nil {
			t.Fatal(err)
		}
		return a
	}
	api := process.ID{Namespace: "shop", Name: "api"}
	if a := ask(wire.LiveQuestion{Processes: []process.ID{api}}); a.Error != "" || len(a.Processes) != 1 ||
		a.Processes[0].Process != api {
		t.Errorf("a question is answered with %+v", a)
	}
	if a := ask(wire.LiveQuestion{Processes: make([]process.ID, wire.MaxLive+1)}); !strings.Contains(a.Error, "too many") {
		t.Errorf("a long question is answered with %+v", a)
	}
}
