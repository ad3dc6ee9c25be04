package server

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// TestOneReportOfAnAgentAtATime: what an agent sends beside it has no place, and others have.
func TestOneReportOfAnAgentAtATime(t *testing.T) {
	r := newReports()
	over, ok := r.begin(0, "one")
	if !ok {
		t.Fatal("the first one is not let in")
	}
	if _, ok := r.begin(0, "one"); ok {
		t.Error("a second one is let in")
	}
	if _, ok := r.begin(0, "two"); !ok {
		t.Error("another agent's is not let in")
	}
	if _, ok := r.begin(3, "one"); !ok {
		t.Error("what a proxy of another area makes up takes the place of the agent's own")
	}
	over()
	if _, ok := r.begin(0, "one"); !ok {
		t.Error("the next one is not let in")
	}
}

// TestReportsShareTheirRoom: what is heavy waits for it, and finds none where others hold it for too long.
func TestReportsShareTheirRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReports()
		heavy := bytes.Repeat([]byte("{"), roomOfReports/1024)
		first, err := r.enter(t.Context(), heavy)
		if err != nil {
			t.Fatal(err)
		}
		waiting := make(chan error, 1)
		go func() {
			leave, err := r.enter(t.Context(), heavy)
			if err == nil {
				leave()
			}
			waiting <- err
		}()
		synctest.Wait()
		select {
		case err := <-waiting:
			t.Fatalf("a second one does not wait: %v", err)
		default:
		}
		first()
		if err := <-waiting; err != nil {
			t.Errorf("it is not let in: %v", err)
		}
		// One that is too heavy for the room takes all of it, and is refused when it is read.
		bomb := bytes.Repeat([]byte("{"), roomOfReports)
		leave, err := r.enter(t.Context(), bomb)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.enter(t.Context(), []byte("{}")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without room it got %v", err)
		}
		leave()
		if leave, err = r.enter(t.Context(), []byte("{}")); err != nil {
			t.Errorf("with room it got %v", err)
		}
		leave()
	})
}
