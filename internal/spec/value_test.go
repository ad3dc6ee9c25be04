package spec_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"drover/internal/spec"
)

// TestValues: each value has one text, and one JSON, that is read as the same value; other spellings mean the same.
func TestValues(t *testing.T) {
	checkValue(t, map[string]spec.Duration{
		`"0s"`: 0, `"500ms"`: spec.Duration(500 * time.Millisecond), `"1h30m"`: spec.Duration(90 * time.Minute),
		`"30d"`: spec.Duration(720 * time.Hour), `"1d1h1.5s"`: spec.Duration(25*time.Hour + 1500*time.Millisecond), `"32767d"`: spec.Duration(32767 * 24 * time.Hour),
	}, `"32768d"`, `"1"`, `"-1s"`, `"1us"`, `""`, `"d"`, `"1d2d"`)
	checkValue(t, map[string]spec.Size{`0`: 0, `1000`: 1000, `"512KiB"`: 512 << 10, `"2GiB"`: 2 << 30, `"3TiB"`: 3 << 40},
		`-1`, `"1MB"`, `"9000000TiB"`, `1.5`)
	checkValue(t, map[string]spec.LimitSize{`0`: 0, `"64MiB"`: 64 << 20, `"infinity"`: spec.Unlimited}, `-1`, `"x"`)
	checkValue(t, map[string]spec.LimitNumber{`0`: 0, `65536`: 65536, `"infinity"`: spec.Unlimited}, `-1`, `"1KiB"`)
	checkValue(t, map[string]spec.Percent{`"0%"`: 0, `"80.5%"`: 80.5, `"150%"`: 150}, `-1`, `"NaN"`, `"inf%"`, `"x"`)
	checkValue(t, map[string]spec.Count{`0`: 0, `9`: 9, `"never"`: spec.NeverGiveUp}, `-1`, `"always"`)
	checkValue(t, map[string]spec.HostCount{`0`: {}, `20`: {Number: 20}, `"10%"`: {Percent: 10}}, `-1`, `"101%"`, `1000001`)
	checkValue(t, map[string]spec.Status{`0`: "0", `255`: "255", `"TERM"`: "TERM", `"RTMIN+3"`: "RTMIN+3"}, `256`, `"X"`, `-1`)
	checkValue(t, map[string]spec.StopSignal{
		`"KILL"`: {Signal: "KILL"}, `"TERM 10s"`: {Signal: "TERM", Wait: spec.Duration(10 * time.Second)},
	}, `"X"`, `"TERM x"`, `"TERM 1"`)
	checkValue(t, map[string]spec.Reload{`"kill -HUP 1"`: {Command: "kill -HUP 1"}, `{"signal":"HUP"}`: {Signal: "HUP"}},
		`{"signal":"X"}`, `{}`, `[1]`)
	for text, want := range map[string]spec.Size{`"1024"`: 1024, `"1 KiB"`: 1024} {
		var got spec.Size
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s is %d, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{"sigterm": "TERM", "IOT": "ABRT", "SIGPOLL": "IO", "cld": "CHLD", "RTMIN+16": "RTMAX-14"} {
		if got, err := spec.SignalName(text); err != nil || got != want {
			t.Errorf("%s is %s, %v", text, got, err)
		}
	}
}

// checkValue checks what the JSON texts are read as, and that they are written so; none of the others must be read.
func checkValue[T comparable](t *testing.T, values map[string]T, others ...string) {
	t.Helper()
	for text, want := range values {
		var got T
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s is %v, %v, want %v", text, got, err, want)
		}
		if written, err := json.Marshal(want); err != nil || string(written) != text {
			t.Errorf("%v is written as %s, %v, want %s", want, written, err, text)
		}
	}
	for _, text := range others {
		var got T
		if json.Unmarshal([]byte(text), &got) == nil {
			t.Errorf("%s is read as %v", text, got)
		}
	}
}

func TestHostsAsJSON(t *testing.T) {
	for text, want := range map[string]spec.Hosts{
		`["a","b"]`:           {Names: []string{"a", "b"}},
		`{"select":"a=b"}`:    {Select: "a=b"},
		`{"select":"\u0041"}`: {Select: "A"},
	} {
		var h spec.Hosts
		if err := json.Unmarshal([]byte(text), &h); err != nil || h.Select != want.Select || len(h.Names) != len(want.Names) {
			t.Errorf("%s: %+v, %v", text, h, err)
		}
		if out, err := json.Marshal(h); err != nil || strings.Contains(text, "u0041") == (string(out) == text) {
			t.Errorf("%s is written as %s, %v", text, out, err)
		}
	}
	for _, text := range []string{`"a"`, `{"select":1}`, `{"x":"y"}`, `[1]`} {
		var h spec.Hosts
		if json.Unmarshal([]byte(text), &h) == nil {
			t.Errorf("%s is read as %+v", text, h)
		}
	}
}
