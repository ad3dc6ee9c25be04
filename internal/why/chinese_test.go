package why_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover/internal/process"
	"drover/internal/why"
	"drover/internal/words"
)

// TestCommandsOfChinesePages: a person copies the same commands from both pages of a cause.
func TestCommandsOfChinesePages(t *testing.T) {
	block, inline := regexp.MustCompile("(?ms)^```\n.*?^```\n"), regexp.MustCompile("`[^`]+`")
	space := regexp.MustCompile(`\s+`)
	read := func(path string) (blocks, code []string) {
		data, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range inline.FindAllString(block.ReplaceAllString(string(data), ""), -1) {
			code = append(code, space.ReplaceAllString(c, " "))
		}
		slices.Sort(code)
		return block.FindAllString(string(data), -1), slices.Compact(code)
	}
	for _, e := range why.Entries() {
		blocks, code := read(e.Page())
		chinese, chineseCode := read(filepath.Join("docs", "zh", "why", string(e.ID)+".md"))
		if d := cmp.Diff(blocks, chinese); d != "" {
			t.Errorf("blocks of %s (-English +Chinese):\n%s", e.ID, d)
		}
		if d := cmp.Diff(code, chineseCode); d != "" {
			t.Errorf("words of programs in %s (-English +Chinese):\n%s", e.ID, d)
		}
	}
}

// TestJudgementsInChinese: a person who reads Chinese reads no English sentence of the server.
func TestJudgementsInChinese(t *testing.T) {
	whole := func(text string) {
		t.Helper()
		if chinese, ok := words.Sentence(text, words.Chinese); !ok {
			t.Errorf("%q stays %q", text, chinese)
		}
	}
	older := running()
	older.ReportedAt = 0
	for _, f := range []why.Facts{
		{},
		{Status: running()},
		{Agent: away(time.Hour), Status: running()},
		{Agent: why.Agent{Joined: true, Away: true, Since: now()}, Status: older},
		{Agent: away(time.Hour), Operations: []why.Operation{waiting(time.Hour)}},
		{Agent: here()},
		{Agent: here(), Status: running()},
		{Agent: here(), Status: nobodys(running())},
		{Agent: here(), Status: nobodys(down("stopped", process.CauseStopped))},
		{Agent: here(), Operations: []why.Operation{waiting(time.Hour), waiting(time.Minute)}},
		{Agent: here(), Operations: []why.Operation{begun(time.Hour), waiting(time.Minute)}},
		{Agent: here(), Status: down("given-up", "x"), Operations: []why.Operation{waiting(0)}},
		{Agent: here(), Status: down("stopped", "x"), Operations: []why.Operation{begun(time.Hour), waiting(time.Minute)}},
		{Agent: here(), Status: down("backoff", "x")},
		{Agent: here(), Status: down("starting", "x")},
		{Agent: here(), Status: down("stopping", "x")},
		{Agent: here(), Status: down("operating", "x")},
		{Agent: here(), Status: down("scheduled", "x")},
		{Agent: here(), Status: down("finished", "x")},
		{Agent: here(), Status: down("stopped", "x")},
	} {
		f.Now, f.Host, f.Process = now(), "h1", process.ID{Namespace: "web", Name: "nginx"}
		v := why.Open().Judge(f)
		whole(v.Impact)
		if v.Cause.Text != "so it is" {
			whole(v.Cause.Text)
		}
		for _, e := range v.Cause.Evidence {
			whole(e)
		}
	}
}
