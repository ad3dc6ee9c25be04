package logs_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	v1 "drover/api/v1"
	"drover/internal/agent/logs"
	"drover/internal/process"
	"drover/internal/test/harness"
	"drover/internal/wire"
)

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, nil, harness.Need{Test: "TestPipeThatItsProcessHoldsUp", Accounts: true}))
}

// api is the process of the tests.
func api() process.ID { return process.ID{Namespace: "shop", Name: "api"} }

// policy is a spec with a policy of logs.
func policy(size int64, keep int) *process.Spec {
	return &process.Spec{Log: &v1.Log{MaxSize: new(v1.Size(size)), Keep: &keep}}
}

// rig is a Store whose directory a test can look at. It does not run yet.
type rig struct {
	*logs.Store
	t   *testing.T
	dir string
	n   int
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir()}
	r.reopen()
	return r
}

// newRigOnSmallDisk is newRig on a file system of 1 MiB.
func newRigOnSmallDisk(t *testing.T) *rig {
	t.Helper()
	dir := harness.SmallDisk(t, "1m")
	r := &rig{t: t, dir: filepath.Join(dir, "log")}
	r.reopen()
	return r
}

// reopen is the next agent.
func (r *rig) reopen() {
	r.t.Helper()
	k, err := logs.Open(r.dir, slog.New(slog.NewTextHandler(r.t.Output(), nil)))
	if err != nil {
		r.t.Fatal(err)
	}
	r.Store = k
}

// run bounds the logs until stop is called, or the test ends.
func (r *rig) run() (stop func()) {
	ctx, cancel := context.WithCancel(r.t.Context())
	ended := make(chan error, 1)
	k := r.Store
	go func() { ended <- k.Run(ctx) }()
	stopped := false
	stop = func() {
		if cancel(); !stopped {
			stopped = true
			if err := <-ended; err != nil {
				r.t.Error(err)
			}
		}
	}
	r.t.Cleanup(stop)
	return stop
}

// begin begins a run, whose files are closed at the end of the test.
func (r *rig) begin(spec *process.Spec) (out, errs *os.File, run string) {
	r.t.Helper()
	r.n++
	run = fmt.Sprintf("%s-%d", process.Hash(api())[:12], r.n)
	out, errs, err := r.Begin(api(), run, spec)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		_ = out.Close()
		_ = errs.Close()
	})
	return out, errs, run
}

// path is a file of the log.
func (r *rig) path(name string) string { return filepath.Join(r.dir, process.Hash(api()), name) }

// held is the disk space of a file in bytes.
func held(path string) int64 {
	var st syscall.Stat_t
	if syscall.Stat(path, &st) != nil {
		return 0
	}
	return st.Blocks * 512
}

// rotated counts the rotated files of stdout.
func (r *rig) rotated() int {
	all, err := filepath.Glob(r.path("stdout.*-*"))
	if err != nil {
		r.t.Fatal(err)
	}
	return len(all)
}

// all is everything that a question and those after it bring.
type all struct {
	lines  []string
	blocks []wire.LogBlock
	lost   int64
	pieces int
	err    string
}

// ask asks until the end of the log.
func (r *rig) ask(q wire.LogQuestion) (a all) {
	r.t.Helper()
	q.Process = api()
	for {
		p := r.Answer(r.t.Context(), q)
		a.pieces++
		if p.Error != "" {
			a.err = p.Error
			return a
		}
		size := 0
		for _, b := range p.Blocks {
			a.blocks = append(a.blocks, b)
			if a.lost += b.Lost; b.Lost == 0 {
				a.lines = append(a.lines, strings.Split(string(b.Text), "\n")...)
			}
			size += len(b.Text)
		}
		if size > wire.MaxLogText || len(p.Blocks) > wire.MaxLogBlocks {
			r.t.Fatalf("a piece has %d bytes in %d blocks", size, len(p.Blocks))
		}
		if !p.More {
			return a
		}
		q.Cursor = p.Cursor
	}
}

// write writes whole texts.
func write(t *testing.T, f *os.File, text string) {
	t.Helper()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// numbered returns lines with numbers from first to last.
func numbered(first, last int) string {
	var b strings.Builder
	for n := first; n <= last; n++ {
		b.WriteString("line " + strconv.Itoa(n) + "\n")
	}
	return b.String()
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
