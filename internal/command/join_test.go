package command_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"drover/internal/command"
	"drover/internal/joining"
)

func TestToken(t *testing.T) {
	for given, want := range map[string]string{"abc": "abc", "-": "from.the.pipe"} {
		if got, err := command.Token(given, strings.NewReader(" from.the.pipe\n")); got != want || err != nil {
			t.Errorf("%q is %q, %v, want %q", given, got, err, want)
		}
	}
}

func TestNotJoined(t *testing.T) {
	other := errors.New("disk on fire")
	for err, want := range map[error]int{
		&joining.DeniedError{Status: http.StatusForbidden}:            command.Denied,
		&joining.DeniedError{Status: http.StatusConflict}:             command.Failed,
		fmt.Errorf("late: %w", &joining.UnreachableError{Err: other}): command.Unreachable,
	} {
		exit, ok := errors.AsType[*command.ExitError](command.NotJoined(err))
		if !ok || exit.Code != want || !errors.Is(exit, err) {
			t.Errorf("%v: %+v, want exit code %d", err, exit, want)
		}
	}
	if got := command.NotJoined(other); got != other { //nolint:errorlint // it comes back as it is
		t.Errorf("%v became %v", other, got)
	}
}
