package main

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"drover/test/bench/lab"
)

// What stands before and after the table in the README.
const (
	begins = "<!-- figures: made by go run ./test/bench/table -w -->\n"
	ends   = "<!-- end of figures -->\n"
)

// cut parts a README at its table, which includes its marks.
func cut(readme string) (before, block, after string, err error) {
	from := strings.Index(readme, begins)
	to := strings.Index(readme, ends)
	if from < 0 || to < from {
		return "", "", "", errors.New("the comments around the table of figures are missing")
	}
	to += len(ends)
	return readme[:from], readme[from:to], readme[to:], nil
}

// Peers are those that are shown beside drover: the one that does the same job (with a control group each), and the one
// that most programs are under. The latter cannot run daemons.
const (
	firstPeer  = "systemd"
	secondPeer = "supervisord"
)

// compared are the rows of the comparison with peers, in the order of the table.
func compared(daemons bool) []string {
	if daemons {
		return []string{"floor", "drover", "systemd forking", ""}
	}
	return []string{"floor child", "drover child", firstPeer, secondPeer}
}

// line is a line of the table: a row of the comparison with the floor, or a column of the comparison with peers.
type line struct {
	what string
	// row is how the row of the first begins; its aim is in it.
	row string
	// table and column are where the figures of the second are, and ratio the column of drover's ratio to the floor;
	// where it is empty, that is reckoned. aim is what drover should reach there.
	table, column, ratio, aim string
	// daemons says that the figures of the second are of daemons; otherwise they are of children.
	daemons bool
}

// lines are all there are. many is how many processes the peers had.
func lines(many int) []line {
	return []line{
		{
			what: "crash → runs again, child, ms", table: "crash → runs again, ms", column: "p50", ratio: "× floor",
			aim: "≤ 1.20×",
		},
		{
			what: "crash → runs again, daemon, ms", table: "crash → runs again, ms", column: "p50", ratio: "× floor",
			aim: "≤ 1.50×", daemons: true,
		},
		{
			what: fmt.Sprintf("%d of %d children killed, last one back, ms", many/5, many), table: "many",
			column: "last back, ms", ratio: "× floor", aim: "≤ 1.50×",
		},
		{row: "start of "},
		{row: "stop of "},
		{row: "restart of "},
		{row: "poll "},
		{what: fmt.Sprintf("status of %d children, by the command line, ms", many), table: "many", column: "status of all, ms"},
		{
			what: fmt.Sprintf("memory with %d children, MB (PSS)", many), table: "at rest", column: "PSS MB at many",
			aim: "≤ 30 MB",
		},
		{
			what: fmt.Sprintf("idle with %d children, %% of a core", many), table: "at rest", column: "CPU % at many",
			aim: "≤ 0.05 %",
		},
	}
}

// block makes the table with its marks from the newest files of figures in a directory.
func block(dir string) (string, error) {
	bench, err := newest(dir, "bench")
	if err != nil {
		return "", err
	}
	peers, err := newest(dir, "peers")
	if err != nil {
		return "", err
	}
	many, err := strconv.Atoi(peers.after("* many is "))
	if err != nil {
		return "", fmt.Errorf("%s does not say how many processes there were: %w", peers.name, err)
	}
	t := lab.Table{Head: []string{"median", "floor", "drover", "× floor", "aim", firstPeer, secondPeer}}
	for _, l := range lines(many) {
		var cells []string
		if l.row != "" {
			cells, err = l.ofBench(bench)
		} else {
			cells, err = l.ofPeers(peers)
		}
		if err != nil {
			return "", err
		}
		t.Add(cells...)
	}
	var b strings.Builder
	b.WriteString(begins)
	if err := t.Markdown(&b); err != nil {
		return "", err
	}
	scale, err := newest(dir, "scale")
	if err != nil {
		return "", err
	}
	fleet, err := newest(dir, "fleet")
	if err != nil {
		return "", err
	}
	for _, made := range []struct {
		of   func(*figures) (*lab.Table, error)
		from *figures
	}{{ofFleet, fleet}, {ofScale, scale}} {
		t, err := made.of(made.from)
		if err != nil {
			return "", err
		}
		b.WriteString("\n")
		if err := t.Markdown(&b); err != nil {
			return "", err
		}
	}
	fmt.Fprintf(&b, "\nFrom %s, %s, %s and %s.\n", bench.link(dir), peers.link(dir), fleet.link(dir), scale.link(dir))
	b.WriteString(ends)
	return b.String(), nil
}

