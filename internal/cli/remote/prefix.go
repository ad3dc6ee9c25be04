package remote

import (
	"errors"
	"iter"
	"net/http"
	"strings"

	v1 "drover/api/v1"
	"drover/internal/cli/term"
)

// NotFound reports whether the server does not know a thing.
func NotFound(err error) bool {
	refusal, ok := errors.AsType[*v1.Problem](err)
	return ok && refusal.Status == http.StatusNotFound
}

// Each yields the things of a list that is read in one piece, as lists of the client do. It reads the list when the
// first is wanted.
func Each[T any](read func() ([]T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		list, err := read()
		if err != nil {
			var none T
			yield(none, err)
			return
		}
		for _, one := range list {
			if !yield(one, nil) {
				return
			}
		}
	}
}

// ByPrefix makes a call about the thing with an id. If the server knows no such id, ByPrefix calls again with the only
// id of a list that begins so. It fails if there are several, or if the list fails.
func ByPrefix[T, R any](begun string, call func(id string) (R, error), list iter.Seq2[T, error], id func(T) string,
) (R, error) {
	result, err := call(begun)
	if !NotFound(err) {
		return result, err
	}
	switch whole, listErr := wholeID(begun, list, id); {
	case listErr != nil:
		return result, listErr
	case whole == "":
		return result, err
	default:
		return call(whole)
	}
}

// wholeID returns the only id of a list that begins so, and an empty text if there is none. It fails if there are
// several.
func wholeID[T any](begun string, list iter.Seq2[T, error], id func(T) string) (string, error) {
	var found []string
	for one, err := range list {
		if err != nil {
			return "", err
		}
		if whole := id(one); begun != "" && strings.HasPrefix(whole, begun) {
			found = append(found, whole)
		}
	}
	switch len(found) {
	case 0:
		return "", nil
	case 1:
		return found[0], nil
	}
	return "", term.Usagef("%q matches %d ids, such as %s and %s: give more of the id", begun, len(found), found[0],
		found[1])
}
