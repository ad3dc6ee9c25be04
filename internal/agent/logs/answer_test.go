package logs_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"drover/internal/agent/logs"
	"drover/internal/agent/trail"
	"drover/internal/pattern"
	"drover/internal/process"
	"drover/internal/test/harness"
	"drover/internal/wire"
)

// TestRuns: a question is about the last run, unless it names another or a time.
func TestRuns(t *testing.T) {
	r := newRig(t)
	r.run()
	var runs []string
	for n := 1; n <= 3; n++ {
		out, errs, run := r.begin(policy(1<<20, 5))
		write(t, out, "out "+strconv.Itoa(n)+"\nhalf")
		write(t, errs, "err "+strconv.Itoa(n)+"\n")
		_ = out.Close()
		_ = errs.Close()
		runs = append(runs, run)
	}
	for _, c := range []struct {
		q    wire.LogQuestion
		want string
	}{
		{wire.LogQuestion{}, "out 3,half,err 3"},
		{wire.LogQuestion{Run: -1}, "out 2,half,err 2"},
		{wire.LogQuestion{Run: -2, Stream: "stderr"}, "err 1"},
		{wire.LogQuestion{Stream: "stdout", Since: 1}, "out 1,half,out 2,half,out 3,half"},
		{wire.LogQuestion{Stream: "stdout", Since: 1, Tail: 3}, "half,out 3,half"},
		{wire.LogQuestion{Since: 1, Grep: "^out [13]$"}, "out 1,out 3"},
		{wire.LogQuestion{Since: 1, Grep: "^half$", Tail: 2}, "half,half"},
		{wire.LogQuestion{Since: time.Now().Add(time.Hour).UnixMilli()}, ""},
	} {
		a := r.ask(c.q)
		slices.Sort(a.lines) // streams come by their times, which may be equal
		want := strings.Split(c.want, ",")
		if slices.Sort(want); c.want == "" {
			want = nil
		}
		if a.err != "" || !slices.Equal(a.lines, want) {
			t.Errorf("%+v: %q %q, want %q", c.q, a.lines, a.err, want)
		}
	}
	if a := r.ask(wire.LogQuestion{Run: -3}); a.err != "there is no run -3: the log knows 3 runs" {
		t.Errorf("%q", a.err)
	}
	if a := r.ask(wire.LogQuestion{Run: -1}); a.blocks[0].Run != 2 {
		t.Errorf("the run has number %d", a.blocks[0].Run)
	}
	for n, run := range runs {
		if got, want := r.Text(run), "out "+strconv.Itoa(n+1)+"\nhalf\nerr "+strconv.Itoa(n+1); got != want {
			t.Errorf("run %d wrote %q", n+1, got)
		}
	}
	r.reopen()
	if got := r.Text(runs[2]); got != "out 3\nhalf\nerr 3" {
		t.Errorf("for the next agent the run wrote %q", got)
	}
}

// TestARunThatDidNotBegin is none.
func TestARunThatDidNotBegin(t *testing.T) {
	r := newRig(t)
	out, _, first := r.begin(policy(1<<20, 5))
	write(t, out, "first\n")
	_, _, second := r.begin(policy(1<<20, 5))
	r.Discard(first) // it has written something
	r.Discard(second)
	if a := r.ask(wire.LogQuestion{}); !slices.Equal(a.lines, []string{"first"}) {
		t.Errorf("%q %q", a.lines, a.err)
	}
	out, _, _ = r.begin(policy(1<<20, 5))
	write(t, out, "third\n")
	if a := r.ask(wire.LogQuestion{Run: -1}); !slices.Equal(a.lines, []string{"first"}) {
		t.Errorf("%q %q", a.lines, a.err)
	}
}

