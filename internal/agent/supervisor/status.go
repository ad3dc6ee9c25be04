package supervisor

import (
	"time"

	"drover/internal/agent/story"
	"drover/internal/process"
)

// snapshot may be called by any goroutine.
func (r *runner) snapshot() (process.Status, *process.Spec, bool) {
	p := r.shared.load()
	if p.Record == nil {
		return process.Status{}, nil, false
	}
	v := story.View{Now: time.Now(), Uptime: r.now(), NotInForce: r.sup.operator.NotInForce(&p.Record.Spec)}
	if next, ok := r.sup.cfg.Timetables.Next(r.id); ok {
		v.NextRun = next.UnixMilli()
	}
	if p.Runtime.Process != nil {
		r.measure(&p, &v)
	}
	return p.Status(v), &p.Record.Spec, true
}

// measure looks at the running instance.
func (r *runner) measure(p *story.Process, v *story.View) {
	i, _, err := r.sup.operator.Processes.Instance(*p.Runtime.Process)
	if err != nil {
		return
	}
	r.sup.operator.Describe(r.id, *p.Runtime.Process, &i)
	v.Instance = &i
	if u, ok := r.sup.cfg.Usages.Usage(r.id); ok {
		v.Usage = &u
	}
}
