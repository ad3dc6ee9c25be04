package processes

import (
	"context"
	"sync"
	"time"

	v1 "drover/api/v1"
	"drover/internal/server/access"
	"drover/internal/server/api/call"
	"drover/internal/server/api/hosts"
	"drover/internal/server/edge"
	"drover/internal/server/fleet"
	"drover/internal/server/gate"
)

// Overview counts the processes that the caller may query, their causes, and the hosts that the caller may read.
func (h *Handler) Overview(ctx context.Context, c *call.Call) (call.Reply, error) {
	f := FilterOf(&c.Params)
	if err := c.Params.Done(); err != nil {
		return call.Reply{}, err
	}
	c.Audit.Target = edge.Clip(f.Namespace + "/" + f.Name)
	count := func() (v v1.Overview, err error) {
		q, err := h.Ready(ctx, &c.Principal, &f, true)
		if err != nil {
			return v, err
		}
		if v, err = h.Picture.Overview(ctx, q); err != nil {
			return v, call.Failure("count the processes", err)
		}
		if reach := c.Principal.OnHosts(access.ReadAgents); !reach.Nowhere() {
			v.Hosts = h.countHosts(f.hosts, reach)
		}
		return v, nil
	}
	var v v1.Overview
	var err error
	if h.SharedFor == 0 || f.selection != "" { // a selection is for one caller
		v, err = count()
	} else {
		v, err = h.overviews.get(rightsOf(&c.Principal)+" "+c.Params.Values.Encode(), h.SharedFor, h.Now, count)
	}
	if err != nil {
		return call.Reply{}, err
	}
	c.Audit.Targets = v.Processes.Total
	return call.OK(v)
}

// overviews are the latest overviews by rights and filter, because many people look at the same page.
type overviews struct {
	mu  sync.Mutex
	all map[string]*sharedOverview
}

// mostOverviews is the largest number of overviews that the handler keeps.
const mostOverviews = 256

type sharedOverview struct {
	mu   sync.Mutex
	at   time.Time
	took time.Duration
	v    v1.Overview
}

// restPerCount keeps the counting of one overview to a tenth of a processor: a large fleet is counted less often.
const restPerCount = 10

// get returns the overview of a key. It counts again, once for all callers, if the overview is older than rest. Callers
// must not change the overview.
func (o *overviews) get(key string, rest time.Duration, now func() time.Time, count func() (v1.Overview, error)) (
	v1.Overview, error,
) {
	o.mu.Lock()
	s := o.all[key]
	if s == nil {
		if o.all == nil || len(o.all) >= mostOverviews {
			o.all = map[string]*sharedOverview{}
		}
		s = &sharedOverview{}
		o.all[key] = s
	}
	o.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if age := now().Sub(s.at); age >= 0 && age < max(rest, restPerCount*s.took) {
		return s.v, nil
	}
	began := now()
	v, err := count()
	if err == nil {
		s.at, s.v = now(), v
		s.took = s.at.Sub(began)
	}
	return v, err
}

// countHosts counts chosen hosts within reach.
func (h *Handler) countHosts(hosts hosts.Choice, reach access.Reach) *v1.HostCounts {
	var n v1.HostCounts
	for a := range h.Directory.After(fleet.Place{}) {
		if !reach.Covers(gate.Host(a)) || !hosts.Matches(&a) {
			continue
		}
		p := h.Directory.Presence(a.Key, h.Now())
		if p.Away {
			n.Away++
			continue
		}
		n.Online++
		if seen := p.LastSeen.UTC(); n.OldestReport == nil || seen.Before(*n.OldestReport) {
			n.OldestReport = &seen
		}
	}
	return &n
}