// TestTimes: a line has the time when the agent saw it, also after the next agent took over; the streams come in the
// order of their times.
func TestTimes(t *testing.T) {
	r := newRig(t)
	stop := r.run()
	out, errs, _ := r.begin(policy(1<<20, 5))
	begun := time.Now()
	write(t, out, "one\n")
	seen := func(n int) func() bool { return func() bool { return marks(r) >= n } }
	harness.Eventually(t, "the mark of the first line", seen(2))
	between := time.Now()
	write(t, errs, "two\n")
	harness.Eventually(t, "the mark of the second line", seen(3))
	write(t, out, "three\n")
	harness.Eventually(t, "the mark of the third line", seen(4))
	stop()
	r.reopen()
	a := r.ask(wire.LogQuestion{})
	if !slices.Equal(a.lines, []string{"one", "two", "three"}) || len(a.blocks) != 3 {
		t.Fatalf("%q in %d blocks", a.lines, len(a.blocks))
	}
	if at := a.blocks[0].Time; at < begun.UnixMilli() || at > between.UnixMilli() {
		t.Errorf("the first line is of %s", time.UnixMilli(at))
	}
	late := r.ask(wire.LogQuestion{Since: a.blocks[2].Time})
	if !slices.Equal(late.lines, []string{"three"}) {
		t.Errorf("since the time of the third line there are %q", late.lines)
	}
}

// TestTail: the last lines come from rotated files, too.
func TestTail(t *testing.T) {
	r := newRig(t)
	r.run()
	out, _, _ := r.begin(policy(64<<10, 100))
	const lines = 40_000
	for n := 1; n <= lines; n += 1000 {
		write(t, out, numbered(n, n+999))
		harness.Eventually(t, "the file to be rotated", func() bool { return held(r.path("stdout")) <= 96<<10 })
	}
	for _, tail := range []int{1, 10, 20_000, 100_000} {
		a := r.ask(wire.LogQuestion{Tail: tail})
		first := max(lines-tail+1, 1)
		if a.err != "" || len(a.lines) != min(tail, lines) || a.lines[0] != "line "+strconv.Itoa(first) {
			t.Errorf("the last %d are %d, from %q: %q", tail, len(a.lines), a.lines[:min(len(a.lines), 1)], a.err)
		}
	}
	a := r.ask(wire.LogQuestion{Tail: 3, Grep: "000$"})
	if !slices.Equal(a.lines, []string{"line 38000", "line 39000", "line 40000"}) {
		t.Errorf("the last that match are %q", a.lines)
	}
}

// TestTheEndIsThatOfTheQuestion: what a busy process writes while its log is read, is not part of it.
func TestTheEndIsThatOfTheQuestion(t *testing.T) {
	r := newRig(t)
	r.run()
	out, errs, _ := r.begin(policy(1<<20, 5))
	write(t, out, numbered(1, 2000))
	write(t, errs, "one\n")
	path := filepath.Join(t.TempDir(), "own.log")
	own, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close() //nolint:errcheck // the test is over
	write(t, own, numbered(1, 2000))
	for name, answer := range map[string]func(wire.LogQuestion) wire.LogAnswer{
		"log": func(q wire.LogQuestion) wire.LogAnswer { return r.Answer(t.Context(), q) },
		"file": func(q wire.LogQuestion) wire.LogAnswer {
			return r.AnswerFile(t.Context(), q, path, trail.Plain)
		},
	} {
		for _, tail := range []int{0, 1500} {
			q := wire.LogQuestion{Process: api(), Tail: tail, Limit: 1} // several small pieces
			a := answer(q)
			write(t, out, "later\n")
			write(t, errs, "later\n")
			write(t, own, "later\n")
			lines, pieces := 0, 1
			for ; ; pieces++ {
				for _, b := range a.Blocks {
					lines += bytes.Count(b.Text, []byte("\n")) + 1
				}
				if !a.More {
					break
				}
				q.Cursor = a.Cursor
				a = answer(q)
			}
			switch {
			case a.Error != "" || pieces < 3:
				t.Errorf("%s: %d pieces, %q", name, pieces, a.Error)
			case tail != 0 && lines != tail || lines > 2010:
				t.Errorf("%s: of --tail %d come %d lines", name, tail, lines)
			}
		}
	}
	q := wire.LogQuestion{Limit: 1}
	q.Cursor = r.AnswerFile(t.Context(), q, path, trail.Plain).Cursor
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("new\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if a := r.AnswerFile(t.Context(), q, path, trail.Plain); a.Error != "" || !a.More || len(a.Blocks) != 1 {
		t.Errorf("of the renamed file come %d blocks: %q", len(a.Blocks), a.Error)
	}
	if err := os.Remove(path + ".1"); err != nil {
		t.Fatal(err)
	}
	if a := r.AnswerFile(t.Context(), q, path, trail.Plain); !strings.Contains(a.Error, "was replaced") || a.Cursor != "" {
		t.Errorf("another file brings %+v", a)
	}
}

