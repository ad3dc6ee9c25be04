package call

import (
	"slices"
	"time"

	v1 "drover/api/v1"
)

// SearchTime is how long a call searches for matching events before it returns the events it has.
const SearchTime = 500 * time.Millisecond

// The sizes of a page.
const (
	DefaultPage = 100
	MaxPage     = 1000
)

// Behind returns the elements of an ordered list that lie behind a place. before reports whether the place lies before
// an element.
func Behind[T any](list []T, before func(T) bool) []T {
	if i := slices.IndexFunc(list, before); i >= 0 {
		return list[i:]
	}
	return nil
}

// PageOf returns a page of a list. last is the place of the last item, for the cursor of the next page; nil if no page
// follows.
func PageOf[T any](c *Call, items []T, last any) v1.Page[T] {
	if items == nil {
		items = []T{}
	}
	p := v1.Page[T]{Items: items}
	if last != nil {
		p.NextCursor = c.Params.cursors.seal(c.Params.listed, last)
	}
	return p
}

// Viewed applies view to each row.
func Viewed[T, V any](rows []T, view func(T) V) []V {
	views := make([]V, len(rows))
	for i, row := range rows {
		views[i] = view(row)
	}
	return views
}

// PageOfRows returns the page of the rows. If there are fewer rows than limit, it is the last page. place returns the
// place of a row.
func PageOfRows[T, V any](c *Call, rows []T, limit int, view func(T) V, place func(T) any) v1.Page[V] {
	if len(rows) < limit {
		return PageOf(c, Viewed(rows, view), nil)
	}
	return PageOf(c, Viewed(rows, view), place(rows[len(rows)-1]))
}
