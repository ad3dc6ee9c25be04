package call

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"

	v1 "drover/api/v1"
	"drover/internal/server/admission"
)

const maxBody = 16 << 20

// Body reads the body, and waits until the memory for its parsed form is available.
func (c *Call) Body(ctx context.Context) ([]byte, error) {
	if !c.Principal.Admin && len(c.Principal.Grants) == 0 { // before it reads any input
		return nil, Problemf(http.StatusForbidden, "%s has no rights", c.Principal.Who())
	}
	if c.Request.ContentLength > maxBody {
		return nil, Problemf(http.StatusRequestEntityTooLarge, "the body is larger than %d MB", maxBody>>20)
	}
	c.Request.Body = http.MaxBytesReader(c.Response, c.Request.Body, maxBody)
	text, _, err := c.edge.Body(ctx, c.Call, c.Response, c.Request, true)
	if err == nil {
		err = c.edge.Parse(ctx, c.Call, text)
	}
	switch {
	case err == nil:
		return text, nil
	case errors.Is(err, admission.ErrFull):
		return nil, Busy(err.Error(), 5)
	case errors.Is(err, admission.ErrTooLarge):
		return nil, Problemf(http.StatusRequestEntityTooLarge, "the body is larger than %d MB", maxBody>>20)
	case errors.Is(err, admission.ErrTooSlow):
		return nil, Problemf(http.StatusRequestTimeout, "%v", err)
	}
	return nil, DecodeProblem(err)
}

// Decode reads the body of a call without parameters into v. It rejects an unknown field, which may be misspelt, and a
// repeated field, together with the faults that the checks find. Decode runs the checks only on such a rejection: the
// caller repeats them on a body that Decode accepts.
func (c *Call) Decode(ctx context.Context, v any, checks ...func() error) error {
	if err := c.Params.Done(); err != nil {
		return err
	}
	text, err := c.Body(ctx)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(v); err != nil {
		return Together(Exact(text, reflect.TypeOf(v)), unreadable(text, v, err, checks))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Problemf(http.StatusBadRequest, "the body has text after its JSON object")
	}
	err = Exact(text, reflect.TypeOf(v))
	for _, check := range checks {
		if err != nil {
			err = Together(err, check())
		}
	}
	return err
}

// DecodeProblem turns an error of encoding/json about a body into a problem.
func DecodeProblem(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return Invalid(wrong.Field, "is a JSON %s: expected %s", wrong.Value, expected(wrong.Type))
	}
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return Problemf(http.StatusRequestEntityTooLarge, "the body is larger than %d MB", large.Limit>>20)
	}
	_, malformed := errors.AsType[*json.SyntaxError](err)
	if _, typed := errors.AsType[*json.UnmarshalTypeError](err); malformed || typed ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return Problemf(http.StatusBadRequest, "the body is not a JSON object: %v", err)
	}
	return Problemf(http.StatusUnprocessableEntity, "a value of the body is not valid: %v", err) // says its own type
}

// expected describes the JSON that a field of a Go type accepts.
func expected(t reflect.Type) string {
	for t.Kind() == reflect.Pointer { // of a type with its own reader
		t = t.Elem()
	}
	if t == reflect.TypeFor[v1.Duration]() {
		return "a duration such as 60s"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8,
		reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.String:
		return "a string"
	default:
		return "an object"
	}
}

// List decodes at most one entry more than MaxItems, because decoded entries take more memory than their text.
type List[T any] []T

// UnmarshalJSON implements json.Unmarshaler. It keeps one entry more than MaxItems, so that validation sees that the
// list is too long. An empty list is not nil, as an absent one is.
func (l *List[T]) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	first, err := d.Token()
	if err != nil || first == nil {
		return err
	}
	if first != json.Delim('[') {
		var all []T
		return json.Unmarshal(text, &all) // json returns the error about the other type
	}
	for *l = (List[T]{}); d.More() && len(*l) <= MaxItems; {
		var one T
		if err := d.Decode(&one); err != nil {
			return err
		}
		*l = append(*l, one)
	}
	return nil
}
