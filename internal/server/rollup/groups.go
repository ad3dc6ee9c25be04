package rollup

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/fleet"
	"drover/internal/server/store"
	"drover/internal/why"
	"drover/internal/words"
)

// ByLabel begins the name of a grouping by the value of a label or a fact of the host: "label:KEY".
const ByLabel = "label:"

// Groupings lists the other groupings.
func Groupings() []string {
	return []string{"process", "host", "area", "namespace", "version", "cause", "state"}
}

// keyOf returns the group of a process in a grouping.
func keyOf(by string, f *Found) string {
	switch by {
	case "process":
		base, _ := process.CutCopy(f.Process.Name)
		return f.Process.Namespace + "/" + base
	case "host":
		return fleet.NameOf(*f.Agent)
	case "area":
		return fmt.Sprint(f.Agent.Cloud)
	case "namespace":
		return f.Process.Namespace
	case "version":
		return f.Version
	case "cause":
		return string(f.Finding().Cause.ID)
	case "state":
		return f.State
	default:
		value, _ := f.Agent.Select(strings.TrimPrefix(by, ByLabel))
		return value
	}
}

// Place is a place in a list of groups or processes. A list is in the order of Number from the largest, then of Text,
// the names of Key and Host from the smallest.
type Place struct {
	Number int64             `json:"number,omitempty"`
	Text   string            `json:"text,omitempty"`
	Key    store.ObservedKey `json:"key,omitzero"`
	Host   fleet.Place       `json:"host,omitzero"`
}

// placeOf returns the place of a process in the order of names.
func placeOf(f *Found) Place {
	return Place{Key: f.Place(), Host: fleet.PlaceOf(*f.Agent)}
}

// numbered returns the place of a process with a number, and texted with a text.
func numbered(f *Found, n int64) Place {
	p := placeOf(f)
	p.Number = n
	return p
}

func texted(f *Found, text string) Place {
	p := placeOf(f)
	p.Text = text
	return p
}

func (a Place) compare(b Place) int {
	return cmp.Or(cmp.Compare(b.Number, a.Number), process.CompareNatural(a.Text, b.Text),
		process.CompareNatural(a.Key.Process.Namespace, b.Key.Process.Namespace),
		process.CompareNatural(a.Key.Process.Name, b.Key.Process.Name), a.Host.Compare(b.Host),
		cmp.Compare(a.Key.Agent, b.Key.Agent))
}

// Order says what a list is ordered by.
type Order func(f *Found) Place

// Orders returns the orders of lists of processes, by name. An order whose name begins with a minus has the latest or
// the worst first.
func Orders() map[string]Order {
	return map[string]Order{
		"process": placeOf,
		"host":    func(f *Found) Place { return texted(f, fleet.NameOf(*f.Agent)) },
		"state":   func(f *Found) Place { return texted(f, f.State) },
		"-since":  func(f *Found) Place { return numbered(f, f.Since) },
		"-cpu":    func(f *Found) Place { return numbered(f, int64(f.CPU)) },
		"-memory": func(f *Found) Place { return numbered(f, int64(f.Memory)) },
	}
}

// few is how many more places than its page a list collects before it drops the last ones.
const few = 100

// List returns up to limit places after a place in an order, whether more follow, and the number of all processes of
// the query. The zero place comes before all.
func (p *Rollup) List(ctx context.Context, q *Query, order Order, after Place, limit int) (places []Place, more bool,
	total int, err error,
) {
	var worst *Place // of the first ones so far
	sort := func() {
		slices.SortFunc(places, Place.compare)
		if len(places) > limit {
			places, more = places[:limit], true
		}
	}
	err = p.Each(ctx, q, func(f *Found) {
		total++
		at := order(f)
		if after != (Place{}) && after.compare(at) >= 0 {
			return
		}
		if worst != nil && at.compare(*worst) > 0 {
			more = true
			return
		}
		if places = append(places, at); len(places) >= 2*limit+few {
			sort()
			last := places[limit-1]
			worst = &last
		}
	})
	sort()
	return places, more, total, err
}

// GroupOrders returns the orders of lists of groups, by name.
func GroupOrders() map[string]func(g *v1.ProcessGroup) Place {
	return map[string]func(g *v1.ProcessGroup) Place{
		"key":    func(g *v1.ProcessGroup) Place { return Place{Text: g.Key} },
		"-total": func(g *v1.ProcessGroup) Place { return Place{Number: int64(g.Total), Text: g.Key} },
		"-wrong": func(g *v1.ProcessGroup) Place { return Place{Number: int64(g.Wrong), Text: g.Key} },
	}
}

