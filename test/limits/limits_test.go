package limits_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"drover/internal/test/harness"
)

// watched is how long somebody is watched who is to be left alone: longer than it takes to end a hog.
const watched = 30 * time.Second

func TestLimits(t *testing.T) {
	s := harness.Start(t, binaries.drover)
	t.Run("a hog on the processor", func(t *testing.T) {
		t.Parallel()
		d := run(t, s, "limits", "cpu", "hog-cpu", func(p *harness.Process) {
			p.Resource = harness.Object{"cpu": cpuLimit()}
			p.Control["stop_cmd"] = "echo asked >> asked; kill $(cat oddd.pid)"
		})
		d.awaitStarts(2) // ended, and relaunched
		event := d.AwaitEvents(1, "limit-exceeded")[0]
		if b := d.breach(event); b["resource"] != "cpu" {
			t.Errorf("breach %v, want one of cpu", b)
		}
		if asked, err := filepath.Glob(d.dir + "/asked"); err != nil || len(asked) != 1 {
			t.Error("it was ended without its stop command")
		}
	})
	t.Run("a hog on memory in a grandchild, whom the stop command does not reach", func(t *testing.T) {
		t.Parallel()
		d := run(t, s, "limits", "mem", "hog-mem,grandchild", func(p *harness.Process) {
			p.Resource = harness.Object{"mem": memLimit(t)}
			p.Control["stop_cmd"] = "kill $(cat oddd.pid)"
		}, "-mb", fmt.Sprint(hogMiB))
		harness.Eventually(t, "the daemon, its child and its grandchild to begin",
			func() bool { return len(harness.PIDs(t, d.dir)) >= 3 })
		tree := harness.PIDs(t, d.dir)[:3]
		d.awaitStarts(2)
		event := d.AwaitEvents(1, "limit-exceeded")[0]
		if b := d.breach(event); b["resource"] != "mem" {
			t.Errorf("breach %v, want one of mem", b)
		}
		// What is killed runs no more, but may still be giving back much memory.
		harness.Eventually(t, "the end of its tree", func() bool { return !slices.ContainsFunc(tree, harness.Alive) })
	})
	t.Run("always over the limit", func(t *testing.T) {
		t.Parallel()
		d := run(t, s, "limits", "always", "hog-cpu", func(p *harness.Process) {
			p.Resource = harness.Object{"cpu": cpuLimit()}
			p.Policy = harness.Object{"start_retries": 1}
		})
		d.AwaitEvents(1, "given-up")
		if n := d.starts(); n != 2 {
			t.Errorf("it was started %d times, want twice", n)
		}
		if n := len(d.Events("limit-exceeded")); n != 2 {
			t.Errorf("%d breaches, want 2", n)
		}
	})
	t.Run("a single run", func(t *testing.T) {
		t.Parallel()
		d := run(t, s, "limits", "single", "hog-cpu", func(p *harness.Process) {
			p.Resource = harness.Object{"cpu": cpuLimit()}
			p.Policy = harness.Object{"auto_type": 2}
		})
		d.AwaitEvents(1, "taken-down")
		if r := d.Query(); r.PID > 0 || d.starts() != 1 {
			t.Errorf("pid %d runs, started %d times: want it down for good", r.PID, d.starts())
		}
	})
	for name, c := range map[string]struct {
		modes string
		check int
		flags string
	}{
		"a hog for one sample":            {"hog-cpu", 2, "-delay 3s -span 4s"},
		"a hog in its start window":       {"hog-cpu", 22, "-delay 0 -span 20s"},
		"a hog in the window with memory": {"hog-mem", 22, "-delay 0 -span 20s -mb " + fmt.Sprint(hogMiB)},
		"at rest":                         {"plain", 2, ""},
		"a hog without a limit":           {"hog-cpu", 2, "-delay 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := run(t, s, "limits", strings.ReplaceAll(name, " ", "-"), c.modes, func(p *harness.Process) {
				p.Resource = harness.Object{"cpu": cpuLimit(), "mem": memLimit(t)}
				p.Policy = harness.Object{"start_check_secs": c.check}
				if name == "a hog without a limit" {
					p.Resource = harness.Object{"cpu": 0, "mem": -1}
				}
			}, strings.Fields(c.flags)...)
			<-time.After(watched)
			d.undisturbed()
		})
	}
}

// TestGroups: of two hogs that share a pool the one with the higher score goes, whoever is in the namespace besides.
func TestGroups(t *testing.T) {
	s := harness.Start(t, binaries.drover)
	plain := func(*harness.Process) {}
	small := run(t, s, "pool", "small", "hog-mem", plain, "-mb", fmt.Sprint(hogMiB/2))
	big := run(t, s, "pool", "big", "hog-mem", plain, "-mb", fmt.Sprint(hogMiB))
	rest := run(t, s, "pool", "rest", "plain", plain)
	elsewhere := run(t, s, "elsewhere", "big", "hog-mem", plain, "-mb", fmt.Sprint(2*hogMiB))
	pool := harness.Object{
		"meta": harness.Object{"namespace": "pool"}, "agent_id_list": []string{harness.Agent},
		"spec": harness.Object{"process_group": []any{
			harness.Object{"id": "one", "resource": harness.Object{"mem_pool_limit": memLimit(t) * 5 / 2}},
		}},
	}
	set := s.Call("set_process_group_info", pool)
	if e, ok := set[harness.Agent+":pool"].(harness.Object); !ok || e["error_code"] != 0.0 {
		t.Fatalf("set is answered %v", set)
	}
	b := big.breach(big.AwaitEvents(1, "group-limit-exceeded")[0])
	scores := b["scores"].([]any)
	if b["resource"] != "mem" || b["group"] != "one" || len(scores) != 3 {
		t.Errorf("breach %v, want one of mem in the group, with three scores", b)
	}
	if first := scores[0].(harness.Object)["process"].(harness.Object); first["name"] != "big" {
		t.Errorf("the highest score is that of %v", first)
	}
	big.awaitStarts(2)
	for _, d := range []*daemon{small, rest, elsewhere} {
		d.undisturbed()
	}

	// Without a pool nobody is ended any more, and what is used shows.
	pool["spec"] = harness.Object{"process_group": []any{harness.Object{
		"id":       "one",
		"resource": harness.Object{"mem_pool_limit": 0},
	}}}
	s.Call("set_process_group_info", pool)
	harness.Eventually(t, "the use of the namespace to be known", func() bool {
		rows := s.Call("get_process_group_info", pool)["process_group_infos"].([]any)
		usage := rows[0].(harness.Object)["usage"].(harness.Object)
		return usage["processes"] == 3.0 && usage["mem"].(float64) > memLimit(t)*5/2
	})
}
