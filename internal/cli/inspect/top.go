package inspect

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/cli/term"
)

// The orders of top.
const (
	byCPU    = "cpu"
	byMemory = "memory"
)

const (
	// sparkWidth is the width of a history in a table, in cells.
	sparkWidth = 30
	// mostHistories is the largest number of rows with a history, and abreast how many hosts are asked at a time.
	mostHistories = 50
	abreast       = 4
)

// top is one 'drover top'.
type top struct {
	remote.Session
	sel   remote.Choice
	sort  string
	last  string
	rows  int
	every time.Duration
	once  bool
}

// used is a process with its history, if that is asked for.
type used struct {
	v1.Process
	History *v1.UsageHistory `json:"history,omitempty"`
}

// NewTop returns 'drover top'.
func NewTop() *cobra.Command {
	var t top
	cmd := &cobra.Command{
		Use:  "top [NAMESPACE/NAME]",
		Args: term.Args,
		RunE: func(cmd *cobra.Command, args []string) error {
			out := cmd.OutOrStdout()
			if t.once || t.Form != term.AsTable || !term.Rewritable(out) {
				return t.show(cmd, args)
			}
			return t.Redraw(cmd, t.every, func() error { return t.show(cmd, args) })
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	t.flags(cmd)
	return cmd
}

func (t *top) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	t.sel.QueryFlags(cmd, &t.Session, "only on these hosts")
	t.sel.LimitFlag(cmd)
	f.StringVar(&t.sort, "sort", byCPU, "what to sort by: cpu or memory")
	f.StringVar(&t.last, "last", "", "also show the history of this time: 15m, 1h or 24h")
	f.IntVarP(&t.rows, "rows", "n", 20, "number of processes to show")
	f.DurationVarP(&t.every, "interval", "d", 3*time.Second, "time between two looks, at least 1s")
	f.BoolVar(&t.once, "once", false, "show the processes once")
	term.Complete(cmd, "sort", byCPU, byMemory)
	windows := []string{v1.UsageQuarter, v1.UsageHour, v1.UsageDay}
	term.Complete(cmd, "last", windows...)
	t.ListFlags(cmd, term.AsTable, term.AsJSON, term.AsYAML)
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(*cobra.Command, []string) error {
		faults := []error{term.OneOf("--sort", t.sort, byCPU, byMemory)}
		switch {
		case t.rows < 1 || t.rows > 1000:
			faults = append(faults, term.Usagef("--rows %d: expected 1 to 1000", t.rows))
		case t.last != "" && t.rows > mostHistories:
			faults = append(faults, term.Usagef("--rows %d: expected 1 to %d with --last", t.rows, mostHistories))
		}
		if t.every < time.Second {
			faults = append(faults, term.Usagef("--interval %s: expected 1s or more", t.every))
		}
		if t.last != "" {
			faults = append(faults, term.OneOf("--last", t.last, windows...))
		}
		return errors.Join(faults...)
	})
}

// show looks once.
func (t *top) show(cmd *cobra.Command, args []string) error {
	if err := term.SplitIDs(args); err != nil {
		return err
	}
	c, err := t.sel.Connect(cmd, &t.Session)
	if err != nil {
		return err
	}
	namespace, name, _ := strings.Cut(strings.Join(args, ""), "/") // there is one at most
	if err := t.sel.First(cmd.Context(), c, namespace, name); err != nil {
		return err
	}
	here := false
	f := t.sel.Filter(t.sel.Names)
	f.Namespace, f.Name = namespace, name
	f.Stale, f.Sort, f.Limit = &here, "-"+t.sort, t.rows
	rows, sums, err := t.most(cmd.Context(), c, f)
	if err != nil {
		return remote.ExitOf(err)
	}
	if len(rows) == 0 {
		if err := t.nothing(cmd.Context(), c, f, args); err != nil {
			return err
		}
	}
	if t.last != "" {
		t.ask(cmd.Context(), c, rows)
	}
	if t.Form == term.AsTable {
		if _, err := io.WriteString(cmd.OutOrStdout(), term.Told(cmd, cmd.OutOrStdout(), sums)+"\n"); err != nil {
			return err
		}
	}
	columns := topColumns()
	if t.last != "" {
		columns = historyColumns()
	}
	return term.PrintList(cmd, t.Output, rows, columns, nil)
}

