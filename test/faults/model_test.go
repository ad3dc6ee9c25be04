package faults_test

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// actual is one process as a caller can know it.
type actual struct{ hosted, running bool }

// The operations of the model; crash is what the test does to the process behind drover's back.
const (
	opStart   = 0
	opStop    = 1
	opQuery   = 2
	opHost    = 3
	opUnhost  = 4
	opRestart = 7
	opReload  = 8
	opKill    = 9
	opCrash   = -1
)

// answer is what a caller was told.
type answer struct {
	known   bool // else the call was never answered, and may have been carried out or not
	code    int
	hosted  bool // of a query
	running bool
	text    string
}

// processModel says which answers are explainable, one operation after another. A hosted process that is down may come up at any
// moment; nothing else happens by itself.
func processModel() porcupine.Model {
	model := porcupine.NondeterministicModel{
		Init: func() []any { return []any{actual{}} },
		Step: func(state, input, output any) []any {
			var next []any
			for _, s := range relaunched(state.(actual)) {
				for _, after := range step(s, input.(int), output.(answer)) {
					next = append(next, after)
				}
			}
			return next
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("op %v: %+v", input, output) },
	}
	return model.ToModel()
}

func relaunched(s actual) []actual {
	if s.hosted && !s.running {
		return []actual{s, {hosted: true, running: true}}
	}
	return []actual{s}
}

// step returns what the process can be after an operation that was answered so; nothing where the answer cannot be explained.
func step(s actual, op int, a answer) []actual {
	if !a.known {
		return append(effect(s, op), append(failure(s), s)...)
	}
	switch a.code {
	case 0:
		if op == opQuery && (s.hosted != a.hosted || s.running != a.running) {
			return nil
		}
		return effect(s, op)
	case 117:
		return []actual{s}
	case 828:
		if op == opStart && s.running {
			return []actual{s}
		}
	case 829:
		if (op == opStop || op == opKill) && !s.running {
			return []actual{s}
		}
	case 836, 65535:
		return failure(s)
	}
	return nil
}

// effect is what a success does; nothing where there cannot be one.
func effect(s actual, op int) []actual {
	switch op {
	case opStart:
		if s.running {
			return nil
		}
		return []actual{{hosted: true, running: true}}
	case opRestart:
		return []actual{{hosted: true, running: true}}
	case opReload:
		if !s.running {
			return nil
		}
		return []actual{s}
	case opStop, opKill:
		if !s.running {
			return nil
		}
		return []actual{{}}
	case opHost:
		return []actual{{hosted: true, running: s.running}}
	case opUnhost:
		return []actual{{running: s.running}}
	case opCrash:
		if !s.running {
			return nil
		}
		return []actual{{hosted: s.hosted}}
	default:
		return []actual{s}
	}
}

// failure leaves the flag alone; the process may be there or not.
func failure(s actual) []actual {
	return []actual{{hosted: s.hosted}, {hosted: s.hosted, running: true}}
}
