package sqldb

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"sync"

	"drover/internal/process"
)

// Dialect holds the parts of statements that differ between databases. It must not be copied after the first Spell.
type Dialect struct {
	// Lists are the tables that a statement makes of a parameter, which is a JSON array. The key is the name, as in
	// "texts(?1)"; the value is the SQL, with %s for the parameter. All tables have a column key, the place in the
	// array, from 0.
	//
	//	texts    value, a text
	//	numbers  value, a whole number
	//	pairs    a and b, whole numbers, of an array of pairs
	//	names    a and b, texts, of an array of pairs
	//	triples  a, b and c, texts, of an array of triples
	Lists map[string]string
	// Rewrite converts the rest of a statement to the dialect: the parameters, and hints that only SQLite understands.
	// It may be nil.
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
	// Numbers is a SELECT of the number of a new task, and of the first numbers of its requests and items. The task
	// owns as many numbers after each of these as it may need.
	Numbers string
	// LockLanes prevents other writers, until the transaction ends, from ending or adding items of the hosts in the
	// list numbers(?). It is empty if there is only one writer at a time.
	LockLanes string
	// Clock is a SELECT of the database's time, in Unix nanoseconds. It is empty if only this process has the database
	// open; then its own time counts.
	Clock string
	// Origin works as store.Facts.Origin.
	Origin func(ctx context.Context, b Backend) (origin, run string, err error)

	spelt sync.Map // string → string
}

// Spell returns a statement in the form of the database. It translates each distinct statement once.
func (d *Dialect) Spell(statement string) string {
	if known, ok := d.spelt.Load(statement); ok {
		return known.(string)
	}
	list := regexp.MustCompile(`\b(texts|numbers|pairs|names|triples)\((\?[0-9]*)\)`)
	spelt := list.ReplaceAllStringFunc(statement, func(call string) string {
		parts := list.FindStringSubmatch(call)
		return fmt.Sprintf(d.Lists[parts[1]], parts[2])
	})
	if d.Rewrite != nil {
		spelt = d.Rewrite(spelt)
	}
	d.spelt.Store(statement, spelt)
	return spelt
}

// Texts returns texts as the parameter of texts(?).
func (d *Dialect) Texts(texts []string) string {
	stored := make([]string, len(texts))
	for i, s := range texts {
		stored[i] = d.text(s)
	}
	return Array(stored)
}

// Patterns returns patterns of drover as the parameter of texts(?).
func (d *Dialect) Patterns(patterns []string) string {
	theirs := make([]string, len(patterns))
	for i, p := range patterns {
		theirs[i] = d.Pattern(p)
	}
	return d.Texts(theirs)
}

// Names returns ids as the parameter of names(?).
func (d *Dialect) Names(ids []process.ID) string {
	names := make([][2]string, len(ids))
	for i, id := range ids {
		names[i] = [2]string{id.Namespace, id.Name}
	}
	return d.Pairs(names)
}

// Pairs returns pairs of texts as the parameter of names(?).
func (d *Dialect) Pairs(pairs [][2]string) string {
	stored := make([][2]string, len(pairs))
	for i, p := range pairs {
		stored[i] = [2]string{d.text(p[0]), d.text(p[1])}
	}
	return Array(stored)
}

// Triples returns triples of texts as the parameter of triples(?).
func (d *Dialect) Triples(triples [][3]string) string {
	stored := make([][3]string, len(triples))
	for i, t := range triples {
		for n, s := range t {
			stored[i][n] = d.text(s)
		}
	}
	return Array(stored)
}

func (d *Dialect) text(s string) string {
	if d.Text == nil {
		return s
	}
	return d.Text(s)
}

// Array returns a list as the parameter of numbers(?) or pairs(?).
func Array[T int | int64 | string | [2]int64 | [2]string | [3]string](list []T) string {
	if len(list) == 0 {
		return "[]"
	}
	text, _ := json.Marshal(list) // JSON can encode every number and text
	return string(text)
}
