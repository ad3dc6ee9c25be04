package daemons_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// used returns the ticks of processor time and the pages of memory that a process uses.
func (p process) used() (ticks, pages int) {
	p.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid))
	if err != nil {
		p.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	var user, system int
	if _, err := fmt.Sscan(fields[11]+" "+fields[12]+" "+fields[21], &user, &system, &pages); err != nil {
		p.t.Fatal(err)
	}
	return user + system, pages
}

// awaitUse waits until a process has used so much.
func (p process) awaitUse(enough func(ticks, pages int) bool) {
	p.t.Helper()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for deadline := time.After(patience); !enough(p.used()); {
		select {
		case <-look.C:
		case <-deadline:
			ticks, pages := p.used()
			p.t.Fatalf("it has used %d ticks and %d pages only", ticks, pages)
		}
	}
}

func TestHogs(t *testing.T) {
	pages := 64 << 20 / os.Getpagesize()
	t.Run("processor", func(t *testing.T) {
		o := build(t, "oddd")
		o.start("hog-cpu", "-delay", "1ms")
		o.daemon().awaitUse(func(ticks, _ int) bool { return ticks >= 50 })
	})
	t.Run("memory, for a time", func(t *testing.T) {
		o := build(t, "oddd")
		o.start("hog-mem", "-delay", "1ms", "-mb", "64", "-span", "300ms")
		d := o.daemon()
		d.awaitUse(func(_, held int) bool { return held >= pages })
		d.awaitUse(func(_, held int) bool { return held < pages })
	})
	t.Run("in a grandchild", func(t *testing.T) {
		o := build(t, "oddd")
		o.start("hog-mem,grandchild", "-delay", "1ms", "-mb", "64")
		d := o.daemon()
		parents := map[int]process{}
		for _, p := range o.workers(2) {
			parent, _, _ := p.stat()
			parents[parent] = p
		}
		child, ok := parents[d.pid]
		hog, okToo := parents[child.pid]
		if !ok || !okToo {
			t.Fatalf("the daemon %d has no child of a child: %v", d.pid, parents)
		}
		hog.awaitUse(func(_, held int) bool { return held >= pages })
		if _, held := d.used(); held >= pages {
			t.Error("the daemon holds the memory itself")
		}
	})
}
