package logs_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"drover/internal/agent/trail"
	"drover/internal/wire"
)

// TestLogFile: a file, or the newest file in a directory, by pieces; a file that takes its place is read from its begin.
func TestLogFile(t *testing.T) {
	r := newRig(t)
	dir := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	old := put("a.log", "old\n")
	if err := os.Chtimes(old, time.Time{}, time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	path := put("b.log", "one\ntwo\nthree\nhalf")
	ask := func(q wire.LogQuestion, at string) (lines []string, a wire.LogAnswer) {
		a = r.AnswerFile(t.Context(), q, at, trail.Plain)
		for _, b := range a.Blocks {
			lines = append(lines, strings.Split(string(b.Text), "\n")...)
		}
		return lines, a
	}
	for _, c := range []struct {
		q    wire.LogQuestion
		want string
	}{
		{wire.LogQuestion{}, "one,two,three,half"},
		{wire.LogQuestion{Tail: 2}, "three,half"},
		{wire.LogQuestion{Grep: "^t"}, "two,three"},
		{wire.LogQuestion{Grep: "^t", Tail: 1}, "three"},
		{wire.LogQuestion{Follow: true}, "one,two,three"},
		{wire.LogQuestion{Follow: true, New: true}, ""},
	} {
		if got, a := ask(c.q, dir); a.Error != "" || strings.Join(got, ",") != c.want {
			t.Errorf("%+v: %q %q", c.q, got, a.Error)
		}
	}
	_, a := ask(wire.LogQuestion{Follow: true}, dir)
	if got, _ := ask(wire.LogQuestion{Follow: true, Cursor: a.Cursor}, dir); len(got) != 0 {
		t.Errorf("the end brings %q", got)
	}
	put("b.log", "one\ntwo\nthree\nhalf a line\n")
	got, a := ask(wire.LogQuestion{Follow: true, Cursor: a.Cursor}, dir)
	if !slices.Equal(got, []string{"half a line"}) {
		t.Errorf("then come %q", got)
	}
	if err := os.Rename(path, filepath.Join(dir, "b.log.1")); err != nil {
		t.Fatal(err)
	}
	put("b.log", "new\n")
	if got, _ := ask(wire.LogQuestion{Follow: true, Cursor: a.Cursor}, path); !slices.Equal(got, []string{"new"}) {
		t.Errorf("of the new file come %q", got)
	}
	for _, q := range []wire.LogQuestion{{Run: -1}, {Since: 5}, {Cursor: "x"}, {Cursor: "1:-1"}, {Grep: "("}} {
		if _, a := ask(q, dir); a.Error == "" {
			t.Errorf("%+v is answered", q)
		}
	}
	refused := errors.New("refused by the policy of this host")
	a = r.AnswerFile(t.Context(), wire.LogQuestion{}, dir, func(string, func(*trail.Trail) error) error { return refused })
	if !strings.Contains(a.Error, refused.Error()) {
		t.Errorf("the policy refuses, and it is answered %+v", a)
	}
}

// TestLogFileThatIsMissing: drover says so, and a reader that follows it gets the file when it comes.
func TestLogFileThatIsMissing(t *testing.T) {
	r := newRig(t)
	path := filepath.Join(t.TempDir(), "missing")
	want := "the log_file " + path + " does not exist"
	q := wire.LogQuestion{}
	if a := r.AnswerFile(t.Context(), q, path, trail.Plain); a.Error != want || a.Cursor != "" {
		t.Errorf("there comes %+v", a)
	}
	q.Follow = true
	a := r.AnswerFile(t.Context(), q, path, trail.Plain)
	if q.Cursor = a.Cursor; a.Error != want || a.Cursor == "" {
		t.Errorf("to a follower comes %+v", a)
	}
	if a := r.AnswerFile(t.Context(), q, path, trail.Plain); a.Error != "" || a.Cursor != "" || a.More {
		t.Errorf("then comes %+v", a)
	}
	if err := os.WriteFile(path, []byte("new\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if a := r.AnswerFile(t.Context(), q, path, trail.Plain); len(a.Blocks) != 1 || string(a.Blocks[0].Text) != "new" {
		t.Errorf("at last comes %+v", a)
	}
}

// follower follows a log file.
type follower struct {
	*rig
	q    wire.LogQuestion
	path string
}

// rest returns the lines, and the errors in brackets, until there are no more.
func (f *follower) rest() string {
	var got []string
	for {
		a := f.AnswerFile(f.t.Context(), f.q, f.path, trail.Plain)
		for _, b := range a.Blocks {
			got = append(got, string(b.Text))
		}
		if a.Error != "" {
			got = append(got, "["+strings.TrimPrefix(a.Error, "the log_file "+f.path+" was ")+"]")
		}
		if a.Cursor != "" {
			f.q.Cursor = a.Cursor
		}
		if !a.More {
			return strings.ReplaceAll(strings.Join(got, "\n"), "\n", ",")
		}
	}
}

// TestLogFileThatIsRotated: a follower reads the old file to its end before the new one, or says that lines may be
// missing.
func TestLogFileThatIsRotated(t *testing.T) {
	f := &follower{rig: newRig(t), q: wire.LogQuestion{Follow: true}, path: filepath.Join(t.TempDir(), "a.log")}
	add := func(name, text string) {
		t.Helper()
		file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err == nil {
			_, err = file.WriteString(text)
			_ = file.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	check := func(when, want string) {
		t.Helper()
		if got := f.rest(); got != want {
			t.Errorf("%s comes %q, want %q", when, got, want)
		}
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	old := filepath.Join(filepath.Dir(f.path), "old")
	add(f.path, "1\n2\n")
	check("first", "1,2")
	add(f.path, "3\n")
	do(os.Rename(f.path, old))
	check("without a new file", "3")
	add(old, "4\n")
	add(f.path, "")
	check("with an empty new file", "4")
	add(old, "5")
	add(f.path, "6\n")
	check("with a new file", "5,6")
	add(f.path, "7\n")
	do(os.Rename(f.path, filepath.Join(t.TempDir(), "elsewhere")))
	check("without any file", "")
	add(f.path, "8\n")
	check("with another file", "[replaced: lines may be missing],8")
	do(os.Truncate(f.path, 0))
	check("after the truncation", "[truncated: lines may be missing]")
	add(f.path, "9\n")
	check("at last", "9")
}

// TestLineWithoutAnEndInALogFile: a follower gets it when it has waited, although it goes on growing.
func TestLineWithoutAnEndInALogFile(t *testing.T) {
	f := &follower{rig: newRig(t), q: wire.LogQuestion{Follow: true}, path: filepath.Join(t.TempDir(), "a.log")}
	if err := os.WriteFile(f.path, []byte("one\npart"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := f.rest(); got != "one" {
		t.Errorf("first comes %q", got)
	}
	if got := f.rest(); got != "" {
		t.Errorf("then comes %q", got)
	}
	i := strings.LastIndex(f.q.Cursor, ":")
	seen, err := strconv.ParseInt(f.q.Cursor[i+1:], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	f.q.Cursor = f.q.Cursor[:i+1] + strconv.FormatInt(seen-3000, 10)
	if got := f.rest(); got != "part" {
		t.Errorf("after three seconds comes %q", got)
	}
}
