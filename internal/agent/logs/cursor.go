package logs

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// place is where a reader is in a stream. An open place has no end.
type place struct{ at, until int64 }

const open = -1

// cursor is where a reader is in a log.
type cursor [streams]place

// String is the cursor as readers keep it.
func (c cursor) String() string {
	words := make([]string, 0, streams)
	for _, p := range c {
		words = append(words, p.String())
	}
	return strings.Join(words, ",")
}

// String is the place as cursors have it.
func (p place) String() string {
	until := ""
	if p.until != open {
		until = strconv.FormatInt(p.until, 10)
	}
	return fmt.Sprintf("%d-%s", p.at, until)
}

var errCursor = errors.New("the cursor is not one of this log")

func parseCursor(text string) (c cursor, err error) {
	words := strings.Split(text, ",")
	if len(words) != streams {
		return c, errCursor
	}
	for i, word := range words {
		if c[i], err = parsePlace(word); err != nil {
			return c, err
		}
	}
	return c, nil
}

func parsePlace(word string) (p place, err error) {
	at, until, ok := strings.Cut(word, "-")
	if !ok {
		return p, errCursor
	}
	if p.at, err = offset(at); err != nil {
		return p, err
	}
	if p.until = open; until != "" {
		p.until, err = offset(until)
	}
	return p, err
}

func offset(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, errCursor
	}
	return n, nil
}
