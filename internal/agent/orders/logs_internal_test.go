package orders

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover/internal/process"
	"drover/internal/wire"
)

// parrot answers with what it is asked for.
type parrot struct{}

func (parrot) Live(_ context.Context, q wire.LiveQuestion) wire.LiveAnswer {
	return wire.LiveAnswer{Processes: []wire.LiveProcess{{Process: q.Processes[0], PID: 7}}}
}

func (parrot) Usage(_ context.Context, q wire.UsageQuestion) wire.UsageAnswer {
	return wire.UsageAnswer{End: int64(q.Seconds), Error: q.Process.String()}
}

func (parrot) Answer(_ context.Context, q wire.LogQuestion) wire.LogAnswer {
	return wire.LogAnswer{Cursor: q.Process.String() + " " + q.Cursor}
}

// TestQuestionsAboutLogs: only a question that asks for something is answered, and nothing else of it counts.
func TestQuestionsAboutLogs(t *testing.T) {
	i := newIntake(badDisk{}, time.Now())
	i.cfg.Logs = parrot{}
	q := &wire.LogQuestion{Process: process.ID{Namespace: "shop", Name: "api"}, Cursor: "5"}
	for name, c := range map[string]struct {
		question any
		want     wire.LogAnswer
	}{
		"a question": {wire.Question{Version: wire.Version, Log: q}, wire.LogAnswer{Cursor: "shop/api 5"}},
		"a question that asks nothing": {
			wire.Manifest{Orders: []wire.Order{{Item: "1", Op: process.Start}}},
			wire.LogAnswer{Error: "question refused: it asks for nothing"},
		},
		"a question of a newer version": {
			wire.Question{Version: wire.Version + 1, Log: q},
			wire.LogAnswer{Error: "question refused: written by a newer version"},
		},
	} {
		var a wire.LogAnswer
		askInto(t, i, c.question, &a)
		if d := cmp.Diff(c.want, a); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	var a wire.LogAnswer
	if err := json.Unmarshal(i.Ask(t.Context(), []byte("x")), &a); err != nil || !strings.Contains(a.Error, "refused") {
		t.Errorf("garbage is answered with %+v, %v", a, err)
	}
}

// TestQuestionsAboutRunningProcesses: they are answered on the same subject, if they are not too long.
func TestQuestionsAboutRunningProcesses(t *testing.T) {
	i := newIntake(badDisk{}, time.Now())
	i.cfg.Logs = parrot{}
	ask := func(q wire.LiveQuestion) (a wire.LiveAnswer) {
		t.Helper()
		askInto(t, i, wire.Question{Live: &q}, &a)
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

// TestQuestionsAboutUsage: they are answered on the same subject.
func TestQuestionsAboutUsage(t *testing.T) {
	i := newIntake(badDisk{}, time.Now())
	i.cfg.Logs = parrot{}
	var a wire.UsageAnswer
	askInto(t, i, wire.Question{
		Usage: &wire.UsageQuestion{Process: process.ID{Namespace: "shop", Name: "api"}, Seconds: 900},
	}, &a)
	if a.End != 900 || a.Error != "shop/api" {
		t.Errorf("a question is answered with %+v", a)
	}
}

// askInto asks a question, and reads the body of the answer.
func askInto(t *testing.T, i *Intake, question, body any) {
	t.Helper()
	data, err := json.Marshal(question)
	if err == nil {
		err = json.Unmarshal(i.Ask(t.Context(), data), body)
	}
	if err != nil {
		t.Fatal(err)
	}
}
