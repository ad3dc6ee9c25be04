package report_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover/internal/agent/report"
	"drover/internal/process"
	"drover/internal/wire"
)

// pools are the groups of a host, or why they cannot be read.
type pools struct {
	groups map[string][]process.Group
	err    error
}

func (p *pools) Groups() (map[string][]process.Group, error) { return p.groups, p.err }

// introductions is a server that only takes down what groups agents say they have.
type introductions struct{ groups []map[string]string }

func (l *introductions) Report(_ context.Context, data []byte) ([]byte, error) {
	var rep wire.Report
	if err := json.Unmarshal(data, &rep); err != nil {
		return nil, err
	}
	if rep.Hello != nil {
		l.groups = append(l.groups, rep.Hello.Groups)
	}
	return json.Marshal(wire.ReportAck{Version: wire.Version})
}

// TestHelloTellsOfGroups: as they are then, and of none where they cannot be read, so that the server sends them.
func TestHelloTellsOfGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := []process.Group{{ID: "g", CPULimit: 20}}
		p, l := &pools{}, &introductions{}
		linkState := linked()
		r := report.New(report.Config{
			Link: l, LinkState: linkState, Groups: p, Heartbeat: time.Minute,
			Log: slog.New(slog.DiscardHandler),
		})
		during(t, r, &rig{t: t}, nil, func() {
			p.groups = map[string][]process.Group{"ns": g}
			linkState.Connected()
			synctest.Wait()
			p.groups, p.err = nil, errors.New("disk on fire")
			linkState.Connected()
			synctest.Wait()
		})
		if diff := cmp.Diff([]map[string]string{nil, {"ns": wire.GroupsDigest(g)}, nil}, l.groups); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
	})
}