// link names a file of figures, and when they were measured.
func (f *figures) link(dir string) string {
	return fmt.Sprintf("[%s](%s/%s) (%s)", f.name, dir, f.name, f.after("* date "))
}

// ofFleet takes the figures beside other tools that operate on a fleet.
func ofFleet(f *figures) (*lab.Table, error) {
	tools := []string{
		"drover", "drover, program in the foreground", "clush, connections open", "clush", "pdsh", "Ansible, 50 forks",
	}
	table := &lab.Table{Head: append([]string{"median"}, tools...)}
	add := func(what string, from sheet, column string) error {
		cells := []string{what}
		for _, tool := range tools {
			row := from.row(tool)
			if row == nil {
				return fmt.Errorf("%s: there is no %s in the table %q", f.name, tool, from.Head[0])
			}
			cell, err := from.cell(row, column)
			if err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
			cells = append(cells, cell)
		}
		table.Add(cells...)
		return nil
	}
	for _, sized := range f.tables {
		n, is := strings.CutSuffix(sized.Head[0], " hosts")
		if !is {
			continue
		}
		if err := errors.Join(
			add("status of "+n+" hosts, ms", sized, "status of all"),
			add("restart of "+n+" hosts, ms", sized, "restart of all, new pids known"),
		); err != nil {
			return nil, err
		}
	}
	hang, err := f.table("one host hangs")
	if err != nil {
		return nil, err
	}
	return table, add("restart, and one host hangs, s", hang, "restart of all")
}

// ofScale takes the figures of a server with many agents.
func ofScale(f *figures) (*lab.Table, error) {
	all, err := f.table("what")
	if err != nil {
		return nil, err
	}
	many, _, _ := strings.Cut(f.text, " agents, each with TLS")
	many = many[strings.LastIndexByte(many, '\n')+1:]
	table := &lab.Table{Head: []string{many + " agents, one server", "bare NATS", "drover", "× bare", "aim"}}
	for _, l := range []struct{ row, what string }{
		{"every host joins", "every host joins, s"},
		{"query to all, every answer back", "one query to all, every answer back, s"},
		{"server killed and started", "server killed and started, every agent back, s"},
		{"memory of the server", "memory of the server per idle agent, kB"},
	} {
		row, err := all.last(l.row)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		cells := []string{l.what}
		for _, column := range []string{"bare NATS", "drover", "ratio", "aim"} {
			cell, err := all.cell(row, column)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", f.name, err)
			}
			cells = append(cells, cell)
		}
		table.Add(cells...)
	}
	return table, nil
}

// ofBench takes a row of the comparison with the floor.
func (l line) ofBench(f *figures) ([]string, error) {
	t, err := f.table("what")
	if err != nil {
		return nil, err
	}
	row, err := t.last(l.row)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.name, err)
	}
	var cells []string
	for _, column := range []string{"what", "floor p50", "drover p50", "p50 ratio", "aim"} {
		cell, err := t.cell(row, column)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		cells = append(cells, cell)
	}
	what, _, _ := strings.Cut(cells[0], ", polled every")
	cells[0] = what + ", ms"
	return append(cells, "-", "-"), nil
}

// ofPeers takes a column of the comparison with peers; of those, who was not there has a dash.
func (l line) ofPeers(f *figures) ([]string, error) {
	t, err := f.table(l.table)
	if err != nil {
		return nil, err
	}
	var cells []string
	names := compared(l.daemons)
	for i, who := range names {
		cell, row := "-", t.row(who)
		switch {
		case row != nil:
			cell, err = t.cell(row, l.column)
		case i < 2: // the floor and drover
			err = fmt.Errorf("there is no %s in the table %q", who, l.table)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		cells = append(cells, cell)
	}
	times := ratio(cells[1], cells[0])
	if l.ratio != "" {
		if times, err = t.cell(t.row(names[1]), l.ratio); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return []string{l.what, cells[0], cells[1], times, cmp.Or(l.aim, "-"), cells[2], cells[3]}, nil
}

// ratio divides two figures; a dash where one is none, or zero.
func ratio(drover, floor string) string {
	a, err := strconv.ParseFloat(drover, 64)
	b, errFloor := strconv.ParseFloat(floor, 64)
	if err != nil || errFloor != nil || b == 0 {
		return "-"
	}
	return lab.Figure(a / b)
}
