package upgrade_test

import (
	"bytes"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"drover/internal/test/harness"
	"drover/test/judge"
)

// How many processes there are: fewer than in make upgrade in a run of all tests.
const (
	number     = 60
	longNumber = 1000
)

// every is the time between two runs by the timetable.
const every = 2 * time.Second

// watch is one run of the test.
type watch struct {
	*rig
	all []subject
	// shown and kept are what the server showed, and the agent had on its disk, before the first replacement.
	shown map[string]harness.Object
	kept  memory
	// began is how often the command of each process had run then; operations and probed count on.
	began      map[string]int
	events     map[string][]string
	operations int
	probed     map[string]int
	// away are the times without an agent, one for each end.
	away []absence
}

// absence is a time without an agent, or with one that was not linked yet.
type absence struct{ from, to time.Time }

// TestUpgrade: an agent is replaced by the next version and by this one again, in order and after a crash, amid
// operations. All processes are afterwards as they would be under one agent.
func TestUpgrade(t *testing.T) {
	length, _ := judge.Choices(t, 0)
	count := number
	if judge.Long() {
		count = longNumber
	}
	next := buildEdited(t, "next", nextVersion())
	if harness.Finish(t, "", nil, next, "version").Out == harness.Finish(t, "", nil, binaries.agent, "version").Out {
		t.Error("both agents say the same version")
	}
	w := &watch{rig: newRig(t), began: map[string]int{}, events: map[string][]string{}, probed: map[string]int{}}
	w.settle(count)
	begun := time.Now()
	for first := true; first || time.Since(begun) < length; first = false {
		for _, c := range []struct {
			end    syscall.Signal
			binary string
		}{
			{syscall.SIGKILL, next},
			{syscall.SIGTERM, binaries.agent},
			{syscall.SIGKILL, next},
			{syscall.SIGTERM, binaries.agent},
			{syscall.SIGKILL, binaries.agent},
		} {
			w.replace(c.end, c.binary)
			w.awaitRuns()
			w.compare()
		}
	}
	for _, s := range w.all {
		if now := w.eventsOf(s.id); s.own == "" && !slices.Equal(now, w.events[s.id]) {
			w.t.Errorf("%s had the events %v, and has %v", s.id, w.events[s.id], now)
		}
	}
	w.timetables()
	w.talk()
}

// settle applies the file and waits until each process is where it stays.
func (w *watch) settle(count int) {
	w.t.Helper()
	all, files := w.subjects(count)
	w.all = all
	for _, file := range files {
		w.CLI("apply", "-f", file, "--yes")
	}
	for _, command := range []string{"unhost", "stop"} {
		args := []string{command, "--yes"}
		for _, s := range all {
			if s.afterwards == command {
				args = append(args, "shop/"+s.id)
			}
		}
		w.CLI(args...)
	}
	w.touch("go")
	harness.Eventually(w.t, "all processes to be where they stay", func() bool {
		w.shown = w.processes()
		return !slices.ContainsFunc(all, func(s subject) bool {
			return s.state != "" && state(w.shown[s.id]) != s.state ||
				s.own == scheduled && s.lineCount("runs") < 2
		})
	})
	for _, s := range all {
		w.began[s.id] = s.starts()
		w.events[s.id] = w.eventsOf(s.id)
	}
}

