package sqlstore

import (
	"encoding/json"
	"fmt"
	"regexp"
	"sync"

	"drover/internal/process"
)

// Dialect is how a database says what others say differently.
type Dialect struct {
	// Lists are the tables that a statement makes of a parameter, which is a JSON array: what stands for the name, as
	// in "texts(?1)", with %s where the parameter goes. All have a column key, the place in the array from 0 on.
	//
	//	texts    value, a text
	//	numbers  value, a whole number
	//	pairs    a and b, whole numbers, of an array of pairs
	//	names    a and b, texts, of an array of pairs
	Lists map[string]string
	// Rewrite, unless it is nil, puts the rest of a statement into the dialect: parameters, and what serves SQLite
	// alone.
	Rewrite func(statement string) string
	// Match compares a text with a pattern, as in "name GLOB ?"; Pattern turns a pattern of ours, in which * is any
	// text and ? any one character, into one for it.
	Match   string
	Pattern func(string) string
	// Text is what a text is in a list; nil where it is itself.
	Text func(string) string
	// Locked and Skipping end a SELECT whose rows the transaction will change: other writers wait for them, or leave
	// them out. Both are empty where there is one writer at a time.
	Locked, Skipping string
	// Numbers is a SELECT of the numbers of a new task, and of the first of its requests and of its items. As many as a
	// task may have follow it that no other gets.
	Numbers string
	// LockLanes keeps other writers, until the transaction ends, from ending or adding items of the hosts in the list
	// numbers(?). It is empty where there is one writer at a time.
	LockLanes string
	// Clock is a SELECT of the database's time, in Unix nanoseconds; empty where that is the time of this process,
	// which is the only one that has the database open.
	Clock string
}

// Speller puts statements into a dialect, each distinct one once. Its zero value is not usable.
type Speller struct {
	dialect *Dialect
	known   sync.Map // string → string
}

// NewSpeller returns a Speller for a dialect.
func NewSpeller(d *Dialect) *Speller { return &Speller{dialect: d} }

// Dialect returns the one that it was made for.
func (s *Speller) Dialect() *Dialect { return s.dialect }

// Spell returns a statement as the database takes it.
func (s *Speller) Spell(statement string) string {
	if known, ok := s.known.Load(statement); ok {
		return known.(string)
	}
	spelt := s.dialect.spell(statement)
	s.known.Store(statement, spelt)
	return spelt
}

func (d *Dialect) spell(statement string) string {
	list := regexp.MustCompile(`\b(texts|numbers|pairs|names)\((\?[0-9]*)\)`)
	statement = list.ReplaceAllStringFunc(statement, func(call string) string {
		parts := list.FindStringSubmatch(call)
		return fmt.Sprintf(d.Lists[parts[1]], parts[2])
	})
	if d.Rewrite != nil {
		statement = d.Rewrite(statement)
	}
	return statement
}

// list is texts as the parameter of texts(?).
func (d *Dialect) list(texts []string) (string, error) {
	stored := make([]string, len(texts))
	for i, s := range texts {
		stored[i] = d.text(s)
	}
	list, err := json.Marshal(stored)
	return string(list), err
}

func (d *Dialect) text(s string) string {
	if d.Text == nil {
		return s
	}
	return d.Text(s)
}

// names is ids as the parameter of names(?).
func (d *Dialect) names(ids []process.ID) (string, error) {
	list := make([][2]string, len(ids))
	for i, id := range ids {
		list[i] = [2]string{d.text(id.Namespace), d.text(id.Name)}
	}
	names, err := json.Marshal(list)
	return string(names), err
}

// patterns is the parameter of texts(?) for patterns of ours.
func (d *Dialect) patterns(patterns []string) (string, error) {
	theirs := make([]string, len(patterns))
	for i, p := range patterns {
		theirs[i] = d.Pattern(p)
	}
	return d.list(theirs)
}
