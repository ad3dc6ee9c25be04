package command

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"drover/internal/joining"
)

// maxToken is far more than a token needs, in bytes.
const maxToken = 4096

// Token returns the token for a join command: the given text, or the contents of in if the text is "-".
func Token(given string, in io.Reader) (string, error) {
	if given != "-" {
		return given, nil
	}
	text, err := io.ReadAll(io.LimitReader(in, maxToken))
	if err != nil {
		return "", fmt.Errorf("cannot read the token: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// NotJoined gives an error of joining the exit code that its kind has.
func NotJoined(err error) error {
	if denied, ok := errors.AsType[*joining.DeniedError](err); ok {
		code := Failed
		if denied.Forbidden() {
			code = Denied
		}
		return &ExitError{Code: code, Err: err}
	}
	if _, ok := errors.AsType[*joining.UnreachableError](err); ok {
		return &ExitError{Code: Unreachable, Err: err}
	}
	return err
}
