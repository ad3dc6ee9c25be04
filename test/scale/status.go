package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"drover/test/bench/lab"
)

// status reads the state of the process of every agent, as callers do: of those that they name, and page by page.
func (b *bench) status(context.Context) error {
	for _, way := range []struct {
		what string
		read func() (rows int, err error)
	}{
		{"get_proc_status_v2 of all", b.named},
		{"sync_proc_status of all, in pages of 1,000", b.paged},
	} {
		var took, cpu lab.Series
		for range b.rounds {
			before, began := b.cost().CPU, time.Now()
			rows, err := way.read()
			if err != nil {
				return err
			}
			if rows != b.n {
				return fmt.Errorf("%s: %d rows of %d", way.what, rows, b.n)
			}
			took, cpu = append(took, time.Since(began).Seconds()), append(cpu, (b.cost().CPU-before).Seconds())
		}
		b.add(way.what, took.Quantile(0.5), cpu.Quantile(0.5), "", false)
	}
	return nil
}

// page is what the endpoints answer with.
type page struct {
	Count int               `json:"count"`
	Rows  []json.RawMessage `json:"proc_infos"`
}

func (b *bench) named() (int, error) {
	agents := make([]string, b.n)
	for i := range agents {
		agents[i] = "0:" + address(i)
	}
	body, err := json.Marshal(lab.Object{
		"meta":          lab.Object{"namespace": namespace, "name": procName},
		"agent_id_list": agents,
	})
	if err != nil {
		return 0, err
	}
	var p page
	err = b.fleet.Call("get_proc_status_v2", body, &p)
	return len(p.Rows), err
}

func (b *bench) paged() (int, error) {
	const size = 1000
	seen := 0
	for start := 0; ; start += size {
		body, err := json.Marshal(lab.Object{
			"meta": lab.Object{"namespace": namespace},
			"page": lab.Object{"start": start, "limit": size},
		})
		if err != nil {
			return 0, err
		}
		var p page
		if err := b.fleet.Call("sync_proc_status", body, &p); err != nil {
			return 0, err
		}
		seen += len(p.Rows)
		if len(p.Rows) < size {
			return seen, nil
		}
	}
}
