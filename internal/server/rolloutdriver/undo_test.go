package rolloutdriver_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/gate"
	"drover/internal/server/rollout"
	"drover/internal/server/store"
)

// undoer undoes rollouts for a driver: it refuses, fails, or has the rollout ended.
type undoer struct {
	*rig
	asked           []string
	refuses, denies string
	fails           error
}

func (u *undoer) Acting(_ context.Context, app, user string) (access.Principal, error) {
	if u.denies != "" {
		return access.Principal{}, &gate.Refusal{Reason: gate.UserDisabled}
	}
	return access.Principal{App: app, User: user}, nil
}

func (u *undoer) UndoFailed(ctx context.Context, who access.Principal, id string) (string, error) {
	u.asked = append(u.asked, who.App+"/"+who.User+" "+id)
	if u.refuses != "" || u.fails != nil {
		return u.refuses, u.fails
	}
	_, err := u.ChangeRollout(ctx, id, "", store.RolloutChange{At: u.now}, (*rollout.Rollout).Abort)
	return "", err
}

// undone is a rig whose rollout is to be undone: one of two hosts under way has failed, and the other one is to end.
func undone(t *testing.T) (*rig, *undoer) {
	t.Helper()
	r := newRig(t, v1.RolloutPlan{Batch: v1.HostCount{Number: 1}, UndoOnFailure: true}, "a", "b")
	u := &undoer{rig: r}
	r.driver.Undoer, r.driver.Rights = u, u
	r.step()
	if len(u.asked) > 0 {
		t.Errorf("before a failure the driver undoes %q", u.asked)
	}
	r.end(process.Failed, process.StateStopped, 0)
	return r, u
}

// TestUndoByItself: the driver undoes a failed rollout once, as its person, also after an attempt that did not decide.
func TestUndoByItself(t *testing.T) {
	r, u := undone(t)
	r.wants(r.step(), rollout.Paused, 0, rollout.Failed, rollout.Waiting)
	u.fails = errors.New("the database is away")
	if err := r.driver.Step(t.Context(), r.id); !errors.Is(err, u.fails) {
		t.Errorf("an attempt that failed gives %v", err)
	}
	u.fails = nil
	r.wants(r.step(), rollout.Aborted, 0, rollout.Failed, rollout.Skipped)
	r.step()
	if got := strings.Join(u.asked, ", "); got != "app/anna ro, app/anna ro" {
		t.Errorf("the driver has asked for the undo of %q", got)
	}
}

// TestRefusedUndoWithNothingLeft: a rollout whose undo is refused does not stay open if no host waits.
func TestRefusedUndoWithNothingLeft(t *testing.T) {
	r := newRig(t, v1.RolloutPlan{Batch: v1.HostCount{Number: 2}, UndoOnFailure: true}, "a", "b")
	u := &undoer{rig: r, refuses: "1 process has changed"}
	r.driver.Undoer, r.driver.Rights = u, u
	r.step()
	r.end(process.Failed, process.StateStopped, 0)
	for range 3 { // as the driver does: as long as the rollout is open
		open, _, err := r.OpenRollouts(t.Context(), r.now)
		r.must(err)
		if len(open) == 0 {
			break
		}
		r.step()
	}
	ro, err := r.GetRollout(t.Context(), r.id, "")
	r.must(err)
	r.wants(ro, rollout.Done, 0, rollout.Failed, rollout.Failed)
	if !strings.HasSuffix(ro.Reason, "it was not undone: 1 process has changed") {
		t.Errorf("the rollout says %q", ro.Reason)
	}
}

// TestUndoByItselfThatIsRefused: the rollout stays paused, says why, and the driver does not ask again.
func TestUndoByItselfThatIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ refuses, denies, want string }{
		"by the API":            {refuses: "1 process has changed", want: "it was not undone: 1 process has changed"},
		"for want of any right": {denies: "yes", want: "it was not undone: anna may do nothing any more"},
	} {
		t.Run(name, func(t *testing.T) {
			r, u := undone(t)
			r.step()
			u.refuses, u.denies = c.refuses, c.denies
			r.step()
			asked := len(u.asked)
			ro := r.step()
			if r.wants(ro, rollout.Paused, 0, rollout.Failed, rollout.Waiting); !strings.HasSuffix(ro.Reason, c.want) {
				t.Errorf("the rollout says %q, want %q", ro.Reason, c.want)
			}
			if len(u.asked) != asked {
				t.Error("the driver asks again")
			}
		})
	}
}
