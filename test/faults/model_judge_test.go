package faults_test

import (
	"testing"

	"github.com/anishathalye/porcupine"
)

// TestModelJudges: the model of the random run accepts what can happen and refuses what must not, so that the run proves something.
func TestModelJudges(t *testing.T) {
	done := func(code int) answer { return answer{known: true, code: code} }
	seen := func(hosted, running bool) answer { return answer{known: true, hosted: hosted, running: running} }
	type event struct {
		op int
		a  answer
	}
	for _, c := range []struct {
		name   string
		events []event
		ok     bool
	}{
		{"start, stop", []event{{opStart, done(0)}, {opQuery, seen(true, true)}, {opStop, done(0)}, {opQuery, seen(false, false)}}, true},
		{"a second start succeeds", []event{{opStart, done(0)}, {opStart, done(0)}}, false},
		{"a crash, and then it is back", []event{{opStart, done(0)}, {opCrash, done(0)}, {opQuery, seen(true, true)}}, true},
		{"a crash, and then a second start", []event{{opStart, done(0)}, {opCrash, done(0)}, {opStart, done(0)}}, true},
		{"it is back after a stop", []event{{opStart, done(0)}, {opStop, done(0)}, {opQuery, seen(false, true)}}, false},
		{"it is hosted after a stop", []event{{opStart, done(0)}, {opStop, done(0)}, {opQuery, seen(true, false)}}, false},
		{"it is gone without a crash", []event{{opStart, done(0)}, {opQuery, seen(true, false)}}, false},
		{"it is back unhosted", []event{{opStart, done(0)}, {opUnhost, done(0)}, {opCrash, done(0)}, {opQuery, seen(false, true)}}, false},
		{"a failed stop takes the flag away", []event{{opStart, done(0)}, {opStop, done(836)}, {opQuery, seen(false, false)}}, false},
		{"a start that was not answered, then a start refused", []event{{opStart, answer{}}, {opStart, done(828)}}, true},
		{"a stop of what is not there succeeds", []event{{opStop, done(0)}}, false},
	} {
		var history []porcupine.Operation
		for i, e := range c.events {
			history = append(history, porcupine.Operation{Input: e.op, Output: e.a, Call: int64(2 * i), Return: int64(2*i + 1)})
		}
		if ok := porcupine.CheckOperations(processModel(), history); ok != c.ok {
			t.Errorf("%s: explained %v, want %v", c.name, ok, c.ok)
		}
	}
}
