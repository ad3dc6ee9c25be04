package plan

import (
	"cmp"
	"encoding/json"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/processfile"
)

// Part are the steps of the processes with equal rollouts.
type Part struct {
	Plan  *v1.RolloutPlan
	Steps []Step
}

// Split groups steps by the rollouts of their processes. planOf returns the rollout of a process by that of its file;
// either may be nil. The result is empty if no process has a rollout. If only some have one, the others go to all hosts
// at once. Split fails with processfile.Faults if a process has another rollout on another host.
func Split(steps []Step, planOf func(file *v1.RolloutPlan) (*v1.RolloutPlan, error)) (parts []Part, err error) {
	plans := map[process.ID]*v1.RolloutPlan{}
	var faults processfile.Faults
	told := map[process.ID]bool{}
	some := false
	for _, removals := range []bool{false, true} { // the file of a process counts more than what the host has
		for i := range steps {
			entry := steps[i].entry()
			was, known := plans[entry]
			if steps[i].Removes != removals || removals && known {
				continue
			}
			p, err := planOf(steps[i].spec().Rollout)
			if err != nil {
				return nil, err
			}
			if known && textOf(was) != textOf(p) && !told[entry] {
				told[entry] = true
				faults = append(faults, processfile.Fault{
					Path: "processes." + entry.Name + ".rollout",
					Text: "differs between hosts: expected the same for all",
				})
			}
			plans[entry], some = p, some || p != nil
		}
	}
	if len(faults) > 0 {
		return nil, faults
	}
	if !some {
		return nil, nil
	}
	place := map[string]int{}
	for i := range steps {
		p := plans[steps[i].entry()]
		if p == nil {
			p = &v1.RolloutPlan{Batch: v1.HostCount{Percent: 100}}
		}
		at, known := place[textOf(p)]
		if !known {
			at = len(parts)
			place[textOf(p)] = at
			parts = append(parts, Part{Plan: p})
		}
		parts[at].Steps = append(parts[at].Steps, steps[i])
	}
	return parts, nil
}

// spec returns the spec that the step brings or removes.
func (s *Step) spec() *process.Spec { return cmp.Or(s.Spec, s.Former) }

// entry names the process, or the process of which it is a copy.
func (s *Step) entry() process.ID {
	of, _ := process.CopyOf(s.spec(), s.Process)
	return of
}

func textOf(p *v1.RolloutPlan) string {
	text, _ := json.Marshal(p) // a rollout always encodes
	return string(text)
}
