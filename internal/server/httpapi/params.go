package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"unicode/utf8"

	"drover/internal/gse"
)

// byteOrderMark is the start of the files of some editors.
const byteOrderMark = "\ufeff"

// The limits of a form. Large calls use JSON.
const (
	largestForm = 4 << 20
	mostFields  = 1000
)

// readParams returns the parameters of a request as a JSON object. A body that begins with a brace is JSON, whatever
// its Content-Type; any other body is a form. A GET without a body has its parameters in the query.
func readParams(body []byte, method string, query url.Values) ([]byte, error) {
	body = bytes.TrimLeft(body, " \t\r\n")
	switch {
	case len(body) > 0 && body[0] == '{':
		return checkJSON(body)
	case bytes.HasPrefix(body, []byte(byteOrderMark)):
		return nil, refusef(badRequest, "Request JSON string is wrong in format, it begins with a byte order mark")
	case len(body) > 0 && (body[0] == '[' || gse.Check(body) == nil):
		return nil, refusef(badRequest, "Request JSON string is wrong in format, it is not an object")
	case len(body) > 0:
		if len(body) > largestForm || bytes.Count(body, []byte{'&'}) >= mostFields {
			return nil,
				refusef(badRequest, "Request body is a form that is too large: expected at most %d fields and %d MB",
					mostFields, largestForm>>20)
		}
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return nil, refusef(badRequest, "Request body is neither a JSON object nor a form")
		}
		return fromForm(form)
	case method == http.MethodGet:
		return fromForm(query)
	default:
		return []byte("{}"), nil
	}
}

// checkJSON rejects a body that is not one JSON text in UTF-8: a name with broken characters would be another name in
// every reply.
func checkJSON(body []byte) ([]byte, error) {
	if !utf8.Valid(body) {
		return nil, refusef(badRequest, "Request JSON string is wrong in format, it is not valid UTF-8")
	}
	if err := gse.Check(body); err != nil {
		return nil, wrongFormat(err)
	}
	return body, nil
}

// wrongFormat is the refusal of a body that is not JSON.
func wrongFormat(err error) error {
	return misread(badRequest, "Request JSON string is wrong in format, ", err)
}

// misread is the refusal of an unreadable body. The text of err, after the text before, has a translation.
func misread(k kind, before string, err error) error {
	if m, ok := errors.AsType[*gse.Misread](err); ok {
		return refusef(k, before+m.Format, m.Args...)
	}
	return refusef(k, before+"%v", err)
}

// fromForm converts a form to a JSON object. Values are strings, except a value that is a JSON object or list.
func fromForm(form url.Values) ([]byte, error) {
	object := make(map[string]any, len(form))
	for name, values := range form {
		text := values[len(values)-1]
		if !utf8.ValidString(name) || !utf8.ValidString(text) {
			return nil, refusef(badRequest, "Request parameters are not valid UTF-8")
		}
		object[name] = text
		if text != "" && (text[0] == '{' || text[0] == '[') && json.Valid([]byte(text)) {
			object[name] = json.RawMessage(text)
		}
	}
	params, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("cannot encode parameters: %w", err)
	}
	return params, nil
}
