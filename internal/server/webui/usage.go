package webui

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"drover/client"
	"drover/internal/words"
)

// The size of a chart in units of its own. The browser makes it as wide as the page.
const chartWidth, chartHeight = 600, 120

// leastScale is what the top of a chart stands for at least, so that noise looks small: a percent of CPU, a byte.
const leastScale = 1.0

// betweenLooks is the longest time between two looks of an agent at a process, in seconds.
const betweenLooks = 35

// chart is one figure of a history, drawn by the server.
type chart struct {
	// Name is that of the figure, and Text describes the chart for people who do not see it.
	Name, Text string
	// Now is empty if the newest steps have no measurement.
	Now, Most string
	// Lines are the points of the parts without a gap, and Areas the same with the ground below them.
	Lines, Areas []string
	// Restarts are the places of restarts.
	Restarts []string
}

// window is a length of time to choose.
type window struct {
	Last string
	Word words.Text
}

func windows() []window {
	return []window{
		{client.UsageQuarter, words.Usage.Quarter},
		{client.UsageHour, words.Usage.Hour},
		{client.UsageDay, words.Usage.Day},
	}
}

// usage is the part of a page about what a process has used.
type usage struct {
	Windows    []window
	Last       string
	Charts     []chart
	Start, End *time.Time
	Problem    string
}

// usageOf asks the host of a process what the process has used. A host that does not answer is no fault of the page.
func (v *view) usageOf(ctx context.Context, p *client.Process, last string) usage {
	u := usage{Windows: windows(), Last: last}
	h, err := v.client.UsageHistory(ctx, p.Namespace, p.Name, p.Host.ID, last)
	if err != nil {
		u.Problem = err.Error()
		return u
	}
	u.Problem, u.Start, u.End = h.Problem, h.Start, h.End
	if len(h.Steps) == 0 {
		return u
	}
	steps, recent := h.Window(), max(2, betweenLooks/h.Step)
	u.Charts = []chart{
		v.draw(steps, recent, words.Head.Memory, func(s *client.UsageStep) float64 { return float64(s.Memory) },
			func(value float64) string { return byteSize(int64(value)) }),
		v.draw(steps, recent, words.Head.CPU, func(s *client.UsageStep) float64 { return s.CPU }, percent),
	}
	return u
}

func percent(value float64) string { return strconv.FormatFloat(value, 'f', 2, 64) + " %" }

// draw draws a figure of the steps of a window. The top of the chart stands for the greatest value. The present value
// is one of the recent steps: the next look at the process may be ahead.
func (v *view) draw(steps []*client.UsageStep, recent int, name words.Text,
	of func(*client.UsageStep) float64, shown func(float64) string,
) chart {
	c := chart{Name: name.In(v.lang)}
	least, most, gaps := -1.0, 0.0, 0
	for _, s := range steps {
		if s == nil {
			gaps++
			continue
		}
		value := of(s)
		if most = max(most, value); least < 0 || value < least {
			least = value
		}
	}
	scale := max(leastScale, most)
	place := func(i float64) string { return number(i * chartWidth / float64(len(steps))) }
	for begin := 0; begin < len(steps); {
		if steps[begin] == nil {
			begin++
			continue
		}
		end := begin
		var line strings.Builder
		for ; end < len(steps) && steps[end] != nil; end++ {
			if steps[end].Restarted {
				c.Restarts = append(c.Restarts, place(float64(end)))
			}
			fmt.Fprintf(&line, "%s,%s ", place(float64(end)+0.5), number(chartHeight*(1-of(steps[end])/scale)))
		}
		if end-begin == 1 { // a line needs two points
			fmt.Fprintf(&line, "%s,%s ", place(float64(end)), number(chartHeight*(1-of(steps[begin])/scale)))
		}
		points := strings.TrimSpace(line.String())
		first, _, _ := strings.Cut(points, ",")
		last, _, _ := strings.Cut(points[strings.LastIndexByte(points, ' ')+1:], ",")
		c.Lines = append(c.Lines, points)
		c.Areas = append(c.Areas, fmt.Sprintf("%s,%d %s %s,%d", first, chartHeight, points, last, chartHeight))
		begin = end
	}
	c.Most = shown(most)
	for i := len(steps) - 1; i >= max(0, len(steps)-recent) && c.Now == ""; i-- {
		if steps[i] != nil {
			c.Now = shown(of(steps[i]))
		}
	}
	c.Text = words.Usage.Chart.In(v.lang, "name", c.Name, "now", orDash(c.Now), "least", shown(max(least, 0)),
		"most", c.Most, "restarts", len(c.Restarts), "gaps", gaps, "steps", len(steps))
	return c
}

func number(value float64) string { return strconv.FormatFloat(value, 'f', 1, 64) }

func orDash(text string) string {
	if text == "" {
		return "–"
	}
	return text
}