// replace ends the agent in the midst of operations, and starts another one, which ends them.
func (w *watch) replace(end syscall.Signal, binary string) {
	w.t.Helper()
	var targets []any
	var restarted []subject
	for _, s := range w.all {
		if s.own == operated {
			targets = append(targets, harness.Object{"namespace": "shop", "name": s.id, "hosts": []string{host}})
			restarted = append(restarted, s)
		}
	}
	id := w.do(http.MethodPost, "/api/v1/tasks", harness.Object{"op": "restart", "targets": targets},
		http.StatusAccepted)["id"].(string)
	w.operations++
	harness.Eventually(w.t, "a restart to be under way", func() bool {
		return slices.ContainsFunc(restarted, func(s subject) bool { return s.starts() == w.began[s.id]+w.operations })
	})
	gone := time.Now()
	w.agent.End(end)
	if w.Agent != binaries.agent {
		w.wroteMore()
	}
	kept := w.remembered()
	if w.kept.records == nil {
		w.kept = kept
	}
	w.compareKept(kept)
	w.begin(binary)
	w.away = append(w.away, absence{gone, time.Now()})
	var reply harness.Object
	harness.Eventually(w.t, "the restarts to be done", func() bool {
		reply = w.do(http.MethodGet, "/api/v1/tasks/"+id+"?wait=20", nil, http.StatusOK)
		return reply["state"] == "done"
	})
	if counts := reply["counts"].(harness.Object); counts["ok"] != float64(len(targets)) {
		w.t.Errorf("of %d restarts amid which the agent ended (%v): %v", len(targets), end, counts)
	}
	for _, s := range restarted {
		if n := s.starts(); n != w.began[s.id]+w.operations {
			w.t.Errorf("%s%s began %d times, want once for each of its %d operations", harness.MoreThan(w.began[s.id]+w.operations, n),
				s.id, n, w.began[s.id]+w.operations)
		}
	}
}

// compareKept compares what an agent has left on its disk with what was there at first.
func (w *watch) compareKept(now memory) {
	w.t.Helper()
	for _, s := range w.all {
		if s.own != "" {
			continue
		}
		if was, is := w.kept.records[s.id], now.records[s.id]; !reflect.DeepEqual(was, is) {
			w.t.Errorf("%s: the record was %+v, and is %+v", s.id, was, is)
		}
		was, is := w.kept.runtimes[s.id], now.runtimes[s.id]
		if !reflect.DeepEqual(was.Process, is.Process) || !reflect.DeepEqual(was.Ended, is.Ended) || was.Run != is.Run {
			w.t.Errorf("%s: the instance was %+v of run %s, and is %+v of run %s", s.id, was.Process, was.Run, is.Process,
				is.Run)
		}
		if was.Attempts != is.Attempts || was.RetryAt != is.RetryAt || was.Restarts != is.Restarts ||
			was.LaunchedAt != is.LaunchedAt || !slices.Equal(was.Relaunches, is.Relaunches) {
			w.t.Errorf("%s: the relaunches were %+v, and are %+v", s.id, was, is)
		}
		if s.state == "unhealthy" {
			w.compareProbes(s, is.Health.Failures)
		}
	}
}

// compareProbes fails the test unless each failed probe is counted. The end of an agent may take its last one with it.
func (w *watch) compareProbes(s subject, counted int) {
	w.t.Helper()
	ran := s.lineCount("probes")
	if counted > ran || counted < ran-len(w.away)-1 || counted < w.probed[s.id] {
		w.t.Errorf("%s: %d failed probes are counted, %d ran, and %d were counted before", s.id, counted, ran,
			w.probed[s.id])
	}
	w.probed[s.id] = counted
}

// wroteMore fails the test unless the next version has written what this one does not know.
func (w *watch) wroteMore() {
	w.t.Helper()
	for name, mark := range map[string]string{"state.db": recordMark, "runtime.db": runtimeMark} {
		if !bytes.Contains(w.onDisk(name), []byte(mark)) {
			w.t.Errorf("%s has no field of the next version", name)
		}
	}
}

// compare compares what the server shows with what it showed at first.
func (w *watch) compare() {
	w.t.Helper()
	now := w.processes()
	for _, s := range w.all {
		if s.own != "" {
			continue
		}
		was, is := w.shown[s.id], now[s.id]
		if state(is) != state(was) || pid(is) != pid(was) || pid(is) > 0 && !harness.Alive(pid(is)) {
			w.t.Errorf("%s was %s with pid %d, and is %s with pid %d", s.id, state(was), pid(was), state(is), pid(is))
		}
		for _, field := range []string{"restarts", "hosted", "want", "last_exit", "last_start_at", "runs"} {
			if s.state != "unhealthy" && !reflect.DeepEqual(was[field], is[field]) {
				w.t.Errorf("%s: %s was %v, and is %v", s.id, field, was[field], is[field])
			}
		}
		if a, b := cause(was), cause(is); a != b {
			w.t.Errorf("%s: the cause was %s, and is %s", s.id, a, b)
		}
		if n := s.starts(); n != w.began[s.id] {
			w.t.Errorf("%s%s began %d times, and now %d", harness.MoreThan(w.began[s.id], n), s.id, w.began[s.id], n)
		}
	}
}

