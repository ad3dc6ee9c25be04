package limit

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"drover/internal/process"
)

const (
	// noLimit is the own limit, in percent, that a process without a limit gets in a weighted score.
	noLimit = 100
	// leastLimit is the smallest own limit in a weighted score, in percent, because drover measures nothing smaller.
	leastLimit = 0.01
)

type (
	poolKey struct {
		namespace, id string
		resource      resource
	}
	// poolRun has the consecutive sums over the limit.
	poolRun struct {
		limit float64
		sums  []float64
		seen  bool
	}
)

// judgePools checks the pools of all namespaces in the order of their names, and chooses victims in a pool that was
// exceeded for long enough. A victim of one pool does not count in the next.
func (j *Judge) judgePools(readings []Reading, groups map[string][]process.Group) []Verdict {
	var verdicts []Verdict
	for _, namespace := range slices.Sorted(maps.Keys(groups)) {
		members := make([]Reading, 0, len(readings))
		for _, r := range readings {
			if r.ID.Namespace == namespace {
				members = append(members, r)
			}
		}
		for _, g := range inForce(groups[namespace]) {
			for _, res := range resources() {
				key := poolKey{namespace: namespace, id: g.ID, resource: res}
				chosen := j.judgePool(key, g, members)
				verdicts = append(verdicts, chosen...)
				for _, v := range chosen {
					i := slices.IndexFunc(members, func(r Reading) bool { return r.ID == v.ID })
					members = append(members[:i], members[i+1:]...)
				}
			}
		}
	}
	for key, run := range j.pools {
		if !run.seen {
			delete(j.pools, key)
		}
		run.seen = false
	}
	return verdicts
}

// inForce returns the groups of a namespace. Of groups with the same id the last counts.
func inForce(groups []process.Group) []process.Group {
	var kept []process.Group
	for i, g := range groups {
		if !slices.ContainsFunc(groups[i+1:], func(later process.Group) bool { return later.ID == g.ID }) {
			kept = append(kept, g)
		}
	}
	return kept
}

// judgePool checks one pool, and chooses victims if it was exceeded for long enough.
func (j *Judge) judgePool(key poolKey, g process.Group, members []Reading) []Verdict {
	limit, weighted := key.resource.pool(g)
	if limit <= 0 {
		return nil
	}
	stakes := weigh(key.resource, weighted, members)
	sum := suffixSums(stakes)[0]
	if sum <= limit {
		return nil
	}
	run := j.pools[key]
	if run == nil || run.limit != limit {
		run = &poolRun{limit: limit}
		j.pools[key] = run
	}
	run.seen = true
	if run.sums = append(run.sums, sum); len(run.sums) < j.samples {
		return nil
	}
	delete(j.pools, key)
	breach := process.Breach{
		Resource: string(key.resource), Limit: limit, Samples: run.sums, Group: g.ID,
		Scores: scores(stakes),
	}
	var verdicts []Verdict
	for i, left := range suffixSums(stakes) {
		if left <= limit {
			break
		}
		verdicts = append(verdicts, j.condemn(stakes[i].reading, breach))
	}
	return verdicts
}

// poolShare is the share of one process in a pool.
type poolShare struct {
	reading Reading
	score   process.Score
}

// weigh returns the processes that count, highest score first; processes with the same score are in the order of their
// names.
func weigh(res resource, weighted bool, members []Reading) []*poolShare {
	stakes := make([]*poolShare, 0, len(members))
	for _, r := range members {
		if !res.counts(r) {
			continue
		}
		s := process.Score{Process: r.ID, Usage: res.use(r.Use), Limit: max(res.limit(r.Limits), 0)}
		s.Score = s.Usage
		if weighted {
			own := s.Limit
			if own == 0 {
				own = noLimit
			}
			s.Score = s.Usage / max(own, leastLimit)
		}
		stakes = append(stakes, &poolShare{reading: r, score: s})
	}
	slices.SortFunc(stakes, func(a, b *poolShare) int {
		return cmp.Or(cmp.Compare(b.score.Score, a.score.Score),
			strings.Compare(a.score.Process.Name, b.score.Process.Name))
	})
	return stakes
}

// suffixSums returns the sums of use: of all processes, without the first, without the first two, and so on down to
// none.
func suffixSums(stakes []*poolShare) []float64 {
	left := make([]float64, len(stakes)+1)
	for i := len(stakes) - 1; i >= 0; i-- {
		left[i] = left[i+1] + stakes[i].score.Usage
	}
	return left
}

func scores(stakes []*poolShare) []process.Score {
	out := make([]process.Score, len(stakes))
	for i := range stakes {
		out[i] = stakes[i].score
	}
	return out
}
