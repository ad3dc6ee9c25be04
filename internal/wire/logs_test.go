package wire_test

import (
	"encoding/json"
	"strings"
	"testing"

	"drover/internal/wire"
)

// TestLogAnswersAreBounded: a server believes no more than an agent may send.
func TestLogAnswersAreBounded(t *testing.T) {
	const limit = 10_000
	text := func(n int) []byte { return []byte(strings.Repeat("x", n)) }
	blocks := func(n int) (all []wire.LogBlock) {
		for range n {
			all = append(all, wire.LogBlock{Stream: wire.StreamStdout, Text: []byte("x")})
		}
		return all
	}
	for name, c := range map[string]struct {
		answer wire.LogAnswer
		good   bool
	}{
		"a piece":        {wire.LogAnswer{Blocks: []wire.LogBlock{{Stream: wire.StreamStderr, Run: 1, Time: 5, Text: text(limit)}}, Cursor: "5-,0-"}, true},
		"nothing":        {wire.LogAnswer{}, true},
		"a loss":         {wire.LogAnswer{Blocks: []wire.LogBlock{{Stream: wire.StreamFile, Lost: 1 << 40}}}, true},
		"most blocks":    {wire.LogAnswer{Blocks: blocks(wire.MaxLogBlocks)}, true},
		"too much text":  {wire.LogAnswer{Blocks: []wire.LogBlock{{Stream: wire.StreamStdout, Text: text(limit + 1)}}}, false},
		"too many":       {wire.LogAnswer{Blocks: blocks(wire.MaxLogBlocks + 1)}, false},
		"other stream":   {wire.LogAnswer{Blocks: []wire.LogBlock{{Stream: "stdin"}}}, false},
		"negative loss":  {wire.LogAnswer{Blocks: []wire.LogBlock{{Stream: wire.StreamStdout, Lost: -1}}}, false},
		"negative run":   {wire.LogAnswer{Blocks: []wire.LogBlock{{Stream: wire.StreamStdout, Run: -1}}}, false},
		"negative time":  {wire.LogAnswer{Blocks: []wire.LogBlock{{Stream: wire.StreamStdout, Time: -1}}}, false},
		"long cursor":    {wire.LogAnswer{Cursor: strings.Repeat("1", 256)}, false},
		"cursor of ESC":  {wire.LogAnswer{Cursor: "1\x1b[2J"}, false},
		"long error":     {wire.LogAnswer{Error: strings.Repeat("e", 2000)}, false},
		"immense answer": {wire.LogAnswer{Blocks: []wire.LogBlock{{Stream: wire.StreamStdout, Text: text(4 << 20)}}}, false},
	} {
		data, err := json.Marshal(c.answer)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := wire.ReadLogAnswer(data, limit); (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := wire.ReadLogAnswer([]byte("{"), limit); err == nil {
		t.Error("half an answer is one")
	}
	if _, err := wire.ReadLogAnswer([]byte(`{"blocks":[`+strings.Repeat(`{},`, 150_000)+`{}]}`), 1<<20); err == nil {
		t.Error("an answer of a hundred thousand blocks is one")
	}
}
