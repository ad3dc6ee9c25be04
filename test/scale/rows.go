package main

import (
	"context"
	"fmt"
	"time"

	"drover/test/bench/lab"
)

// Codes of keys that are right answers.
const (
	codeOK   = 0
	codeAway = 117
)

// join has every host join.
func (b *bench) join(ctx context.Context) error {
	b.empty = b.cost()
	if err := b.enlist(ctx); err != nil {
		return err
	}
	before, began := b.cost().CPU, time.Now()
	if err := b.agents.Tell("join"); err != nil {
		return err
	}
	took := time.Since(began).Seconds()
	b.add("every host joins (HTTPS, key, token, row)", took, (b.cost().CPU - before).Seconds(), "", false)
	b.report.Note("joining: %.0f hosts/s, %d at a time", float64(b.n)/took, joiners*len(b.agents))
	return nil
}

// connect starts every agent at once.
func (b *bench) connect(context.Context) error {
	if err := b.agents.Tell("open"); err != nil {
		return err
	}
	before, began := b.cost().CPU, time.Now()
	if err := b.agents.Tell("run"); err != nil {
		return err
	}
	if err := b.fleet.AwaitOnline(b.n); err != nil {
		return err
	}
	b.compare("every agent is started at once, connects and introduces itself", b.floor.connect, b.floor.connectCPU,
		time.Since(began).Seconds(), (b.cost().CPU - before).Seconds(), 2.5)
	return b.agents.Tell("await")
}

// rest looks at a server whose agents have nothing to tell.
func (b *bench) rest(context.Context) error {
	lab.Pause(b.settle)
	idle := lab.UseOf([]int{b.fleet.Server.PID()}, b.window).Percent
	c := b.cost()
	memory := (c.Heap - b.empty.Heap) * 1000 / float64(b.n)
	met := lab.YesNo(memory <= 70)
	b.rows.Add("memory of the server per idle agent, kB", lab.Figure(b.floor.memory), "-", lab.Figure(memory), "-",
		lab.Figure(memory/b.floor.memory), "≤ 70 kB", met)
	b.rows.Add("server at rest, % of one processor", lab.Figure(b.floor.idle), "-", lab.Figure(idle), "-", "-", "≤ 6 %",
		lab.YesNo(idle <= 6))
	hollow := lab.CostOf(b.agents.PIDs())
	b.report.Note("server: %.0f MB (PSS) with %d agents, %.0f MB before; hollow agents: %.0f kB each", c.PSS, b.n,
		b.empty.PSS, hollow.Heap*1000/float64(b.n))
	return nil
}

// measured is one kind of operation, a number of times.
type measured struct{ accepted, answered, cpu, agents lab.Series }

// operate carries out an operation on every agent, and fails unless every key has one of the codes.
func (b *bench) operate(m *measured, op, absent int, codes ...int) error {
	body, err := b.body(op, absent)
	if err != nil {
		return err
	}
	before, hollow := b.cost().CPU, lab.CostOf(b.agents.PIDs()).CPU
	got, accepted, answered, err := b.fleet.Operate(body)
	if err != nil {
		return err
	}
	m.cpu = append(m.cpu, (b.cost().CPU - before).Seconds())
	m.agents = append(m.agents, (lab.CostOf(b.agents.PIDs()).CPU - hollow).Seconds())
	m.accepted, m.answered = append(m.accepted, accepted.Seconds()), append(m.answered, answered.Seconds())
	if len(got) != b.n+absent {
		return fmt.Errorf("%d keys were answered, want %d", len(got), b.n+absent)
	}
	return lab.Failures(got, codes...)
}

// query asks every agent how the process is: one order and one answer each, and nothing is done.
func (b *bench) query(context.Context) error {
	var m measured
	for range b.rounds {
		if err := b.operate(&m, opQuery, 0, codeOK); err != nil {
			return err
		}
	}
	b.compare("query to all, every answer back", b.floor.ask.Quantile(0.5), b.floor.askCPU.Quantile(0.5),
		m.answered.Quantile(0.5), m.cpu.Quantile(0.5), 4)
	b.add("of that: until the task is accepted", m.accepted.Quantile(0.5), 0, "", false)
	b.report.Note(
		"a query takes %.3f ms of a processor of the server's for each agent (bare NATS: %.3f ms), and %.3f ms of the agent's own, which here is on the same processors",
		m.cpu.Quantile(0.5)*1000/float64(b.n), b.floor.askCPU.Quantile(0.5)*1000/float64(b.n),
		m.agents.Quantile(0.5)*1000/float64(b.n))
	b.report.Note("a query sends %d bytes to an agent and brings %d back, and so does bare NATS", b.bytes.down,
		b.bytes.up)
	return nil
}

// start starts and stops the process of every agent: each operation is on the agent's disk before it is received, begun
// and ended.
func (b *bench) start(context.Context) error {
	var up, down measured
	for range max(1, b.rounds/2) {
		if err := b.operate(&up, opStart, 0, codeOK); err != nil {
			return err
		}
		if err := b.operate(&down, opStop, 0, codeOK); err != nil {
			return err
		}
	}
	if err := b.operate(&up, opStart, 0, codeOK); err != nil { // what follows looks at processes that run
		return err
	}
	floor, cpu := b.floor.ask.Quantile(0.5), b.floor.askCPU.Quantile(0.5)
	b.compare("start on all, checked for 1 s, every answer back", floor, cpu, up.answered.Quantile(0.5),
		up.cpu.Quantile(0.5), 12)
	b.compare("stop on all, every answer back", floor, cpu, down.answered.Quantile(0.5), down.cpu.Quantile(0.5), 12)
	return nil
}

// absent sends one request for as many hosts again that nobody knows, up to what one request may hold.
func (b *bench) absent(context.Context) error {
	var m measured
	n := max(0, min(mostOfRequest-b.n, mostOfRequest))
	if err := b.operate(&m, opQuery, n, codeOK, codeAway); err != nil {
		return err
	}
	b.add(fmt.Sprintf("query to all and %d hosts that nobody knows, every key answered", n), m.answered.Quantile(0.5),
		m.cpu.Quantile(0.5), "", false)
	return nil
}

// mostOfRequest is how many hosts one request is for at most.
const mostOfRequest = 30_000

// gone asks agents that have been away for a while: nobody waits for them.
func (b *bench) gone(context.Context) error {
	b.agents.Dismiss()
	b.agents = nil
	lab.Pause(goneFor)
	var m measured
	if err := b.operate(&m, opQuery, 0, codeAway); err != nil {
		return err
	}
	b.add("query to all when every agent has gone, every key answered", m.answered.Quantile(1), m.cpu.Quantile(1), "",
		false)
	return nil
}

// goneFor is longer than a server waits for an agent that it has lost.
const goneFor = 35 * time.Second

// herd kills the server and starts it again.
func (b *bench) herd(context.Context) error {
	b.fleet.Kill()
	began := time.Now()
	if err := b.fleet.Start(); err != nil {
		return err
	}
	up := time.Since(began)
	if err := b.fleet.AwaitOnline(b.n); err != nil {
		return err
	}
	back := time.Since(began)
	b.add("server killed and started: every agent is back", back.Seconds(), b.cost().CPU.Seconds(), "≤ 30 s",
		back <= 30*time.Second)
	b.report.Note("the server took calls %.2f s after it was started again", up.Seconds())
	var m measured
	if err := b.operate(&m, opQuery, 0, codeOK); err != nil {
		return err
	}
	b.add("a query to all after that", m.answered.Quantile(1), m.cpu.Quantile(1), "", false)
	return nil
}