// nothing returns an error if no host or no process matches. nil means that no process of these hosts runs.
func (t *top) nothing(ctx context.Context, c *client.Client, f client.ProcessFilter, args []string) error {
	if len(args) > 0 || t.sel.Narrow() {
		f.Stale, f.Limit = nil, 1
		if found, err := client.Collect(c.Processes(ctx, f)); err != nil || len(found) > 0 {
			return remote.ExitOf(err)
		}
	}
	return t.sel.NoMatch(ctx, c, args)
}

// most returns the processes that use most, the first in order, and a line about them. The server sorts: a look reads
// no more processes than it shows.
func (t *top) most(ctx context.Context, c *client.Client, f client.ProcessFilter) ([]used, string, error) {
	list, _, total, err := c.ProcessPage(ctx, f, "")
	if err != nil {
		return nil, "", err
	}
	var rows []used
	bytes := int64(0)
	for _, p := range list {
		if p.Instance != nil {
			rows, bytes = append(rows, used{Process: p}), bytes+remote.Used(&p).RSS
		}
	}
	sums := strconv.Itoa(len(rows)) + " of " + strconv.Itoa(total) + " processes, with " + term.Size(bytes) + "; by " +
		t.sort + ", at " + time.Now().Format(time.TimeOnly)
	return rows, sums, nil
}

// ask asks the hosts for the histories.
func (t *top) ask(ctx context.Context, c *client.Client, rows []used) {
	places := make(chan struct{}, abreast)
	var askers sync.WaitGroup
	for i := range rows {
		places <- struct{}{}
		askers.Go(func() {
			defer func() { <-places }()
			p := &rows[i]
			h, err := c.UsageHistory(ctx, p.Namespace, p.Name, p.Host.ID, t.last)
			if err != nil {
				h = v1.UsageHistory{Namespace: p.Namespace, Name: p.Name, Host: p.Host, Problem: err.Error()}
			}
			p.History = &h
		})
	}
	askers.Wait()
}

func topColumns() []term.Column[used] {
	return append(firstColumns(), []term.Column[used]{
		{Head: "PID", Cell: func(p used) string { return strconv.Itoa(p.Instance.PID) }},
		{Head: "CPU/HOST", Cell: cpuCell},
		{Head: "MEMORY/HOST", Cell: memoryCell},
		{Head: "RSS", Cell: func(p used) string { return term.Size(remote.Used(&p.Process).RSS) }},
		{Head: "THREADS", Cell: func(p used) string { return strconv.Itoa(p.Instance.Threads) }},
		{Head: "FILES", Cell: func(p used) string {
			if p.Usage == nil || p.Usage.Files == 0 {
				return ""
			}
			return strconv.Itoa(p.Usage.Files)
		}},
		{Head: "UPTIME", Cell: func(p used) string { return term.Since(p.Instance.StartedAt) }},
	}...)
}

func firstColumns() []term.Column[used] {
	return []term.Column[used]{
		{Head: "NAME", Cell: func(p used) string { return p.Namespace + "/" + p.Name }},
		{Head: "HOST", Cell: func(p used) string { return p.Host.ID }},
		{Head: "STATE", State: true, Cell: func(p used) string { return p.State }},
	}
}

func cpuCell(p used) string {
	cpu := remote.Used(&p.Process).CPU
	return term.Percent(cpu)
}

func memoryCell(p used) string {
	memory := remote.Used(&p.Process).Mem
	return term.Percent(memory)
}

func historyColumns() []term.Column[used] {
	return append(firstColumns(), []term.Column[used]{
		{Head: "CPU/HOST", Cell: cpuCell},
		{Head: "CPU HISTORY", Cell: func(p used) string {
			return remote.Sparkline(p.History, func(s *v1.UsageStep) float64 { return s.CPU }, sparkWidth)
		}},
		{Head: "MEMORY/HOST", Cell: memoryCell},
		{Head: "MEMORY HISTORY", Cell: func(p used) string {
			memory := func(s *v1.UsageStep) float64 { return float64(s.Memory) }
			return remote.Sparkline(p.History, memory, sparkWidth)
		}},
		{Head: "PROBLEM", Cell: func(p used) string { return p.History.Problem }},
	}...)
}
