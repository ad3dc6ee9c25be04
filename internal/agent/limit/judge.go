package limit

import (
	"time"

	"drover/internal/agent/instance"
	"drover/internal/agent/procfs"
	"drover/internal/process"
	"drover/internal/spec"
)

// Reading is one look at one process.
type Reading struct {
	ID       process.ID
	Instance instance.Identity
	Limits   spec.Thresholds
	// Ready is the end of the instance's start window, since boot: earlier use does not count.
	Ready time.Duration
	Use   procfs.TreeUse
}

// Verdict says which instance must end.
type Verdict struct {
	ID       process.ID
	Instance instance.Identity
	Breach   process.Breach
}

// patience is how long a condemned instance has time to end. After that, the judge treats it like any other instance.
const patience = time.Minute

// Judge decides which processes have exceeded a limit for long enough. It measures nothing and has no clock. Make it
// with NewJudge; the zero value is not usable. Only one goroutine at a time may use it.
type Judge struct {
	samples int
	gap     time.Duration

	at        time.Duration
	own       map[ownKey]*ownRun
	pools     map[poolKey]*poolRun
	condemned map[process.ID]pendingEnd
}

type (
	ownKey struct {
		id       process.ID
		resource resource
	}
	// ownRun has the consecutive readings of an instance over its limit.
	ownRun struct {
		instance instance.Identity
		samples  []float64
		seen     bool
	}
	pendingEnd struct {
		instance instance.Identity
		until    time.Duration
	}
)

// NewJudge returns a judge that acts after samples consecutive readings over the limit, with at most gap between two
// of them.
func NewJudge(samples int, gap time.Duration) *Judge {
	return &Judge{
		samples: max(samples, 1), gap: gap,
		own: map[ownKey]*ownRun{}, pools: map[poolKey]*poolRun{}, condemned: map[process.ID]pendingEnd{},
	}
}

// Round takes the readings of one moment, at most one for each process, and the groups of each namespace. It returns
// the instances to end now. The count of a process restarts if the process is missing from a round, and all counts
// restart after a gap. A condemned instance is neither judged nor counted until its time is up.
func (j *Judge) Round(at time.Duration, readings []Reading, groups map[string][]process.Group) []Verdict {
	if at-j.at > j.gap {
		clear(j.own)
		clear(j.pools)
	}
	j.at = at
	j.pardon(readings)
	var verdicts []Verdict
	free := make([]Reading, 0, len(readings))
	for _, r := range readings {
		if _, ok := j.condemned[r.ID]; ok {
			continue
		}
		breach, over := j.overOwn(r)
		if !over {
			free = append(free, r)
			continue
		}
		verdicts = append(verdicts, j.condemn(r, breach))
	}
	for key, run := range j.own {
		if !run.seen {
			delete(j.own, key)
		}
		run.seen = false
	}
	return append(verdicts, j.judgePools(free, groups)...)
}

// pardon forgets condemned instances that are gone, or whose time is up.
func (j *Judge) pardon(readings []Reading) {
	if len(j.condemned) == 0 {
		return
	}
	still := make(map[process.ID]pendingEnd, len(j.condemned))
	for _, r := range readings {
		if s, ok := j.condemned[r.ID]; ok && s.instance == r.Instance && j.at < s.until {
			still[r.ID] = s
		}
	}
	j.condemned = still
}

func (j *Judge) condemn(r Reading, b process.Breach) Verdict {
	j.condemned[r.ID] = pendingEnd{instance: r.Instance, until: j.at + patience}
	return Verdict{ID: r.ID, Instance: r.Instance, Breach: b}
}

// overOwn counts a reading over the process's own limit, and reports whether it is one too many.
func (j *Judge) overOwn(r Reading) (process.Breach, bool) {
	for _, res := range resources() {
		key, limit, use := ownKey{r.ID, res}, res.limit(r.Limits), res.use(r.Use)
		if limit <= 0 || !res.counts(r) || use <= limit {
			continue
		}
		run := j.own[key]
		if run == nil || run.instance != r.Instance {
			run = &ownRun{instance: r.Instance}
			j.own[key] = run
		}
		run.seen = true
		if run.samples = append(run.samples, use); len(run.samples) >= j.samples {
			delete(j.own, key)
			return process.Breach{Resource: string(res), Limit: limit, Samples: run.samples}, true
		}
	}
	return process.Breach{}, false
}

// resource is a limited resource, with its name in a process.Breach.
type resource string

const (
	cpu resource = "cpu"
	mem resource = "mem"
)

func resources() []resource { return []resource{cpu, mem} }

func (r resource) limit(l spec.Thresholds) float64 {
	if r == cpu {
		return float64(l.CPU)
	}
	return float64(l.Memory)
}

func (r resource) use(u procfs.TreeUse) float64 {
	if r == cpu {
		return u.CPU
	}
	return u.Mem
}

// counts reports whether a reading lies outside the start window. A reading of the CPU covers the time since the look
// before.
func (r resource) counts(x Reading) bool {
	if r == cpu {
		return x.Use.Since >= x.Ready
	}
	return x.Use.At >= x.Ready
}

// pool returns the limit of a group, zero or less for no limit. weighted says that the choice of a victim considers
// the processes' own limits.
func (r resource) pool(g process.Group) (limit float64, weighted bool) {
	if r == cpu {
		return g.CPULimit, g.CPUWeight == 1
	}
	return g.MemLimit, g.MemWeight == 1
}
