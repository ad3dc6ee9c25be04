package remote_test

import (
	"errors"
	"fmt"
	"testing"

	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/command"
)

// TestExitOf: no answer, and an answer that says that the server cannot answer now, end a command in one way.
func TestExitOf(t *testing.T) {
	away := &client.UnreachableError{Server: "s", Err: &client.Error{Status: 503}}
	for want, errs := range map[int][]error{
		command.Unreachable: {away, fmt.Errorf("cannot start: %w", away), &client.UnreachableError{Server: "s", Err: errors.New("refused")}},
		command.Failed:      {&client.Error{Status: 500}, &client.Error{Status: 507}},
		command.Denied:      {&client.Error{Status: 401}, &client.Error{Status: 403}},
		command.NoSuch:      {&client.Error{Status: 404}},
		command.Usage:       {&client.Error{Status: 400}, &client.Error{Status: 422}},
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