// Groups returns up to limit groups after a place in an order, whether more follow, and the number of all groups. The
// zero place comes before all, but for a group without a key.
func (p *Rollup) Groups(ctx context.Context, q *Query, by string, order func(*v1.ProcessGroup) Place, after *Place,
	limit int,
) (page []v1.ProcessGroup, more bool, total int, err error) {
	type group struct {
		v1.ProcessGroup
		agent   string // the last one
		changed int64
	}
	groups := map[string]*group{}
	// To make a key takes time: the processes of a name, or of a host, share it.
	named, byHost := map[process.ID]*group{}, by == "host" || by == "area" || strings.HasPrefix(by, ByLabel)
	var g *group
	err = p.Each(ctx, q, func(f *Found) {
		if !byHost {
			g = named[f.Process]
		}
		if g == nil || byHost && g.agent != f.Key {
			key := keyOf(by, f)
			if g = groups[key]; g == nil {
				g = &group{}
				g.Key, g.States = key, map[string]int{}
				groups[key] = g
			}
			if by == "process" {
				named[f.Process] = g
			}
		}
		add(&g.ProcessCounts, f)
		if g.agent != f.Key || g.Hosts == 0 {
			g.agent, g.Hosts = f.Key, g.Hosts+1
		}
		if f.Hosted {
			g.Hosted++
		}
		if f.Finding().Wrong {
			g.Wrong++
		}
		if f.Since <= lastMoment {
			g.changed = max(g.changed, f.Since)
		}
	})
	type placed struct {
		at Place
		g  *group
	}
	var all []placed
	for _, g := range groups {
		if at := order(&g.ProcessGroup); after == nil || after.compare(at) < 0 {
			all = append(all, placed{at, g})
		}
	}
	slices.SortFunc(all, func(a, b placed) int { return a.at.compare(b.at) })
	for _, one := range all[:min(len(all), limit)] {
		one.g.ChangedAt = instant(one.g.changed)
		page = append(page, one.g.ProcessGroup)
	}
	return page, len(all) > limit, len(groups), err
}

// add counts a process.
func add(n *v1.ProcessCounts, f *Found) {
	if n.Total++; f.Stale {
		n.Stale++
	} else {
		n.States[f.State]++
	}
}

// lastMoment is the last time that JSON can represent, in Unix milliseconds: the end of the year 9999.
const lastMoment = 253402300799000

func instant(milliseconds int64) *time.Time {
	if milliseconds <= 0 || milliseconds > lastMoment {
		return nil
	}
	t := time.UnixMilli(milliseconds).UTC()
	return &t
}

// mostOfCause is how many processes of a cause an overview names.
const mostOfCause = 10

// trendStep is the length of a step of a trend.
const trendStep = time.Hour / v1.TrendSteps

// causeGroup is a group of an overview while it is counted.
type causeGroup struct {
	v1.CauseGroup
	agent string
	since int64
	of    map[process.ID]int
}

type causeGroups map[process.CauseID]*causeGroup

// add counts a process under one of its causes. A further cause is at most as severe as the finding.
func (groups causeGroups) add(catalogue why.Catalogue, c process.Cause, f *Found, now time.Time) {
	e, known := catalogue.Lookup(c.ID)
	severity := f.Finding().Severity
	if known && c.ID != f.Finding().Cause.ID && e.Severity.Compare(severity) > 0 {
		severity = e.Severity
	}
	g := groups[c.ID]
	if g == nil {
		g = &causeGroup{of: map[process.ID]int{}, CauseGroup: v1.CauseGroup{CauseCount: v1.CauseCount{
			ID: string(c.ID), Severity: string(severity), Page: e.Page(),
			Title: e.Title.In(words.English), Meaning: e.Meaning.In(words.English),
			Remedy: e.Remedy.In(words.English),
		}, Trend: make([]int, v1.TrendSteps)}}
		groups[c.ID] = g
	}
	g.Count++
	g.Trend[stepOf(c.Since, now)]++
	if severity.Compare(why.Severity(g.Severity)) < 0 {
		g.Severity = string(severity)
	}
	if g.agent != f.Key || g.Hosts == 0 {
		g.agent, g.Hosts = f.Key, g.Hosts+1
	}
	if c.Since > 0 && (g.since == 0 || c.Since < g.since) {
		g.since, g.Since = c.Since, instant(c.Since)
	}
	base, _ := process.CutCopy(f.Process.Name)
	g.of[process.ID{Namespace: f.Process.Namespace, Name: base}]++
}

// stepOf is the step of a trend in which a time lies. What is older or unknown lies in the first, and what the clock of
// a host has in the future, in the last.
func stepOf(milliseconds int64, now time.Time) int {
	const last = v1.TrendSteps - 1
	at := instant(milliseconds)
	if at == nil {
		return 0
	}
	return min(max(last-int(now.Sub(*at)/trendStep), 0), last)
}

// Overview counts the processes of a query, and groups those that are not as they should be by their causes, the worst
// first. A process with several causes counts in each of their groups: a crash loop is in the group of its exit status
// and in that of flapping, up or down. It leaves out what is not about processes.
func (p *Rollup) Overview(ctx context.Context, q *Query) (v v1.Overview, err error) {
	v = v1.Overview{Processes: v1.ProcessCounts{States: map[string]int{}}, Causes: []v1.CauseGroup{}}
	groups, catalogue, now := causeGroups{}, why.Open(), p.Now()
	err = p.Each(ctx, q, func(f *Found) {
		add(&v.Processes, f)
		if f.Finding().Wrong {
			v.Wrong++
		}
		for _, c := range catalogue.Problems(f.Finding()) {
			groups.add(catalogue, c, f, now)
		}
	})
	for _, g := range groups {
		for id, n := range g.of {
			g.Processes = append(g.Processes, v1.ProcessCount{Namespace: id.Namespace, Name: id.Name, Count: n})
		}
		slices.SortFunc(g.Processes, func(a, b v1.ProcessCount) int {
			return cmp.Or(b.Count-a.Count, cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		})
		g.Processes = g.Processes[:min(len(g.Processes), mostOfCause)]
		for i := range v1.TrendSteps - 1 {
			g.Trend[i+1] += g.Trend[i]
		}
		v.Causes = append(v.Causes, g.CauseGroup)
	}
	slices.SortFunc(v.Causes, func(a, b v1.CauseGroup) int {
		worse := why.Severity(a.Severity).Compare(why.Severity(b.Severity))
		return cmp.Or(worse, b.Count-a.Count, cmp.Compare(a.ID, b.ID))
	})
	return v, err
}
