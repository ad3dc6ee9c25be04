// Command scale measures what one server does with as many agents as this machine lets connect, beside bare NATS with
// as many connections and bytes in the same run. The agents are hollow: the code of drover-agent over the real fabric
// with TLS, each with a key and a state of its own (on a tmpfs), above a made-up host. Server, agents and bare NATS
// share the machine's processors; what the server alone has used is told beside each time. It needs root and has a
// network of its own, so that what it builds has to be built before on a fresh machine, as make does. It writes to
// standard output and to a file below bench/results.
package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"drover/test/bench/lab"
)

// The stages that the program starts of itself.
const (
	agentsStage    = "hollow-agents"
	barePeersStage = "bare-peers"
)

func main() {
	flags := flag.NewFlagSet("scale", flag.ContinueOnError)
	chosen := flags.String("rows", "", "rows to measure, all if empty: "+rows().String())
	per := flags.Int("per", 3200, "how many agents are in a process")
	settle := flags.Duration("settle", 6*time.Minute,
		"how long a server is left alone before it is watched at rest: agents report rarely after 3 minutes, and the server gives memory back each 5 minutes")
	os.Exit(lab.Command{
		Name: "scale", File: "scale", Title: "drover at scale",
		Defaults: lab.Options{Many: most(), Rounds: 5, Window: 60 * time.Second},
		Flags:    flags,
		Light:    true,
		Ports:    true,
		Stages:   stages(),
		Measure: func(ctx context.Context, l *lab.Lab, o lab.Options, r *lab.Report) error {
			b, err := newBench(ctx, l, o, r, *per)
			if err != nil {
				return err
			}
			b.settle = *settle
			return b.measure(ctx, *chosen)
		},
	}.Main())
}

func stages() map[string]func([]string) error {
	return map[string]func([]string) error{
		agentsStage: runAgents, lab.BareServerStage: lab.ServeBare,
		barePeersStage: runBarePeers,
	}
}

// rows are all there are, in the order in which they are measured: each needs what those before it have left. Without
// agents that have joined and are connected there is nothing else to measure.
func rows() lab.Rows[*bench] {
	return lab.Rows[*bench]{
		{Name: "bare", Measure: (*bench).bare},
		{Name: "join", Measure: (*bench).join, Always: true},
		{Name: "connect", Measure: (*bench).connect, Always: true},
		{Name: "rest", Measure: (*bench).rest},
		{Name: "query", Measure: (*bench).query},
		{Name: "start", Measure: (*bench).start},
		{Name: "status", Measure: (*bench).status},
		{Name: "absent", Measure: (*bench).absent},
		{Name: "herd", Measure: (*bench).herd},
		{Name: "gone", Measure: (*bench).gone},
	}
}

// measure measures the rows that were chosen, and ends with the first that fails: those after it would say nothing.
func (b *bench) measure(ctx context.Context, chosen string) error {
	defer b.close()
	for _, r := range rows().Chosen(chosen) {
		if err := r.Run(ctx, b); err != nil {
			return errors.Join(err, b.explain())
		}
	}
	return nil
}

// spare is how many descriptors a process needs beside those that are counted.
const spare = 1000

// most is how many connections one process of this machine can have.
func most() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Max > 1<<20 {
		return 1 << 15
	}
	return max(int(limit.Max)-spare, leastMost)
}

// leastMost is what most returns where there is no room for more.
const leastMost = 20
