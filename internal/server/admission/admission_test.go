package admission_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"drover/internal/server/admission"
)

// large is a body whose values take all the room that there is for one app.
func large() []byte { return bytes.Repeat([]byte("{},"), 1<<20) }

// TestNoAppHasAllTheRoom: who holds what his call was parsed into, because he does not read the answer, is in his own
// way only.
func TestNoAppHasAllTheRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := admission.New()
		leave, err := r.Parse(t.Context(), "slow", large())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Parse(t.Context(), "slow", large()); !errors.Is(err, admission.ErrFull) {
			t.Errorf("a second large call of the app: %v", err)
		}
		other, err := r.Parse(t.Context(), "other", large())
		if err != nil {
			t.Errorf("a call of another app: %v", err)
		} else {
			other()
		}
		leave()
		leave()
		if again, err := r.Parse(t.Context(), "slow", large()); err != nil {
			t.Errorf("afterwards: %v", err)
		} else {
			again()
		}
	})
}

// TestMemoryOfABodyIsReleasedOnce: it may be given back early, and then again.
func TestMemoryOfABodyIsReleasedOnce(t *testing.T) {
	r := admission.New()
	body := bytes.Repeat([]byte("x"), admission.MostKnown)
	for range 3 {
		for _, known := range []bool{true, false} {
			sent := body
			if !known {
				sent = body[:admission.MostStrange]
			}
			ctx, cancel := context.WithCancel(t.Context())
			req := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", io.NopCloser(bytes.NewReader(sent)))
			_, release, err := r.Body(ctx, httptest.NewRecorder(), req, known)
			if err != nil {
				t.Fatal(err)
			}
			release()
			release()
			cancel()
		}
	}
}

// TestKeptResultsNeverWait: one app has at most half of the room for results, and gets to know at once that it has no
// more.
func TestKeptResultsNeverWait(t *testing.T) {
	const most = 16 << 20
	r := admission.New()
	grow, release := r.Keep("slow")
	for size := int64(1); size <= most; size *= 2 {
		if !grow(size) {
			t.Fatalf("there is no room for %d bytes", size)
		}
	}
	if grow(2 * most) {
		t.Error("one app gets all the room")
	}
	again, releaseAgain := r.Keep("slow")
	if !again(64<<10) || again(1<<20) {
		t.Error("a second poll of the app finds other room than the first 64 KiB")
	}
	other, releaseOther := r.Keep("other")
	if !other(most) {
		t.Error("there is no room for another app")
	}
	third, releaseThird := r.Keep("third")
	if third(1 << 20) {
		t.Error("there is more room than for two apps")
	}
	release()
	release()
	if !again(most) {
		t.Error("released room is not free")
	}
	releaseAgain()
	releaseOther()
	releaseThird()
}

// TestTurns: there are 16 turns. A turn that ends twice makes place for one more caller only.
func TestTurns(t *testing.T) {
	const turns = 16
	r := admission.New()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	var releases []func()
	for range turns {
		release, err := r.Turn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		releases = append(releases, release)
	}
	if _, err := r.Turn(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("one turn too many: %v", err)
	}
	next := make(chan error, 1)
	go func() {
		_, err := r.Turn(t.Context())
		next <- err
	}()
	releases[0]()
	releases[0]()
	if err := <-next; err != nil {
		t.Error(err)
	}
	if _, err := r.Turn(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("a turn that ended twice made two places: %v", err)
	}
}
