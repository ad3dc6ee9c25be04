package v1

import "strings"

// Problem is a rejection by the server, in the form of RFC 9457. It is an error.
type Problem struct {
	// Type is about:blank: Status says all that a program needs.
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	// Fields names the invalid fields of the request, if they are known.
	Fields []FieldError `json:"errors,omitempty"`
	// RequestID identifies the call in the audit log and in the server's log.
	RequestID string `json:"request_id"`
}

// FieldError is an error in one field of a request: "targets[0].name" in a body, or the name of a parameter.
type FieldError struct {
	Field  string `json:"field"`
	Detail string `json:"detail"`
}

// Error returns the text for an operator.
func (e *Problem) Error() string {
	text := e.Detail
	if text == "" {
		text = e.Title
	}
	for _, f := range e.Fields {
		if named := f.Field + ": " + f.Detail; f.Detail != e.Detail && !strings.Contains(text, named) {
			text += "; " + named
		}
	}
	return text
}
