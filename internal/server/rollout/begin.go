package rollout

import (
	"fmt"
	"strings"
	"time"
)

// begin begins the hosts of a batch. If too many hosts would be unavailable, it begins fewer of them: the others get
// the next batch. If it could begin none, hosts of later batches that are down take their places, unless canaries wait.
func (r *Rollout) begin(next int, facts map[string]Fact, now time.Time) {
	most := r.Plan.MaxUnavailable
	down, names := 0, []string(nil)
	for i := range r.Hosts {
		f := facts[r.Hosts[i].Agent]
		if !most.IsZero() && !f.Looked {
			return // the next look at the rollout looks at its processes, too
		}
		if !f.Up {
			down, names = down+1, append(names, r.Hosts[i].Name)
		}
	}
	var begun, left []*Host
	for i := range r.Hosts {
		h := &r.Hosts[i]
		switch {
		case h.State != Waiting || h.Batch != next:
		case most.IsZero() || !facts[h.Agent].Up: // its own process is down already
			begun = append(begun, h)
		case down < max(1, most.Of(len(r.Hosts))):
			down++
			begun = append(begun, h)
		default:
			left = append(left, h)
		}
	}
	if len(begun) == 0 {
		begun = r.mended(next, len(left), facts)
	}
	if len(begun) == 0 {
		r.Reason = fmt.Sprintf("%d of %d hosts are unavailable, and at most %d may be: %s", down, len(r.Hosts),
			max(1, most.Of(len(r.Hosts))), someOf(names))
		return
	}
	r.Reason = ""
	if len(left) > 0 { // no host that has begun has a later batch
		for i := range r.Hosts {
			if h := &r.Hosts[i]; h.State == Waiting && h.Batch > next {
				h.Batch++
			}
		}
		for _, h := range left {
			h.Batch++
		}
	}
	r.Batch, r.Settled = next, time.Time{}
	for _, h := range begun {
		h.State, h.Begun, h.Batch = Begun, now, next
	}
}

// mended returns at most some hosts of later batches on which the process is down, and that are connected: the
// operation can only improve them. It returns none while canaries wait.
func (r *Rollout) mended(next, some int, facts map[string]Fact) (list []*Host) {
	for i := range r.Hosts {
		h := &r.Hosts[i]
		if h.State != Waiting {
			continue
		}
		if i < r.Plan.Canary {
			return nil
		}
		if f := facts[h.Agent]; h.Batch > next && !f.Up && !f.Away && len(list) < some {
			list = append(list, h)
		}
	}
	return list
}

// someOf names the first of some hosts.
func someOf(names []string) string {
	const most = 3
	if n := len(names) - most; n > 0 {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(", and %d more", n)
	}
	return strings.Join(names, ", ")
}
