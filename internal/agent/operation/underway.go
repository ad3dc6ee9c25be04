package operation

import (
	"sync"

	"drover/internal/process"
)

// underway are the runs of what is under way, by the key of its progress. Until its end has been taken note of nobody
// else knows that a run of it has left the process running: its output and its control group must not be dropped. The
// zero value is empty.
type underway struct {
	mu   sync.Mutex
	runs map[string][]string
}

func (u *underway) add(key string, runs ...string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.runs == nil {
		u.runs = map[string][]string{}
	}
	u.runs[key] = append(u.runs[key], runs...)
}

func (u *underway) drop(key string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.runs, key)
}

// Runs returns the runs of the operations, the relaunches and the ends by policy that are under way: a run is among
// them from before anything of it can be seen until Ended or Relaunched, or until TakeDown returns.
func (o *Operator) Runs() []string {
	o.underway.mu.Lock()
	defer o.underway.mu.Unlock()
	var all []string
	for _, runs := range o.underway.runs {
		all = append(all, runs...)
	}
	return all
}

// Adopt takes note of the runs of an operation that an earlier agent has left open. It may be long until that goes on.
func (o *Operator) Adopt(item string) { o.adopt(item) }

// AdoptPolicy is Adopt for what an earlier agent was doing to a process by policy.
func (o *Operator) AdoptPolicy(id process.ID) {
	o.adopt(relaunchKey(id))
	o.adopt(takeDownKey(id))
}

func (o *Operator) adopt(key string) {
	progress, err := o.Journal.GetProgress(key)
	if err != nil {
		o.Log.Warn("cannot read progress", "key", key, "error", err)
	}
	for _, st := range progress.Steps {
		o.underway.add(key, st.Run)
	}
}

// Ended forgets the runs of an operation, once what came of it has been taken note of.
func (o *Operator) Ended(item string) { o.underway.drop(item) }
