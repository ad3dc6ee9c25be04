package past_test

import (
	"testing"

	"drover/internal/process"
	"drover/internal/server/past"
)

// TestAt walks the cases of one moment: what is known, what is not, and what did not exist. Random histories over real
// databases are in storetest.
func TestAt(t *testing.T) {
	running := process.Shown{State: process.StateRunning, PID: 7, RegisteredAt: 1}
	record := &past.Record{Cursor: 5, At: 50_000, Shown: running}
	gone := &past.Record{Cursor: 5, At: 50_000, Shown: process.Shown{Gone: true}}
	run := func(change func(*past.Run)) *past.Run {
		r := &past.Run{Began: 40_000, Last: 90_000, Former: 30_000, Oldest: 10_000}
		if change != nil {
			change(r)
		}
		return r
	}
	known := past.State{Exists: true, Known: true, Shown: running}
	unknown := func(since int64, why past.Why) past.State {
		return past.State{Exists: true, Shown: running, Since: since, Why: why}
	}
	restarted := func(r *past.Run) { r.Began, r.Former, r.Last = 80_000, 60_000, 200_000 }
	cutShort := func(r *past.Run) { r.Began, r.Former, r.Last = 80_000, 60_000, 89_999 }
	lossy := func(since, cursor int64) func(*past.Run) {
		return func(r *past.Run) { r.Gap, r.FirstGap = past.Gap{Cursor: cursor, Since: since}, cursor }
	}
	registered := &past.Record{Cursor: 9, At: 70_500, Shown: process.Shown{State: process.StateStopped, RegisteredAt: 70}}
	for name, tt := range map[string]struct {
		moment        int64
		before, later *past.Record
		run           *past.Run
		want          past.State
	}{
		"in its run":                        {60_000, record, nil, run(nil), known},
		"at the last word":                  {90_000, record, nil, run(nil), known},
		"after the last word":               {90_001, record, nil, run(nil), unknown(90_000, past.NotHeard)},
		"no run is kept":                    {60_000, record, nil, nil, unknown(0, past.NotKept)},
		"the agent has just started":        {80_001, record, nil, run(restarted), unknown(60_000, past.Starting)},
		"the agent has started without it":  {90_000, record, nil, run(restarted), past.State{}},
		"the agent has told a part only":    {90_000, record, nil, run(cutShort), unknown(60_000, past.NotHeard)},
		"removed":                           {60_000, gone, nil, run(nil), past.State{}},
		"removed, and the agent is away":    {99_000, gone, nil, run(nil), past.State{}},
		"removed, and then records went":    {60_000, gone, nil, run(lossy(55_000, 6)), past.State{Exists: true, Since: 55_000, Why: past.Lost}},
		"lost before it":                    {60_000, record, nil, run(lossy(45_000, 4)), known},
		"lost after it":                     {60_000, record, nil, run(lossy(55_000, 6)), unknown(55_000, past.Lost)},
		"lost around it":                    {60_000, record, nil, run(lossy(45_000, 6)), unknown(50_000, past.Lost)},
		"lost later":                        {54_000, record, nil, run(lossy(55_000, 6)), known},
		"nothing at all":                    {60_000, nil, nil, run(nil), past.State{Exists: true, Why: past.NotKept}},
		"before its registration":           {69_000, nil, registered, run(nil), past.State{}},
		"in the second of its registration": {70_400, nil, registered, run(nil), past.State{}},
		"its records were removed":          {72_000, nil, registered, run(nil), past.State{Exists: true, Why: past.NotKept}},
		"before what is kept":               {9_000, nil, registered, run(nil), past.State{Exists: true, Why: past.NotKept}},
		"a registration may be lost":        {69_000, nil, registered, run(lossy(95_000, 8)), past.State{Exists: true, Why: past.NotKept}},
		"a later loss":                      {69_000, nil, registered, run(lossy(95_000, 10)), past.State{}},
	} {
		if got := past.At(tt.moment, tt.before, tt.later, tt.run); got != tt.want {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
}