// TestFollow: a question waits for text, and the next one goes on where it ended, in the next run, too.
func TestFollow(t *testing.T) {
	r := newRig(t)
	r.run()
	out, _, _ := r.begin(policy(1<<20, 5))
	write(t, out, "one\ntw")
	q := wire.LogQuestion{Process: api(), Follow: true}
	ask := func() (lines []string) {
		a := r.Answer(t.Context(), q)
		if a.Error != "" {
			t.Fatal(a.Error)
		}
		q.Cursor = a.Cursor
		for _, b := range a.Blocks {
			lines = append(lines, strings.Split(string(b.Text), "\n")...)
		}
		return lines
	}
	if got := ask(); !slices.Equal(got, []string{"one"}) {
		t.Errorf("first come %q", got)
	}
	answered := make(chan []string, 1)
	go func() { answered <- ask() }()
	write(t, out, "o\n")
	if got := <-answered; !slices.Equal(got, []string{"two"}) {
		t.Errorf("then come %q", got)
	}
	next, _, _ := r.begin(policy(1<<20, 5))
	write(t, next, "half a line")
	if got := ask(); !slices.Equal(got, []string{"half a line"}) {
		t.Errorf("after the wait come %q", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if a := r.Answer(ctx, q); len(a.Blocks) > 0 {
		t.Errorf("a reader that has gone gets %d blocks", len(a.Blocks))
	}
}

// TestOnlyNew: a question for new lines leaves out all that is written, of the last run, too.
func TestOnlyNew(t *testing.T) {
	r := newRig(t)
	r.run()
	out, _, _ := r.begin(policy(1<<20, 5))
	write(t, out, "one\ntwo\n")
	q := wire.LogQuestion{Process: api(), Follow: true, New: true}
	a := r.Answer(t.Context(), q)
	if a.Error != "" || len(a.Blocks) > 0 || a.Cursor == "" {
		t.Fatalf("first comes %+v", a)
	}
	write(t, out, "three\n")
	q.Cursor = a.Cursor
	if a = r.Answer(t.Context(), q); len(a.Blocks) != 1 || string(a.Blocks[0].Text) != "three" {
		t.Errorf("then comes %+v", a)
	}
}

// TestRotationOvertakesAReader: what it has not read comes as one loss, at its place, to the byte.
func TestRotationOvertakesAReader(t *testing.T) {
	r := newRig(t)
	r.run()
	out, _, _ := r.begin(policy(64<<10, 2))
	n := 0
	more := func() {
		write(t, out, numbered(n+1, n+6000))
		n += 6000
		harness.Eventually(t, "the file to be rotated", func() bool { return held(r.path("stdout")) <= 64<<10 })
	}
	more()
	for _, follow := range []bool{true, false} {
		q := wire.LogQuestion{Process: api(), Follow: follow, Limit: 1}
		a := r.Answer(t.Context(), q)
		if len(a.Blocks) == 0 || a.Blocks[0].Lost > 0 || !a.More {
			t.Fatalf("first comes %+v", a)
		}
		before := strings.Split(string(a.Blocks[len(a.Blocks)-1].Text), "\n")
		q.Cursor, q.Limit = a.Cursor, 0
		for range 5 {
			more()
		}
		rest := r.ask(q)
		if rest.err != "" || rest.blocks[0].Lost == 0 || rest.blocks[0].Lost != rest.lost {
			t.Fatalf("then come %d bytes of loss in %d blocks: %q", rest.lost, len(rest.blocks), rest.err)
		}
		if !follow { // all that the question is about has gone
			continue
		}
		number := func(line string) int {
			n, err := strconv.Atoi(strings.TrimPrefix(line, "line "))
			if err != nil {
				t.Errorf("a line is %q", line)
			}
			return n
		}
		last, next := number(before[len(before)-1]), number(rest.lines[0])
		if want := len(numbered(last+1, next-1)); int(rest.lost) != want || number(rest.lines[len(rest.lines)-1]) != n {
			t.Errorf("between the lines %d and %d %d bytes are lost, want %d", last, next, rest.lost, want)
		}
	}
}

// TestALineThatGrows: the begin of a line that has waited comes, although the process writes on.
func TestALineThatGrows(t *testing.T) {
	r := newRig(t)
	r.ForbidWaiting() // as if text came all the time
	out, _, _ := r.begin(policy(1<<20, 5))
	f, err := os.OpenFile(r.path("marks"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // the test is over
	seen := func(ago time.Duration, size int) {
		write(t, f, fmt.Sprintf("t %d %d 0\n", time.Now().Add(-ago).UnixMilli(), size))
	}
	write(t, out, "one\npart")
	seen(time.Second/2, 8)
	q := wire.LogQuestion{Process: api(), Follow: true}
	for _, want := range []string{"one", "", "part of a line"} {
		a := r.Answer(t.Context(), q)
		text := ""
		if len(a.Blocks) > 0 {
			text = string(a.Blocks[0].Text)
		}
		if a.Error != "" || text != want {
			t.Errorf("there comes %q, want %q: %q", text, want, a.Error)
		}
		if q.Cursor = a.Cursor; want == "" {
			write(t, out, " of a line")
			if err := os.Truncate(r.path("marks"), 0); err != nil {
				t.Fatal(err)
			}
			seen(3*time.Second, 8)
			seen(0, 18)
		}
	}
}

// TestPartsOfALine are whole characters, as far as the line has some.
func TestPartsOfALine(t *testing.T) {
	for _, line := range []string{
		strings.Repeat("中", 40_000), "x" + strings.Repeat("😀", 40_000), "xy" + strings.Repeat("é", 40_000),
		strings.Repeat("\x80", 200_000), strings.Repeat("\xf0", 200_000),
	} {
		r := newRig(t)
		out, _, _ := r.begin(policy(1<<20, 5))
		write(t, out, line+"\n")
		a := r.ask(wire.LogQuestion{})
		if strings.Join(a.lines, "") != line || len(a.lines) < 2 {
			t.Errorf("%.4q is not what was written: %d parts", line, len(a.lines))
		}
		for _, part := range a.lines {
			if utf8.ValidString(part) != utf8.ValidString(line) || len(part) > 64<<10 {
				t.Errorf("a part of %d bytes begins %.8q", len(part), part)
			}
		}
	}
}

// TestHostileQuestions: a question is judged like any input.
func TestHostileQuestions(t *testing.T) {
	r := newRig(t)
	out, _, _ := r.begin(policy(1<<20, 5))
	write(t, out, strings.Repeat("x", 700<<10)+"\n")
	for _, q := range []wire.LogQuestion{
		{Cursor: "x"},
		{Cursor: "-1-,0-"},
		{Cursor: "0-"},
		{Cursor: "0-,0-,0-"},
		{Cursor: "99999999999999999999-,0-"},
		{Run: 1},
		{Tail: -1},
		{Tail: wire.MaxLogTail + 1},
		{Grep: "("},
		{Grep: strings.Repeat("a", pattern.Max+1)},
		{Grep: "((a{1000}){1000}){1000}"},
	} {
		if a := r.ask(q); a.err == "" || len(a.err) > 600 {
			t.Errorf("%.60v is answered: %q", q, a.err)
		}
	}
	for _, q := range []wire.LogQuestion{
		{Cursor: "9000000000000000000-,0-"},
		{Cursor: "0-0,0-0"},
		{Cursor: "5-2,0-"},
		{Run: -1 << 60},
		{Stream: "other"},
	} {
		if a := r.ask(q); len(a.lines) > 0 {
			t.Errorf("%v brings %d lines", q, len(a.lines))
		}
	}
	for _, limit := range []int{-5, 0, 1, 5000, 1 << 40} {
		a := r.ask(wire.LogQuestion{Limit: limit})
		if joined := strings.Join(a.lines, ""); len(joined) != 700<<10 || a.err != "" {
			t.Errorf("with limit %d there are %d bytes: %q", limit, len(joined), a.err)
		}
	}
	if a := r.Answer(t.Context(), wire.LogQuestion{Process: process.ID{Namespace: "other", Name: "api"}}); len(a.Blocks) > 0 {
		t.Error("an unknown process has a log")
	}
}

// TestManyMarks: the times of a log take a bounded space, and old ones become coarser; runs and losses stay.
func TestManyMarks(t *testing.T) {
	r := newRig(t)
	out, _, _ := r.begin(policy(1<<20, 5))
	write(t, out, numbered(1, 20_000))
	f, err := os.OpenFile(r.path("marks"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 10_000 {
		write(t, f, "t "+strconv.Itoa(1_000_000_000_000+n*1000)+" "+strconv.Itoa(n*10)+" 0\n")
	}
	write(t, f, "nonsense\nt 5\nl 1 7 0 9\nr 1 2\nt 99 ")
	_ = f.Close()
	r.reopen()
	_, _, _ = r.begin(policy(1<<20, 5))
	info, err := os.Stat(r.path("marks"))
	if err != nil || info.Size() > logs.MaxMarks {
		t.Errorf("the marks have %d bytes: %v", info.Size(), err)
	}
	a := r.ask(wire.LogQuestion{Run: -1})
	if a.err != "" || len(a.lines) != 20_000 {
		t.Fatalf("%d lines, %q", len(a.lines), a.err)
	}
	at, off := int64(0), 0
	for _, b := range a.blocks {
		if b.Time < at {
			off++
		}
		at = b.Time
	}
	if off > 0 || len(a.blocks) < 100 {
		t.Errorf("%d of %d blocks are out of order", off, len(a.blocks))
	}
}

// TestThousandsOfRuns: a process that ends all the time takes no more disk than any other; the last runs are known.
func TestThousandsOfRuns(t *testing.T) {
	r := newRig(t)
	r.run()
	for n := 1; n <= 5000; n++ {
		out, errs, err := r.Begin(api(), process.Hash(api())[:12]+"-"+strconv.Itoa(n), policy(64<<10, 2))
		if err != nil {
			t.Fatal(err)
		}
		write(t, out, "run "+strconv.Itoa(n)+" begins, and ends with a complaint of some length\n")
		_ = out.Close()
		_ = errs.Close()
	}
	harness.Eventually(t, "the log to be small", func() bool { return held(r.path("stdout")) <= 64<<10 })
	names, err := os.ReadDir(r.path(""))
	if err != nil || len(names) > 9 || held(r.path("marks")) > 2*logs.MaxMarks {
		t.Errorf("there are %d files, and marks of %d bytes: %v", len(names), held(r.path("marks")), err)
	}
	for run, want := range map[int]string{0: "run 5000 ", -1: "run 4999 ", -100: "run 4900 "} {
		a := r.ask(wire.LogQuestion{Run: run})
		if a.err != "" || len(a.lines) != 1 || !strings.HasPrefix(a.lines[0], want) {
			t.Errorf("run %d wrote %q: %q", run, a.lines, a.err)
		}
	}
}

// TestLogsOfUnknownProcesses: they go when nobody has written for a while, and not before.
func TestLogsOfUnknownProcesses(t *testing.T) {
	r := newRig(t)
	out, errs, _ := r.begin(policy(1<<20, 5))
	write(t, out, "one\n")
	r.Sweep(nil)
	if !exists(r.path("stdout")) {
		t.Fatal("the log has gone at once")
	}
	old := time.Now().Add(-time.Hour)
	for _, name := range []string{"stdout", "stderr", ""} {
		if err := os.Chtimes(r.path(name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	r.Sweep(nil)
	if !exists(r.path("stdout")) {
		t.Fatal("the log of a writer has gone")
	}
	_ = out.Close()
	_ = errs.Close()
	r.Sweep([]process.ID{api()})
	if !exists(r.path("stdout")) {
		t.Fatal("the log of a known process has gone")
	}
	harness.Eventually(t, "the log to go", func() bool {
		r.Sweep(nil)
		return !exists(r.path(""))
	})
}

// TestARunThatIsGone: its loss has all of its bytes, also if others after it have been kept.
func TestARunThatIsGone(t *testing.T) {
	r := newRig(t)
	r.run()
	rotate := func(out *os.File, from int) {
		t.Helper()
		write(t, out, numbered(from, from+5999))
		harness.Eventually(t, "the file to be rotated", func() bool { return held(r.path("stdout")) <= 64<<10 })
	}
	out, _, _ := r.begin(policy(64<<10, 2))
	rotate(out, 1)
	next, _, _ := r.begin(policy(64<<10, 2))
	for n := range 6 {
		rotate(next, 6000*(n+1)+1)
	}
	gone := r.ask(wire.LogQuestion{Process: api(), Run: -1})
	if want := len(numbered(1, 6000)); gone.err != "" || int(gone.lost) != want || len(gone.lines) > 0 {
		t.Errorf("%d bytes lost, %d lines, %q, want %d lost", gone.lost, len(gone.lines), gone.err, want)
	}
}

// TestALossAtTheBeginOfARun: it has the bytes that were rotated away before drover dropped some, too.
func TestALossAtTheBeginOfARun(t *testing.T) {
	r := newRig(t)
	stop := r.run()
	out, _, _ := r.begin(policy(64<<10, 0))
	last := 0
	for range 6 {
		write(t, out, numbered(last+1, last+6000))
		last += 6000
		harness.Eventually(t, "the file to be rotated", func() bool { return held(r.path("stdout")) <= 64<<10 })
	}
	stop()
	write(t, out, numbered(last+1, last+60_000))
	last += 60_000
	r.reopen()
	a := r.ask(wire.LogQuestion{Process: api()})
	read, whole := len(strings.Join(a.lines, "\n"))+1, len(numbered(1, last))
	if a.err != "" || a.lost == 0 || read+int(a.lost) != whole {
		t.Errorf("%d bytes are there, %d are lost: want %d, %q", read, a.lost, whole, a.err)
	}
}

// TestSearchesDelayNoReader: other questions are answered while one searches, and a search ends with its caller.
func TestSearchesDelayNoReader(t *testing.T) {
	r := newRig(t)
	out, _, _ := r.begin(policy(1<<20, 5))
	write(t, out, numbered(1, 1000))
	leave := r.Search()
	if a := r.ask(wire.LogQuestion{Tail: 1}); len(a.lines) != 1 || a.err != "" {
		t.Errorf("a reader gets %q %s", a.lines, a.err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if a := r.Answer(gone, wire.LogQuestion{Process: api(), Grep: "1"}); a.Error == "" {
		t.Error("a search without a caller is answered")
	}
	leave()
}

// TestLateSearches: a search that takes too long answers with what it has found, and the next question goes on there.
func TestLateSearches(t *testing.T) {
	r := newRig(t)
	out, _, _ := r.begin(policy(1<<20, 5))
	write(t, out, numbered(1, 20))
	r.SearchFor(0)
	var found []string
	for q := (wire.LogQuestion{Process: api(), Grep: "."}); ; {
		a := r.Answer(t.Context(), q)
		if a.Error != "" || len(a.Blocks) > 1 {
			t.Fatalf("%v %s", a.Blocks, a.Error)
		}
		for _, b := range a.Blocks {
			found = append(found, string(b.Text))
		}
		if !a.More {
			break
		}
		q.Cursor = a.Cursor
	}
	if got := strings.Join(found, "\n") + "\n"; got != numbered(1, 20) {
		t.Errorf("%q", found)
	}
	if a := r.ask(wire.LogQuestion{Grep: ".", Tail: 3}); !strings.Contains(a.err, "took longer than") {
		t.Errorf("the last lines are %q: %s", a.lines, a.err)
	}
}
