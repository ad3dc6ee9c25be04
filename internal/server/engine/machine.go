package engine

import (
	"maps"
	"slices"

	"drover/internal/selector"
	"drover/internal/server/store"
	"drover/internal/wire"
)

// The limits on the description of a host, which agents keep, too.
const (
	mostFacts = 64
	mostDisks = 32
)

// hostOf returns the description of a host as far as the server keeps it: without texts that are too long or hold
// control characters, and without entries beyond the limits. known are the facts of an earlier introduction.
func hostOf(h wire.Host, known map[string]string) store.Host {
	host := store.Host{
		System: plainText(h.OS), OS: plainText(h.Distribution), Version: plainText(h.Version), Kernel: plainText(h.Kernel),
		Arch: plainText(h.Arch), CPUs: max(h.CPUs, 0), Memory: max(h.Memory, 0), Facts: known,
		Labels: kept(h.Labels, selector.MaxLabels, func(key, value string) bool {
			return selector.CheckKey(key) == nil && selector.CheckValue(key, value) == nil
		}),
	}
	for _, d := range h.Disks[:min(len(h.Disks), mostDisks)] {
		if plainText(d.Path) != "" && d.Size > 0 {
			host.Disks = append(host.Disks, store.Mount{Path: d.Path, Size: d.Size})
		}
	}
	if !h.Gathering {
		host.Facts = kept(h.Facts, mostFacts, func(name, value string) bool {
			return selector.CheckFact(name, value) == nil
		})
	}
	return host
}

// plainText returns a text that can be the value of a fact, and nothing for another text.
func plainText(text string) string {
	if selector.CheckText("", text) != nil {
		return ""
	}
	return text
}

// kept returns the valid entries in the order of their keys, at most a number of them; nil if there are none.
func kept(entries map[string]string, most int, valid func(key, value string) bool) map[string]string {
	var list map[string]string
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		if len(list) < most && valid(key, entries[key]) {
			if list == nil {
				list = map[string]string{}
			}
			list[key] = entries[key]
		}
	}
	return list
}