// cause is why a process is not as it should be, without what goes on: the time that is left until its relaunch, and
// the number of its failed probes.
func cause(shown harness.Object) string {
	cause, _ := shown["cause"].(harness.Object)
	if cause == nil {
		return "none"
	}
	text, _, _ := strings.Cut(fmt.Sprint(cause["text"]), "; next start at")
	text, _, _ = strings.Cut(text, " times in a row")
	return fmt.Sprint(cause["id"], " ", cause["since"], " ", strings.TrimRight(text, "0123456789"))
}

// awaitRuns waits until the present agent has begun a run of each timetable.
func (w *watch) awaitRuns() {
	w.t.Helper()
	at := map[string]int{}
	for _, s := range w.all {
		at[s.id] = s.lineCount("runs")
	}
	for _, s := range w.all {
		if s.own == scheduled {
			harness.Eventually(w.t, "a run of "+s.id, func() bool { return s.lineCount("runs") > at[s.id] })
		}
	}
}

// timetables fails the test unless each run that was due while an agent was there has run once, at its time.
func (w *watch) timetables() {
	w.t.Helper()
	gone := time.Now()
	w.agent.End(syscall.SIGTERM)
	w.away = append(w.away, absence{gone, time.Now()})
	now := w.remembered()
	for _, s := range w.all {
		if s.own != scheduled {
			continue
		}
		first, last := w.kept.histories[s.id].Due, now.histories[s.id].Due
		if off := last.Sub(first) % every; off != 0 {
			w.t.Errorf("%s: its timetable has moved by %v", s.id, off)
		}
		due, certain := 0, 0
		for at := first.Add(every); !at.After(last); at = at.Add(every) {
			due++
			if !slices.ContainsFunc(w.away, func(a absence) bool { return a.missed(at) }) {
				certain++
			}
		}
		if ran := s.runsFrom(w.t, first.Add(every)); ran > due || ran < certain {
			w.t.Errorf("%s%s ran %d times, and was due %d times, %d of them with an agent", harness.MoreThan(due, ran), s.id, ran, due, certain)
		}
	}
}

// missed reports whether a run that is due at this time may be missed: the agent may end before it begins a run.
func (a absence) missed(due time.Time) bool {
	return due.After(a.from.Add(-time.Second)) && due.Before(a.to)
}

// runsFrom is how many of its runs began at this time or later.
func (s subject) runsFrom(t *testing.T, from time.Time) (n int) {
	t.Helper()
	for line := range strings.Lines(s.text("runs")) {
		seconds, err := strconv.ParseFloat(strings.TrimSpace(line), 64)
		if err != nil {
			t.Fatal(err)
		}
		if seconds >= float64(from.UnixMilli())/1000 {
			n++
		}
	}
	return n
}

// talk fails the test unless each number that a process writes is there, in order.
func (w *watch) talk() {
	w.t.Helper()
	for _, s := range w.all {
		if s.name != "chatty" {
			continue
		}
		lines := strings.Fields(s.text("out"))
		for i, line := range lines {
			if line != strconv.Itoa(i+1) {
				w.t.Errorf("%s: line %d is %s", s.id, i+1, line)
				break
			}
		}
		if shown := pid(w.shown[s.id]); !harness.Alive(shown) || len(lines) < 10 {
			w.t.Errorf("%s wrote %d lines, and its pid %d lives: %v", s.id, len(lines), shown, harness.Alive(shown))
		}
	}
}
