package instance

import (
	"errors"
	"fmt"

	"drover/internal/process"
)

// Child is a command at its gate.
type Child interface {
	Identity() Identity
	Release() error
	Abandon()
}

// ErrUnrecorded is wrapped by the error for a command that was not let run because that could not be put on record.
var ErrUnrecorded = errors.New("it is not on record")

// Unrecorded returns the error, in a caller's words, for a command that cannot be put on record.
func Unrecorded(err error) error {
	return fmt.Errorf("%w%w",
		process.Errorf(process.Failed, "the command was not run, because the agent cannot note it on its disk: %v",
			err), hiddenError{ErrUnrecorded})
}

// hiddenError wraps an error for errors.Is and adds no text.
type hiddenError struct{ error }

// Error returns nothing.
func (s hiddenError) Error() string { return "" }

// Unwrap returns the hidden error.
func (s hiddenError) Unwrap() error { return s.error }
