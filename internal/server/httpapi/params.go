package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"unicode/utf8"

	"drover/internal/gse"
)

// readParams returns the parameters of a request as a JSON object. A body that begins with a brace is JSON whatever its
// Content-Type says; any other is a form. A GET without a body has its parameters in the query.
func readParams(body []byte, method string, query url.Values) ([]byte, error) {
	body = bytes.TrimLeft(body, " \t\r\n")
	switch {
	case len(body) > 0 && body[0] == '{':
		return checkJSON(body)
	case len(body) > 0:
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

// checkJSON refuses a body that is not one JSON text in UTF-8: a name with broken characters would be another name in
// every reply.
func checkJSON(body []byte) ([]byte, error) {
	if !utf8.Valid(body) {
		return nil, refusef(badRequest, "Request JSON string is wrong in format, it is not valid UTF-8")
	}
	if gse.Valid(body) {
		return body, nil
	}
	// Only for the words: where it breaks off.
	var v json.RawMessage
	return nil, refusef(badRequest, "Request JSON string is wrong in format, %v", json.Unmarshal(body, &v))
}

// fromForm turns a form into the object that a JSON body would have been: the values are strings, but one that is itself
// an object or a list counts as such.
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
