package lab

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
)

// Row measures one thing, with what its program measures all with.
type Row[B any] struct {
	// Name is what the row is chosen by.
	Name string
	// Measure adds to the report of the program.
	Measure func(B, context.Context) error
	// Always says that the row is measured whatever is chosen, because the others need what it leaves.
	Always bool
}

// Rows are those of a program, in the order in which they are measured.
type Rows[B any] []Row[B]

// String returns the names.
func (rows Rows[B]) String() string {
	var names []string
	for _, r := range rows {
		names = append(names, r.Name)
	}
	return strings.Join(names, ", ")
}

// Chosen returns the rows to measure for a list of names, as of the function of that name.
func (rows Rows[B]) Chosen(list string) Rows[B] {
	var chosen Rows[B]
	for _, r := range rows {
		if r.Always || Chosen(list, r.Name) {
			chosen = append(chosen, r)
		}
	}
	return chosen
}

// Run measures the row, and says on standard error that it does.
func (r Row[B]) Run(ctx context.Context, with B) error {
	fmt.Fprintf(os.Stderr, "%s measuring %s\n", time.Now().Format(time.TimeOnly), r.Name)
	if err := r.Measure(with, ctx); err != nil {
		return fmt.Errorf("%s: %w", r.Name, err)
	}
	return nil
}
