// Command fleet measures drover beside other tools that operate on a fleet, and beside bare NATS: all restart the same
// daemon on the same hosts, in one run and in turns. A host is an address of loopback with its own agent of drover, its
// own sshd and its own bare agent. The command writes the figures to standard output and to a file below bench/results.
// It needs root, and has a network of its own; tools that are not installed are left out, and named.
package main

import (
	"context"
	"flag"
	"os"
	"time"

	"drover/test/bench/lab"
)

func main() {
	flags := flag.NewFlagSet("fleet", flag.ContinueOnError)
	only := flags.String("only", "", "names of tools, with semicolons between them; all if empty")
	os.Exit(lab.Command{
		Name: "fleet", File: "fleet", Title: "drover, other fleet tools and bare NATS",
		Defaults: lab.Options{Many: 500, Rounds: 5, Window: 20 * time.Second},
		Flags:    flags,
		Light:    true,
		Ports:    true,
		Stages:   map[string]func([]string) error{lab.BareServerStage: lab.ServeBare, bareAgentStage: runBareAgent},
		Measure: func(ctx context.Context, l *lab.Lab, o lab.Options, r *lab.Report) error {
			return newField(l, o, r, *only).measure(ctx)
		},
	}.Main())
}
