package ui

import (
	v1 "drover/api/v1"
	"drover/internal/cli/remote"
	"drover/internal/words"
)

// usageWidth is the width of a history, in cells.
const usageWidth = 40

// fillUsage adds what a process has used in the last hour. A host that does not answer is no fault of the list.
func (c *caller) fillUsage(answer *Listed, p *v1.Process) {
	if p.Stale {
		return
	}
	h, err := c.client.UsageHistory(c.life, p.Namespace, p.Name, p.Host.ID, v1.UsageHour)
	if err == nil && len(h.Steps) > 0 {
		answer.Items = append(answer.Items, h)
	}
}

// usageText are the lines about what a process has used.
func (s *State) usageText(h *v1.UsageHistory) []string {
	line := func(name words.Text, of func(*v1.UsageStep) float64) string {
		return field(name.In(s.lang)+" "+words.Usage.Hour.In(s.lang), remote.Sparkline(h, of, usageWidth))
	}
	return []string{
		line(words.Head.CPU, func(u *v1.UsageStep) float64 { return u.CPU }),
		line(words.Head.Memory, func(u *v1.UsageStep) float64 { return float64(u.Memory) }),
	}
}
