package reports

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"drover/internal/wire"
)

// TestAgentsThatTellTooMuch wait for their turn, not too many of them, and keep nobody else waiting.
func TestAgentsThatTellTooMuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, heavy := newLimiter(), bytes.Repeat([]byte("{"), shareOfReports/1024)
		let := make(chan bool, 1000)
		tell := func(agent string, known bool) {
			over, ok := r.admit(t.Context(), agent, known, heavy)
			let <- ok
			if ok {
				<-t.Context().Done()
				over()
			}
		}
		count := func() (in, out int) {
			synctest.Wait()
			for len(let) > 0 {
				if <-let {
					in++
				} else {
					out++
				}
			}
			return in, out
		}
		const many = waitInTurn + 100
		for n := range many {
			over, ok := r.admit(t.Context(), fmt.Sprint(n), true, heavy)
			if !ok {
				t.Fatal("the first heavy one is not let in")
			}
			over()
			go tell(fmt.Sprint(n), true)
		}
		in, out := count()
		if in != cap(r.slots) || out != many-cap(r.slots)-waitInTurn {
			t.Errorf("%d are let in and %d are not", in, out)
		}
		go tell("somebody else", true)
		if in, _ := count(); in != 1 {
			t.Error("who has told little has to wait")
		}
		for n := range 3 {
			go tell(fmt.Sprint("made up ", n), false)
		}
		if in, out := count(); in != 1 || out != 2 {
			t.Errorf("%d agents that are not known are let in, %d are not", in, out)
		}
		time.Sleep(maxAdmissionWait)
		if in, out := count(); in != 0 || out != waitInTurn {
			t.Errorf("later %d are let in, and %d have waited in vain", in, out)
		}
	})
}

// TestReportsShareTheirRoom: beyond it the next wait, and not for longer than their agents do.
func TestReportsShareTheirRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, heavy := newLimiter(), bytes.Repeat([]byte("{"), shareOfReports/1024)
		fit := int(reportMemory / wire.Weight(heavy))
		var last func()
		for n := range fit {
			var ok bool
			if last, ok = r.admit(t.Context(), fmt.Sprint(n), true, heavy); !ok {
				t.Fatalf("there is no room for the %d. of %d", n+1, fit)
			}
		}
		let := make(chan bool, 2)
		next := func() {
			_, ok := r.admit(t.Context(), fmt.Sprint("next ", rand.Text()), true, heavy)
			let <- ok
		}
		go next()
		synctest.Wait()
		if len(let) > 0 {
			t.Fatal("there is room for more than there is")
		}
		last()
		if !<-let {
			t.Error("the room that was left is not given to the next")
		}
		begun := time.Now()
		next()
		if <-let || time.Since(begun) != maxAdmissionWait {
			t.Errorf("one has waited for %s", time.Since(begun))
		}
	})
}
