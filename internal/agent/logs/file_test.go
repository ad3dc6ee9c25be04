package logs_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
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
	if _, a := ask(wire.LogQuestion{}, filepath.Join(dir, "missing")); a.Error != "" || len(a.Blocks) > 0 {
		t.Errorf("a file that is not there is %+v", a)
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
