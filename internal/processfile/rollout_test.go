package processfile_test

import (
	"fmt"
	"testing"

	"drover/internal/processfile"
)

// TestRolloutOfDefaults: a process adds to the rollout of the defaults, or takes it away, and all faults are told.
func TestRolloutOfDefaults(t *testing.T) {
	docs, err := processfile.Read("f", []byte(`
namespace: shop
defaults: {hosts: [a], rollout: {batch: 10%, bake: 60s, max_failures: 2}}
processes:
  a: {run: x}
  b: {run: x, rollout: {batch: 3, canary: 1}}
  c: {run: x, rollout: null}
`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range docs[0].Processes {
		if r := p.Rollout; r == nil {
			got = append(got, "none")
		} else {
			got = append(got, fmt.Sprint(r.Batch, " ", r.Canary, " ", r.Bake, " ", r.MaxFailures))
		}
	}
	if want := "[10% 0 1m 2 3 1 1m 2 none]"; fmt.Sprint(got) != want {
		t.Errorf("the rollouts are %v, want %s", got, want)
	}
	_, err = processfile.Read("f", []byte(`
namespace: shop
processes:
  a: {run: x, hosts: [a], rollout: {canary: -1, bake: 500ms, order: "a b", canary_approval: true}}
  c: {run: x, hosts: [a], rollout: {batch: 1, canary_select: "a=(", spread: "/"}}
  b: {run: x, hosts: [a], rollout: {batch: 101%, max_unavailable: -3, at: "03:00"}}
`))
	want := `f:4: processes.a.rollout.batch: is missing or 0: expected a number of hosts such as 20, or a share such as 10%
f:4: processes.a.rollout.canary: is -1: expected 0 to 10000
f:4: processes.a.rollout.bake: is 500ms: expected whole seconds, at most 24h
f:4: processes.a.rollout.order: the key "a b" is not the key of a label: expected at most 63 letters, digits, -, _ and ., with a letter or digit at both ends
f:5: processes.c.rollout.spread: the key "/" has the prefix "": expected a domain name of at most 253 bytes in lower case
f:5: processes.c.rollout.canary_select: character 3: unexpected "(": expected a value of a
f:5: processes.c.rollout.canary_select: stands without canary: expected the number of canaries
f:6: processes.b.rollout.batch: "101%" is above 100%: expected a share such as 10%
f:6: processes.b.rollout.max_unavailable: "-3" is not a number of hosts: expected a value such as 20, or a share such as 10%
f:6: processes.b.rollout.at: unknown field: expected batch, canary, canary_select, bake, pause, max_failures, max_unavailable, order, spread, skip_away, canary_approval, undo_on_failure`
	if fmt.Sprint(err) != want {
		t.Errorf("the faults are\n%v\nwant\n%s", err, want)
	}
}

// TestMisplacedField: a field of a process at the top of a file says where it belongs.
func TestMisplacedField(t *testing.T) {
	_, err := processfile.Read("f", []byte("namespace: n\nrollout: {batch: 1}\nprocesses:\n  a: {run: x, hosts: [h]}\n"))
	if want := "f:2: rollout: unknown field here: expected in processes.NAME, or in defaults"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
