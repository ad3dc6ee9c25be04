package supervisor_test

import (
	"fmt"
	"log/slog"
	"testing"

	v1 "drover/api/v1"
	"drover/internal/agent/instance"
	"drover/internal/agent/operation/operationtest"
	"drover/internal/agent/record"
	"drover/internal/agent/supervisor"
	"drover/internal/process"
)

// BenchmarkPeers is what one process asks about all others when it is looked at, where there are 5,000.
func BenchmarkPeers(b *testing.B) {
	const n = 5000
	world := operationtest.New(b)
	h := &handle{disk: newDisk(), World: world}
	s := supervisor.New(supervisor.Config{
		Store: h, Histories: h, Revisions: h, Sink: newSink(h), Operation: world.Operations(), BootStarts: 1,
		Log: slog.New(slog.DiscardHandler),
	})
	records := make([]record.Record, n)
	instances := make([]instance.Identity, n)
	for i := range n {
		name := fmt.Sprint(i)
		spec := process.Spec{ProcessName: name, PIDFile: file(name), Compat: &v1.Compat{}}
		records[i] = record.Record{ID: id(name), Spec: spec, Hosted: true}
		instances[i] = instance.Identity{BootID: operationtest.Boot, PID: i + 2, StartTicks: 1}
		if err := h.PutRuntime(id(name), record.Runtime{Process: &instances[i], PIDFile: file(name)}); err != nil {
			b.Fatal(err)
		}
	}
	s.Adopt(records, nil)
	b.ReportAllocs()
	for i := 0; b.Loop(); i = (i + 1) % n {
		rec := &records[i]
		if owner, _, ok := s.Owner(rec.ID, instances[i]); ok {
			b.Fatalf("%s belongs to %s", rec.ID, owner)
		}
		if other, ok := s.Hosting(rec.ID, &rec.Spec, file(rec.ID.Name)); ok {
			b.Fatalf("%s is hosted as %s", rec.ID, other)
		}
	}
}
