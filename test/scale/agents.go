package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"drover/internal/agent"
	"drover/internal/agent/admission"
	"drover/internal/agent/procfs"
	"drover/test/bench/lab"
	"drover/test/scale/hollow"
)

// joiners is how many hosts of one process join at a time.
const joiners = 16

// agentsOf are the agents of one process.
type agentsOf struct {
	dir, server, token string
	first, count       int
	boot               string
	log                *slog.Logger
	agents             []*agent.Agent
	running            sync.WaitGroup
	failed             atomic.Pointer[error]
}

// runAgents is the stage of a process of agents: their directory, the first number, how many there are, the server, the
// token.
func runAgents(args []string) error {
	if len(args) != 5 {
		return errors.New("five arguments are needed")
	}
	debug.SetGCPercent(thriftless)
	a := &agentsOf{
		dir: args[0], server: args[3], token: args[4],
		log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	}
	var err error
	if a.first, err = strconv.Atoi(args[1]); err != nil {
		return err
	}
	if a.count, err = strconv.Atoi(args[2]); err != nil {
		return err
	}
	if a.boot, err = procfs.New("/proc").BootID(); err != nil {
		return err
	}
	return lab.Obey(context.Background(), map[string]func(context.Context) (string, error){
		"join": a.join, "open": a.open, "run": a.run, "await": a.await,
	})
}

// address is the address of the agent with a number.
func address(i int) string {
	return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}).String()
}

func (a *agentsOf) home(i int) string { return filepath.Join(a.dir, strconv.Itoa(i)) }

// each does something for every agent, n at a time, and returns the first error.
func (a *agentsOf) each(n int, do func(i int) error) error {
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var workers sync.WaitGroup
	for range n {
		workers.Go(func() {
			for failed.Load() == nil {
				i := int(next.Add(1)) - 1
				if i >= a.count {
					return
				}
				if err := do(a.first + i); err != nil {
					failed.Store(&err)
				}
			}
		})
	}
	workers.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// join has every host join the server.
func (a *agentsOf) join(ctx context.Context) (string, error) {
	return "", a.each(joiners, func(i int) error {
		_, err := admission.Join(ctx, admission.Config{
			Dir: a.home(i), Server: a.server, Token: a.token, IP: address(i),
			Build: "hollow",
		})
		return err
	})
}

// open opens every agent's directory. It removes the room that an agent reserves for a full disk: 2 MiB each on a tmpfs
// are more memory than a machine has.
func (a *agentsOf) open(context.Context) (string, error) {
	a.agents = make([]*agent.Agent, a.count)
	return "", a.each(1, func(i int) (err error) {
		a.agents[i-a.first], err = agent.New(agent.Config{
			Dir: a.home(i), Build: "hollow", Host: hollow.New(a.boot, ""),
			Log: a.log,
		})
		return errors.Join(err, os.Remove(filepath.Join(a.home(i), "reserve")))
	})
}

// run starts every agent, all at once.
func (a *agentsOf) run(ctx context.Context) (string, error) {
	for _, one := range a.agents {
		a.running.Go(func() {
			if err := one.Run(ctx); err != nil {
				a.failed.CompareAndSwap(nil, &err)
			}
		})
	}
	return "", nil
}

// await returns once every agent takes orders.
func (a *agentsOf) await(context.Context) (string, error) {
	for until := time.Now().Add(patience); ; <-time.After(lab.LookEvery) {
		if err := a.failed.Load(); err != nil {
			return "", *err
		}
		waiting := 0
		for _, one := range a.agents {
			if one.Ready() != nil {
				waiting++
			}
		}
		if waiting == 0 {
			return "", nil
		}
		if time.Now().After(until) {
			return "", fmt.Errorf("%d of %d agents are not connected", waiting, a.count)
		}
	}
}

const (
	// patience is how long anything may take.
	patience = 5 * time.Minute
	// thriftless is how far the memory of a process full of agents may grow between two collections, in percent: an
	// agent of its own has next to nothing to collect, and who collects what thousands have left takes the processors
	// that the server is measured on.
	thriftless = 300
)
