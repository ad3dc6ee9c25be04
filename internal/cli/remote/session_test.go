package remote_test

import (
	"errors"
	"fmt"
	"testing"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/command"
)

// TestExitOf: no answer, and an answer that says that the server cannot answer now, end a command in one way.
func TestExitOf(t *testing.T) {
	away := &client.UnreachableError{Server: "s", Err: &v1.Problem{Status: 503}}
	for want, errs := range map[int][]error{
		command.Unreachable: {away, fmt.Errorf("cannot start: %w", away), &client.UnreachableError{Server: "s", Err: errors.New("refused")}},
		command.Failed:      {&v1.Problem{Status: 500}, &v1.Problem{Status: 507}},
		command.Denied:      {&v1.Problem{Status: 401}, &v1.Problem{Status: 403}},
		command.NoSuch:      {&v1.Problem{Status: 404}},
		command.Usage:       {&v1.Problem{Status: 400}, &v1.Problem{Status: 422}},
	} {
		for _, err := range errs {
			exit, ok := errors.AsType[*command.ExitError](remote.ExitOf(err))
			if !ok || exit.Code != want {
				t.Errorf("%v ends with %+v, want %d", err, exit, want)
			}
		}
	}
	if other := errors.New("another"); !errors.Is(remote.ExitOf(other), other) {
		t.Error("another error has changed")
	}
}
