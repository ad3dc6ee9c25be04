package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"drover/internal/process"
	"drover/internal/spec"
	"drover/test/bench/lab"
)

// What every agent is asked about.
const (
	namespace = "scale"
	procName  = "hollowd"
)

// bench is one run.
type bench struct {
	lab    *lab.Lab
	report *lab.Report
	// n is how many agents there are, per how many of them are in a process, rounds how often an operation is measured.
	n, per, rounds int
	window         time.Duration
	// settle is how long a server at rest is left alone before it is watched.
	settle time.Duration

	fleet  *lab.Fleet
	agents lab.Crew
	bytes  exchange
	floor  bareFigures
	// empty is what the server took before the first agent had joined.
	empty lab.Cost
	rows  *lab.Table
}

// bareFigures are those of bare NATS: seconds, and what one connection takes of the server, in kB.
type bareFigures struct {
	connect, connectCPU float64
	ask, askCPU         lab.Series
	memory, idle        float64
}

// settlePart is the part of the time for which bare NATS at rest is watched that it is left alone before that.
const settlePart = 4

func newBench(_ context.Context, l *lab.Lab, o lab.Options, r *lab.Report, per int) (*bench, error) {
	if per < 1 {
		return nil, fmt.Errorf("-per %d: expected at least 1", per)
	}
	b := &bench{lab: l, report: r, n: o.Many, per: per, rounds: o.Rounds, window: o.Window}
	b.rows = r.Table(
		fmt.Sprintf(
			"%d agents, each with TLS and a state of its own, in processes of %d. Times in s; the server's CPU is in seconds of one processor.", b.n, b.per),
		"what", "bare NATS", "server CPU", "drover", "server CPU", "ratio", "aim", "met")
	var err error
	b.fleet, err = lab.StartFleet(l.Bin, filepath.Join(l.Disk, "fleet"))
	if err != nil {
		return nil, fmt.Errorf("cannot start a server: %w", err)
	}
	return b, nil
}

// close ends everything.
func (b *bench) close() {
	b.agents.Dismiss()
	b.fleet.Kill()
}

// explain says what the server's log ends with, after a failure.
func (b *bench) explain() error {
	const much = 2000
	text, err := os.ReadFile(b.fleet.Log)
	if err != nil {
		return err
	}
	return fmt.Errorf("the server's log ends with:\n%s", text[max(0, len(text)-much):])
}

// cost is what the server takes now.
func (b *bench) cost() lab.Cost { return lab.CostOf([]int{b.fleet.Server.PID()}) }

// add adds a row about drover alone; an aim that is not kept makes it stand out.
func (b *bench) add(what string, figure, cpu float64, aim string, met bool) {
	verdict := "-"
	if aim == "" {
		aim = "-"
	} else {
		verdict = lab.YesNo(met)
	}
	b.rows.Add(what, "-", "-", lab.Figure(figure), lab.Figure(cpu), "-", aim, verdict)
}

// compare adds a row beside bare NATS, which may not exceed it by more than a factor; 0 is no aim.
func (b *bench) compare(what string, bare, bareCPU, drover, cpu, factor float64) {
	aim, verdict := "-", "-"
	if factor > 0 {
		aim, verdict = fmt.Sprintf("≤ %.2f×", factor), lab.YesNo(drover <= factor*bare)
	}
	b.rows.Add(what, lab.Figure(bare), lab.Figure(bareCPU), lab.Figure(drover), lab.Figure(cpu),
		lab.Figure(drover/bare), aim, verdict)
}

// spec is the process that every agent is asked about.
func (b *bench) spec() *process.Spec {
	return &process.Spec{
		ProcessName: procName, Directory: "/opt/hollow", PIDFile: "/var/run/hollow/" + procName + ".pid", User: "root",
		Start: "hollow start", Stop: "hollow stop",
		Compat: &spec.Compat{StartCheckBegin: 1, StopCheck: 10, StartRetries: 3, StartInterval: 5, OpTimeout: 60},
	}
}

// Operations, as callers number them.
const (
	opStart = lab.OpStart
	opStop  = lab.OpStop
	opQuery = lab.Query
)

// body is the call that begins an operation on the process of every agent, and of absent ones beside them.
func (b *bench) body(op, absent int) ([]byte, error) {
	s := b.spec()
	agents := make([]string, 0, b.n+absent)
	for i := range b.n + absent {
		agents = append(agents, "0:"+address(i))
	}
	return json.Marshal(lab.Object{"proc_operate_req": []lab.Object{{
		"meta": lab.Object{"namespace": namespace, "name": procName}, "op_type": op, "agent_id_list": agents,
		"spec": lab.Object{
			"identity": lab.Object{
				"proc_name": s.ProcessName, "setup_path": s.Directory,
				"pid_path": s.PIDFile, "user": s.User,
			},
			"control": lab.Object{"start_cmd": s.Start, "stop_cmd": s.Stop},
			"alive_monitor_policy": lab.Object{
				"auto_type": 1, "start_check_secs": s.Compat.StartCheckBegin, "stop_check_secs": s.Compat.StopCheck,
				"start_retries":  s.Compat.StartRetries,
				"start_interval": s.Compat.StartInterval, "op_timeout": s.Compat.OpTimeout,
			},
		},
	}}})
}

// token has a token made and the members of the crew started.
func (b *bench) enlist(ctx context.Context) error {
	token, err := b.fleet.Token(ctx, b.n)
	if err != nil {
		return err
	}
	homes := filepath.Join(b.lab.Dir, "agents")
	b.agents, err = b.divide(b.per, func(name string, first, count int) (*lab.Member, error) {
		return lab.Enlist(filepath.Join(b.lab.Dir, name+".log"), agentsStage, homes, strconv.Itoa(first),
			strconv.Itoa(count), b.fleet.URL, token)
	}, "agents")
	return err
}
