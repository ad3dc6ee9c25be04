package upgrade

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// proveEvery is the pause between two proofs.
const proveEvery = 500 * time.Millisecond

// Prove writes what the agent sees to the judge of its trial, again and again, whenever linked reports that the server
// knows the agent. It returns when ctx ends, or if the judge is gone, which is an error.
func Prove(ctx context.Context, judge *os.File, linked func() bool, sights func() []Sight) error {
	defer judge.Close()
	tick := time.NewTicker(proveEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		if !linked() {
			continue
		}
		text, err := json.Marshal(sights())
		if err == nil {
			_, err = judge.Write(append(text, '\n'))
		}
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("cannot prove this version: %w", err)
		}
	}
}
