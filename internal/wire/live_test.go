package wire_test

import (
	"encoding/json"
	"strings"
	"testing"

	"drover/internal/process"
	"drover/internal/wire"
)

// TestLiveAnswersAreBounded: a server believes no more than it has asked for, and shows no control characters.
func TestLiveAnswersAreBounded(t *testing.T) {
	a, b := process.ID{Namespace: "shop", Name: "a"}, process.ID{Namespace: "shop", Name: "b"}
	q := wire.LiveQuestion{Processes: []process.ID{a}}
	one := func(id process.ID, fields ...process.LiveField) wire.LiveProcess {
		return wire.LiveProcess{Process: id, PID: 7, Fields: fields}
	}
	for name, c := range map[string]struct {
		answer wire.LiveAnswer
		good   bool
	}{
		"no process":      {wire.LiveAnswer{}, true},
		"a process":       {wire.LiveAnswer{Processes: []wire.LiveProcess{one(a, process.LiveField{Path: "user"})}}, true},
		"most fields":     {wire.LiveAnswer{Processes: []wire.LiveProcess{one(a, make([]process.LiveField, wire.MaxLiveFields)...)}}, true},
		"too many fields": {wire.LiveAnswer{Processes: []wire.LiveProcess{one(a, make([]process.LiveField, wire.MaxLiveFields+1)...)}}, false},
		"too many files":  {wire.LiveAnswer{Processes: []wire.LiveProcess{{Process: a, Config: make([]process.Drift, wire.MaxLiveFields+1)}}}, false},
		"another process": {wire.LiveAnswer{Processes: []wire.LiveProcess{one(b)}}, false},
		"twice":           {wire.LiveAnswer{Processes: []wire.LiveProcess{one(a), one(a)}}, false},
		"too large":       {wire.LiveAnswer{Error: strings.Repeat("x", 2<<20)}, false},
	} {
		data, err := json.Marshal(c.answer)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := wire.ReadLiveAnswer(data, q); (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := wire.ReadLiveAnswer([]byte("{"), q); err == nil {
		t.Error("half a value is read")
	}
	evil := "\x1b[31m\u202e" + strings.Repeat("é", 1000)
	evilOne := one(a, process.LiveField{Path: evil, Want: evil, Have: evil, Problem: evil})
	evilOne.Config = []process.Drift{{Path: evil, Want: evil, Have: evil, Problem: evil}}
	data, err := json.Marshal(wire.LiveAnswer{Error: evil, Processes: []wire.LiveProcess{evilOne}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := wire.ReadLiveAnswer(data, q)
	if err != nil {
		t.Fatal(err)
	}
	f, file := got.Processes[0].Fields[0], got.Processes[0].Config[0]
	for _, text := range []string{
		got.Error, f.Path, f.Want, f.Have, f.Problem, file.Path, file.Want, file.Have, file.Problem,
	} {
		if len(text) > 310 || strings.ContainsAny(text, "\x1b\u202e") || !strings.HasPrefix(text, "?[31m?é") {
			t.Errorf("a text arrives as %q", text)
		}
	}
}
