package supervisor

import (
	"time"

	"drover/internal/agent/lifecycle"
	"drover/internal/agent/story"
	"drover/internal/process"
)

// snapshot is safe to call from any goroutine.
func (r *runner) snapshot() (process.Status, *process.Spec, bool) {
	p := r.shared.load()
	if p.Record == nil {
		return process.Status{}, nil, false
	}
	v := story.View{Now: time.Now(), Uptime: r.now(), Findings: r.sup.operator.Findings(p.Record, &p.Runtime)}
	if next, ok := r.sup.cfg.Timetables.Next(r.id); ok {
		v.NextRun = next.UnixMilli()
	}
	for _, id := range r.sup.order.dependentsOf(r.id) {
		v.Dependents = append(v.Dependents, id.String())
	}
	v.Absent = r.sup.missingPeers(r.id, &p.Record.Spec)
	if p.Runtime.Process != nil {
		r.measure(&p, &v)
	}
	return p.Status(v), &p.Record.Spec, true
}

// measure describes the running instance.
func (r *runner) measure(p *story.Process, v *story.View) {
	i, _, err := r.sup.operator.Processes.Instance(*p.Runtime.Process)
	if err != nil {
		return
	}
	r.sup.operator.Describe(r.id, *p.Runtime.Process, &i)
	v.Instance, v.Usage = &i, r.usage()
}

// usage is what the process used at the last look; nil if there was none.
func (r *runner) usage() *process.Usage {
	if u, ok := r.sup.cfg.Usages.Usage(r.id); ok {
		return &u
	}
	return nil
}

// Counts are counts over all processes.
type Counts struct {
	// States counts the processes by the state that their status shows. Hosted, Flapping and Unhealthy count the
	// processes with that property.
	States                      map[string]int
	Hosted, Flapping, Unhealthy int
	// Waiting counts operations that wait for others on the same process.
	Waiting int
}

// Counts counts from the published state, without a look at the processes themselves.
func (s *Supervisor) Counts() Counts {
	total := Counts{States: map[string]int{}}
	for _, state := range lifecycle.States() {
		total.States[string(state)] = 0
	}
	total.States[story.Flapping], total.States[story.Unhealthy] = 0, 0
	total.States[story.NotReadyState] = 0
	for _, r := range s.all() {
		total.Waiting += r.countQueued()
		f := r.shared.load()
		if f.Record == nil {
			continue
		}
		total.States[f.StateName(r.now())]++
		if f.Record.Hosted {
			total.Hosted++
		}
		if f.IsFlapping(r.now()) {
			total.Flapping++
		}
		if f.IsUnhealthy() {
			total.Unhealthy++
		}
	}
	return total
}
