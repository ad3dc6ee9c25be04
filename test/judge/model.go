// Package judge tries processes of drover at random and judges what its callers were told: for each process there must
// be one order of its operations that explains every Answer. It owns the model of a process, and the callers and
// crashes of a random run; what drover itself suffers meanwhile is the tests' that use it.
package judge

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// actual is one process as a caller can know it. asked says that a stop or kill of it has failed, and may still be why
// it ends.
type actual struct{ hosted, running, asked bool }

// The operations of the model, by the numbers that GSE gives them; Crash is what the test does to the process behind
// drover's back.
const (
	Start   = 0
	Stop    = 1
	Query   = 2
	Host    = 3
	Unhost  = 4
	Restart = 7
	Reload  = 8
	Kill    = 9
	Crash   = -1
)

// dying is the text of a Crash that has taken a while to end the process: what else ended it meanwhile has done so,
// too.
const dying = "dying"

// away is the code of an operation whose agent is not there.
const away = 117

// Answer is what a caller was told.
type Answer struct {
	Known   bool // else the call was never answered, and may have been carried out or not
	Code    int
	Hosted  bool // of a query
	Running bool
	Text    string
	// Beside says that another operation was under way during a query, which looks beside it: it may have seen the
	// middle of that.
	Beside bool
}

// model says which answers are explainable, one operation after another. A hosted process that is down may come up at
// any moment, and one that was asked to end may end and stay down; nothing else happens by itself.
func model(cut bool) porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{actual{}} },
		Step: func(state, input, output any) []any {
			var next []any
			for _, s := range relaunched(state.(actual)) {
				for _, after := range step(s, input.(int), output.(Answer).heard(cut)) {
					next = append(next, after)
				}
			}
			return next
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("op %v: %+v", input, output) },
	}
	return m.ToModel()
}

// heard is the answer without what it does not say: where links are cut, that an agent is away may be told long after
// it was sent the operation.
func (a Answer) heard(cut bool) Answer {
	if cut && a.Code == away {
		a.Known = false
	}
	return a
}

func relaunched(s actual) []actual {
	switch {
	case s.hosted && !s.running:
		return []actual{s, {hosted: true, running: true}}
	case s.running && s.asked:
		return []actual{s, {}}
	}
	return []actual{s}
}

// step returns what the process can be after an operation that was answered so; nothing where the Answer cannot be
// explained.
func step(s actual, op int, a Answer) []actual {
	if !a.Known {
		return append(effect(s, op), append(failure(s, op), s, actual{})...)
	}
	switch a.Code {
	case 0:
		if op == Crash && a.Text == dying && !s.running {
			return []actual{s}
		}
		if op == Query && (s.hosted != a.Hosted || s.running != a.Running && !a.Beside) {
			return nil
		}
		return effect(s, op)
	case away:
		return []actual{s}
	case 828:
		if op == Start && s.running {
			return []actual{s}
		}
	case 829:
		if (op == Stop || op == Kill) && !s.running {
			return []actual{{}}
		}
	case 836, 65535:
		return failure(s, op)
	}
	return nil
}

// effect is what a success does; nothing where there cannot be one.
func effect(s actual, op int) []actual {
	switch op {
	case Start:
		if s.running {
			return nil
		}
		return []actual{{hosted: true, running: true}}
	case Restart:
		return []actual{{hosted: true, running: true}}
	case Reload:
		if !s.running {
			return nil
		}
		return []actual{s}
	case Stop,
		Kill: // of one that is down, too: where its last run had left something, or an operation under way was ended
		return []actual{{}}
	case Host:
		return []actual{{hosted: true, running: s.running}}
	case Unhost: // whoever asks for that leaves it to its end
		return []actual{{running: s.running}}
	case Crash:
		if !s.running {
			return nil
		}
		if s.asked {
			return []actual{{hosted: s.hosted}, {}}
		}
		return []actual{{hosted: s.hosted}}
	default:
		return []actual{s}
	}
}

// failure leaves the flag alone; the process may be there or not. A stop that has failed takes the flag away where the
// process is gone.
func failure(s actual, op int) []actual {
	if op == Stop || op == Kill {
		return []actual{{}, {hosted: s.hosted}, {hosted: s.hosted, running: true, asked: true}}
	}
	return []actual{{hosted: s.hosted}, {hosted: s.hosted, running: true, asked: s.asked}}
}
