package sqlstore

import (
	"encoding/json"
	"fmt"
	"regexp"
	"sync"

	"drover/internal/process"
)

// Dialect holds the parts of statements that differ between databases.
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
	// Match compares a text with a pattern, as in "name GLOB ?". Pattern converts a pattern of drover, in which *
	// matches any text and ? one character, to a pattern of the database.
	Match   string
	Pattern func(string) string
	// Text converts a text for a list; nil leaves it unchanged.
	Text func(string) string
	// Locked and Skipping end a SELECT whose rows the transaction will change: other writers wait for the rows, or skip
	// them. Both are empty if there is only one writer at a time.
	Locked, Skipping string
	// Numbers is a SELECT of the number of a new task, and of the first numbers of its requests and items. After each
	// of these, the task has as many numbers as it may need, and nobody else gets them.
	Numbers string
	// LockLanes prevents other writers, until the transaction ends, from ending or adding items of the hosts in the
	// list numbers(?). It is empty if there is only one writer at a time.
	LockLanes string
	// Clock is a SELECT of the database's time, in Unix nanoseconds. It is empty if only this process has the database
	// open; then its own time counts.
	Clock string
}

// Speller translates statements into a dialect, each distinct statement once. Its zero value is not usable.
type Speller struct {
	dialect *Dialect
	known   sync.Map // string → string
}

// NewSpeller returns a Speller for a dialect.
func NewSpeller(d *Dialect) *Speller { return &Speller{dialect: d} }

// Dialect returns the dialect of the Speller.
func (s *Speller) Dialect() *Dialect { return s.dialect }

// Spell returns a statement in the form of the database.
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
