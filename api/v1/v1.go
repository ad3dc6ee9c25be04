// Package v1 is the contract of drover's own API, /api/v1: its routes, the JSON of requests and answers, and the words
// in them. The server writes these types, and the client reads them. The package imports nothing of drover.
// api/openapi.yaml says the same for programs in other languages.
package v1

// Prefix is the path above all routes.
const Prefix = "/api/v1"

// Page is one page of a list.
type Page[T any] struct {
	Items []T `json:"items"`
	// NextCursor leads to the next page; it is empty on the last page.
	NextCursor string `json:"next_cursor,omitempty"`
	// Total is the number of all items; nil unless the caller asked for it.
	Total *int `json:"total,omitempty"`
}

// EventPage is one page of the list of events.
type EventPage struct {
	Page[Event]
	// Last is the cursor of the last event that had arrived at the time of the call: a stream that begins after it
	// omits nothing.
	Last int64 `json:"last"`
}
