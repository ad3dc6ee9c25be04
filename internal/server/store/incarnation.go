package store

import (
	"encoding/json"
	"fmt"
)

// FactIncarnations is the fact that has the incarnations of the database, in the form of EncodeIncarnations.
const FactIncarnations = "incarnations"

// Incarnation is the time of a database from its creation, or from its restoration from a copy, to the next one. What
// servers and agents know of a database counts in one incarnation only.
type Incarnation struct {
	// ID is random.
	ID string `json:"id"`
	// Origin is Facts.Origin of the database.
	Origin string `json:"origin"`
	// Began is when the servers noticed the restoration, and Known the last moment of which the copy knows anything, in
	// Unix milliseconds. Both are 0 for the first incarnation.
	Began int64 `json:"began,omitempty"`
	Known int64 `json:"known,omitempty"`
}

// FirstRevision is less than every number of a revision that is made in the incarnation, and not less than any that was
// given out before: the time in Unix seconds at which it began.
func (i Incarnation) FirstRevision() int64 { return i.Began / 1000 }

// EncodeIncarnations returns the text of a list of incarnations, oldest first.
func EncodeIncarnations(all []Incarnation) string {
	text, _ := json.Marshal(all) // texts and numbers always encode
	return string(text)
}

// ReadIncarnations reads the text of a list, which must not be empty.
func ReadIncarnations(text string) ([]Incarnation, error) {
	var all []Incarnation
	if err := json.Unmarshal([]byte(text), &all); err != nil || len(all) == 0 {
		return nil, fmt.Errorf("cannot read the incarnations of the database in %.100q", text)
	}
	return all, nil
}
