// Package limits_test holds the black-box tests of limits and of process groups: the built binary ends real hogs, and
// leaves those alone that only look like one.
package limits_test

import (
	"fmt"
	"os"
	"runtime"
	"testing"

	"drover/internal/test/harness"
)

var binaries struct{ drover, oddd string }

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, map[string]*string{
		"./cmd/drover":        &binaries.drover,
		"./test/daemons/oddd": &binaries.oddd,
	}))
}

// Limits that a hog exceeds and a daemon at rest does not, in percent of the whole machine. Others want their part of
// the processors: a hog gets a tenth of one at least.
const hogMiB = 300

func cpuLimit() float64 { return 5 / float64(runtime.NumCPU()) }

func memLimit(t *testing.T) float64 { return harness.MemoryPercent(t, hogMiB/2) }

// daemon is an oddd of a test.
type daemon struct {
	*harness.Process
	t   *testing.T
	dir string
}

// run starts an oddd in the namespace. It is relaunched a second after it has ended.
func run(t *testing.T, s *harness.Server, namespace, name, modes string, set func(p *harness.Process),
	flags ...string,
) *daemon {
	t.Helper()
	p, dir := harness.Odd(t, s, binaries.oddd, name, modes, flags...)
	p.Namespace = namespace
	set(p)
	d := &daemon{p, t, dir}
	if r := p.Operate(0).Want(t, "start", 0); !r.Hosted {
		t.Fatal("it is not hosted")
	}
	return d
}

// starts is how often it has begun.
func (d *daemon) starts() int {
	d.t.Helper()
	return harness.Starts(d.t, d.dir)
}

// awaitStarts waits until it has begun so often.
func (d *daemon) awaitStarts(n int) {
	d.t.Helper()
	harness.Eventually(d.t, fmt.Sprintf("%s to be started %d times", d.Name, n), func() bool { return d.starts() >= n })
}

// breach returns the proof in an event, and fails the test unless all its samples are over the limit.
func (d *daemon) breach(event harness.Object) harness.Object {
	d.t.Helper()
	b, ok := event["breach"].(harness.Object)
	if !ok {
		d.t.Fatalf("no breach in %v", event)
	}
	samples := b["samples"].([]any)
	for _, s := range samples {
		if s.(float64) <= b["limit"].(float64) {
			d.t.Errorf("the breach %v has a sample within the limit", b)
		}
	}
	if len(samples) != 3 {
		d.t.Errorf("the breach %v has %d samples, want 3", b, len(samples))
	}
	return b
}

// undisturbed fails the test if it was ended, or told to have exceeded anything.
func (d *daemon) undisturbed() {
	d.t.Helper()
	if n, told := d.starts(), d.Events("limit-exceeded", "group-limit-exceeded", "taken-down"); n != 1 ||
		len(told) > 0 {
		d.t.Errorf("%s was started %d times, and %v was told of it", d.Name, n, told)
	}
}
