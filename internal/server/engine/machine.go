package engine

import (
	"maps"
	"slices"

	"drover/internal/selector"
	"drover/internal/server/fleet"
	"drover/internal/server/store"
	"drover/internal/wire"
)

// The limits on the description of a host, which agents keep, too.
const (
	mostFacts = 64
	mostDisks = 32
	mostFull  = 2
	mostNotes = 8
)

// hostOf returns the description of a host as far as the server keeps it: without texts that are too long or hold
// control characters, and without entries beyond the limits. If the agent is still gathering facts, hostOf takes those
// of an earlier introduction: else a selector would miss a host that has just restarted.
func hostOf(h wire.Host, known store.Host) store.Host {
	host := store.Host{
		System: plainText(h.OS), Kernel: plainText(h.Kernel), Arch: plainText(h.Arch), CPUs: max(h.CPUs, 0),
		Memory: max(h.Memory, 0),
		Labels: firstValid(h.Labels, selector.MaxLabels, func(key, value string) bool {
			return selector.CheckKey(key) == nil && selector.CheckValue(key, value) == nil
		}),
	}
	if h.Gathering {
		host.OS, host.Version, host.Disks, host.Facts = known.OS, known.Version, known.Disks, known.Facts
		host.Full, host.Notes = known.Full, known.Notes
		return host
	}
	host.OS, host.Version = plainText(h.Distribution), plainText(h.Version)
	for _, d := range h.Disks[:min(len(h.Disks), mostDisks)] {
		if plainText(d.Path) != "" && d.Size > 0 {
			host.Disks = append(host.Disks, store.Mount{Path: d.Path, Size: d.Size})
		}
	}
	host.Full = firstValid(h.Full, mostFull, func(dir string, since int64) bool {
		return plainText(dir) != "" && since > 0
	})
	for _, note := range h.Notes[:min(len(h.Notes), mostNotes)] {
		if plainText(note) != "" {
			host.Notes = append(host.Notes, note)
		}
	}
	host.Facts = firstValid(h.Facts, mostFacts, func(name, value string) bool {
		return selector.CheckFact(name, value) == nil
	})
	return host
}

// plainText returns a text that can be the value of a fact, and nothing for another text.
func plainText(text string) string {
	if selector.CheckText("", text) != nil {
		return ""
	}
	return text
}

// firstValid returns the valid entries in the order of their keys, at most a number of them; nil if there are none.
func firstValid[V any](entries map[string]V, most int, valid func(key string, value V) bool) map[string]V {
	var list map[string]V
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		if len(list) < most && valid(key, entries[key]) {
			if list == nil {
				list = map[string]V{}
			}
			list[key] = entries[key]
		}
	}
	return list
}

// loadOf returns the load of a host within its range.
func loadOf(l wire.Load) fleet.Load {
	const most = 1000
	return fleet.Load{CPU: min(max(l.CPU, 0), most), Memory: min(max(l.Memory, 0), most)}
}
