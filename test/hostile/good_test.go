package hostile_test

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"drover/internal/test/harness"
)

// caller operates on one process, and asks for what came of it.
type caller struct {
	*battle
	number int
	random *rand.Rand
	times  times
}

// op_types of the wire.
const (
	start   = 0
	stop    = 1
	query   = 2
	restart = 7
)

// pause is how long a caller waits before it asks again.
const pause = 50 * time.Millisecond

// round starts the process, asks for it some times, perhaps restarts it, and stops it. It returns false where something
// was lost.
func (c *caller) round() bool {
	ops := []int{start, query, query, query}
	if c.random.IntN(2) == 0 {
		ops = append(ops, restart, query)
	}
	for _, op := range append(ops, stop) {
		if !c.operate(op) {
			return false
		}
	}
	return true
}

// operate carries out an operation, which must succeed.
func (c *caller) operate(op int) bool {
	p, began := c.processes[c.number], time.Now()
	reply, ok := c.call("operate_proc_v2", p.Request(op))
	if !ok {
		return false
	}
	task, _ := reply["task_id"].(string)
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		<-tick.C
		data, ok := c.call("get_proc_operate_result_v2", harness.Object{"task_id": task})
		if !ok {
			return false
		}
		entry, _ := data[p.Key()].(harness.Object)
		code, _ := entry["error_code"].(float64)
		switch {
		case entry == nil || code == 115 && time.Since(began) < harness.CommandPatience:
			continue
		case code != 0:
			c.t.Errorf("%s: op_type %d: %v", p.Name, op, entry)
			return false
		}
		if op == start || op == restart {
			c.starts[c.number]++
		}
		if kind := map[int]string{query: "query", stop: "stop"}[op]; kind != "" {
			c.times[kind] = append(c.times[kind], time.Since(began))
		}
		return true
	}
}

func (c *caller) call(name string, body any) (harness.Object, bool) {
	began := time.Now()
	data, err := harness.Caller{URL: c.URL, Client: c.Client}.GSE(name, body)
	if err != nil {
		c.t.Errorf("%s: %v", c.processes[c.number].Name, err)
		return nil, false
	}
	c.times["call"] = append(c.times["call"], time.Since(began))
	return data, true
}

// check asks, after the battle, for what must hold.
func (b *battle) check() {
	b.t.Helper()
	for i, dir := range b.dirs {
		if n := harness.Starts(b.t, dir); n != b.starts[i] {
			b.t.Errorf("%s was started %d times, and %d starts succeeded", b.processes[i].Name, n, b.starts[i])
		}
	}
	if mb := written(b.t, harness.ReadPID(b.t, b.writer)); mb < outputDisk {
		b.t.Errorf("the process that writes without end wrote %d MB: too little to show a bound of %d", mb, outputDisk)
	}
	if held := harness.Peak(b.t, b.Server.PID()); held > serverMemory {
		b.t.Errorf("the server has held %d MB", held)
	} else {
		b.t.Logf("the server has held %d MB at most", held)
	}
	most := 0
	for _, a := range b.agents {
		most = max(most, harness.Peak(b.t, a.PID()))
	}
	if b.t.Logf("an agent has held %d MB at most", most); most > agentMemory {
		b.t.Error("that is too much")
	}
	b.t.Logf("the directory of the server has grown from %d to %d MB, its log holds %d MB", b.disk,
		megabytes(b.ServerDir()), len(b.Logs["server"].String())>>20)
}

// written returns how much a process wrote to its files, in MB (wchar in proc(5)).
func written(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		t.Fatal(err)
	}
	var read, wrote int
	if _, err := fmt.Sscanf(string(text), "rchar: %d\nwchar: %d", &read, &wrote); err != nil {
		t.Fatal(err)
	}
	return wrote >> 20
}

// megabytes returns how much the files below a directory take.
func megabytes(dir string) int {
	total := int64(0)
	_ = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, _ error) error {
		var file unix.Stat_t
		if unix.Lstat(path, &file) == nil { // others remove files meanwhile
			total += file.Blocks * 512
		}
		return nil
	})
	return int(total >> 20)
}
