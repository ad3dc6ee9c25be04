package judge

import (
	"testing"

	"github.com/anishathalye/porcupine"
)

// TestModel: the model of the random run accepts what can happen and refuses what must not, so that the run proves
// something.
func TestModel(t *testing.T) {
	done := func(code int) Answer { return Answer{Known: true, Code: code} }
	seen := func(hosted, running bool) Answer { return Answer{Known: true, Hosted: hosted, Running: running} }
	type event struct {
		op int
		a  Answer
	}
	for _, c := range []struct {
		name   string
		events []event
		ok     bool
		cut    bool
	}{
		{"start, stop", []event{
			{Start, done(0)},
			{Query, seen(true, true)},
			{Stop, done(0)},
			{Query, seen(false, false)},
		}, true, false},
		{"a second start succeeds", []event{{Start, done(0)}, {Start, done(0)}}, false, false},
		{
			"a crash, and then it is back",
			[]event{{Start, done(0)}, {Crash, done(0)}, {Query, seen(true, true)}},
			true,
			false,
		},
		{
			"a crash, and then a second start",
			[]event{{Start, done(0)}, {Crash, done(0)}, {Start, done(0)}},
			true,
			false,
		},
		{
			"it is back after a stop",
			[]event{{Start, done(0)}, {Stop, done(0)}, {Query, seen(false, true)}},
			false,
			false,
		},
		{
			"it is hosted after a stop",
			[]event{{Start, done(0)}, {Stop, done(0)}, {Query, seen(true, false)}},
			false,
			false,
		},
		{"it is gone without a crash", []event{{Start, done(0)}, {Query, seen(true, false)}}, false, false},
		{"it is back unhosted", []event{
			{Start, done(0)},
			{Unhost, done(0)},
			{Crash, done(0)},
			{Query, seen(false, true)},
		}, false, false},
		{"a failed stop ends it a little later", []event{
			{Start, done(0)},
			{Stop, done(836)},
			{Query, seen(true, true)},
			{Query, seen(false, false)},
		}, true, false},
		{"a failed stop takes the flag away from what runs", []event{
			{Start, done(0)},
			{Stop, done(836)},
			{Query, seen(false, true)},
		}, false, false},
		{"a refused stop takes it out of hosting", []event{
			{Start, done(0)},
			{Crash, done(0)},
			{Stop, done(829)},
			{Query, seen(false, false)},
		}, true, false},
		{"it is back after a refused stop", []event{
			{Start, done(0)},
			{Crash, done(0)},
			{Stop, done(829)},
			{Query, seen(true, true)},
		}, false, false},
		{
			"a query beside a start",
			[]event{{Query, Answer{Known: true, Running: true, Beside: true}}, {Start, done(0)}},
			true, false,
		},
		{"a query beside nothing", []event{{Query, seen(false, true)}, {Start, done(0)}}, false, false},
		{
			"a start that was not answered, then a start refused",
			[]event{{Start, Answer{}}, {Start, done(828)}},
			true,
			false,
		},
		{
			"a stop of what is not there succeeds, and it runs",
			[]event{{Stop, done(0)}, {Query, seen(false, true)}},
			false, false,
		},
		{
			"a start of an agent that was away, then it runs",
			[]event{{Start, done(away)}, {Query, seen(true, true)}},
			false, false,
		},
		{"the same where links are cut", []event{{Start, done(away)}, {Query, seen(true, true)}}, true, true},
	} {
		var history []porcupine.Operation
		for i, e := range c.events {
			history = append(history, porcupine.Operation{
				Input: e.op, Output: e.a, Call: int64(2 * i),
				Return: int64(2*i + 1),
			})
		}
		if ok := porcupine.CheckOperations(model(c.cut), history); ok != c.ok {
			t.Errorf("%s: explained %v, want %v", c.name, ok, c.ok)
		}
	}
}
