package limit

import (
	"time"

	"drover/internal/agent/procfs"
	"drover/internal/process"
)

// Reading is one look at one process.
type Reading struct {
	ID       process.ID
	Instance procfs.Identity
	Limits   process.Limits
	// Ready is when the start window of the instance is over, since boot: what it used before that does not count.
	Ready time.Duration
	Use   procfs.TreeUse
}

// Verdict says that an instance is to be ended.
type Verdict struct {
	ID       process.ID
	Instance procfs.Identity
	Breach   process.Breach
}

// patience is how long a condemned instance is left to be ended. One that is still there after it is judged like any
// other.
const patience = time.Minute

// Judge decides who has exceeded a limit for long enough. It measures nothing and owns no clock. The zero value is not
// usable; make it with NewJudge. It is for one goroutine at a time.
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
	// ownRun is how often running an instance was over its limit.
	ownRun struct {
		instance procfs.Identity
		samples  []float64
		seen     bool
	}
	pendingEnd struct {
		instance procfs.Identity
		until    time.Duration
	}
)

// NewJudge returns a judge who acts when so many readings running are over the limit, none of them more than gap after
// the one before.
func NewJudge(samples int, gap time.Duration) *Judge {
	return &Judge{
		samples: max(samples, 1), gap: gap,
		own: map[ownKey]*ownRun{}, pools: map[poolKey]*poolRun{}, condemned: map[process.ID]pendingEnd{},
	}
}

// Round takes the readings of one moment, at most one a process, and the groups of each namespace, and returns who is
// to be ended now. Whoever is missing from a round begins anew, and so does everybody after a gap. A condemned instance
// is neither judged nor counted until its time is up.
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

// pardon forgets the condemned that are gone, and those that should have been for long.
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

// overOwn counts a reading and reports whether it is one too many over the process's own limit.
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

// resource is something that is limited, by its name in a process.Breach.
type resource string

const (
	cpu resource = "cpu"
	mem resource = "mem"
)

func resources() []resource { return []resource{cpu, mem} }

func (r resource) limit(l process.Limits) float64 {
	if r == cpu {
		return l.CPU
	}
	return l.Mem
}

func (r resource) use(u procfs.TreeUse) float64 {
	if r == cpu {
		return u.CPU
	}
	return u.Mem
}

// counts reports whether a reading is of no part of the start window. That of the processor is of the time since the
// look before.
func (r resource) counts(x Reading) bool {
	if r == cpu {
		return x.Use.Since >= x.Ready
	}
	return x.Use.At >= x.Ready
}

// pool returns what a group grants, zero or less for all there is, and whether own limits count when a victim is
// chosen.
func (r resource) pool(g process.Group) (limit float64, weighted bool) {
	if r == cpu {
		return g.CPULimit, g.CPUWeight == 1
	}
	return g.MemLimit, g.MemWeight == 1
}
