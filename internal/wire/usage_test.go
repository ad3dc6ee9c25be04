package wire_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"drover/internal/process"
	"drover/internal/wire"
)

// TestUsageAnswersAreBounded: a server believes no figures that no machine has, and no more steps than the window has.
func TestUsageAnswersAreBounded(t *testing.T) {
	q := wire.UsageQuestion{Process: process.ID{Namespace: "shop", Name: "a"}, Seconds: 900}
	all := make([]wire.UsageStep, 180)
	for i := range all {
		all[i] = wire.UsageStep{Before: 179 - i, CPU: 99.99, Memory: 1 << 40, Files: 1_000_000, Restarted: true}
	}
	steps := func(steps ...wire.UsageStep) wire.UsageAnswer { return wire.UsageAnswer{End: 1, Steps: steps} }
	for name, c := range map[string]struct {
		answer wire.UsageAnswer
		good   bool
	}{
		"no steps":         {wire.UsageAnswer{End: 7}, true},
		"an error":         {wire.UsageAnswer{Error: "no"}, true},
		"all steps":        {steps(all...), true},
		"zero":             {steps(wire.UsageStep{}), true},
		"without an end":   {wire.UsageAnswer{Steps: all[:1]}, false},
		"too old":          {steps(wire.UsageStep{Before: 180}), false},
		"in the future":    {steps(wire.UsageStep{Before: -1}), false},
		"not in order":     {steps(wire.UsageStep{Before: 1}, wire.UsageStep{Before: 2}), false},
		"twice":            {steps(wire.UsageStep{Before: 1}, wire.UsageStep{Before: 1}), false},
		"CPU below 0":      {steps(wire.UsageStep{CPU: -0.01}), false},
		"CPU above 100":    {steps(wire.UsageStep{CPU: 100.01}), false},
		"memory below 0":   {steps(wire.UsageStep{Memory: -1}), false},
		"all memory":       {steps(wire.UsageStep{Memory: math.MaxInt64}), false},
		"files below 0":    {steps(wire.UsageStep{Files: -1}), false},
		"too many files":   {steps(wire.UsageStep{Files: math.MaxInt}), false},
		"end below 0":      {wire.UsageAnswer{End: -1}, false},
		"end of the world": {wire.UsageAnswer{End: math.MaxInt64, Steps: all[:1]}, false},
		"too large":        {wire.UsageAnswer{Error: strings.Repeat("x", 100<<10)}, false},
	} {
		data, err := json.Marshal(c.answer)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := wire.ReadUsageAnswer(data, q); (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, text := range []string{"{", "[]", `{"steps":[{"c":1e999}]}`, `{"steps":` + strings.Repeat("[", 5000)} {
		if _, err := wire.ReadUsageAnswer([]byte(text), q); err == nil {
			t.Errorf("%.40s is read", text)
		}
	}
	a, err := wire.ReadUsageAnswer([]byte(`{"error":"\u001b[31m\u202e"}`), q)
	if err != nil || a.Error != "?[31m?" {
		t.Errorf("a text arrives as %q, %v", a.Error, err)
	}
}
