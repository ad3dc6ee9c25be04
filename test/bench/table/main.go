// Command table prints the short tables of figures of the README, taken from the newest files of figures in
// bench/results: the one that compares drover with the floor and with other supervisors, the one that compares it with
// other fleet tools, and the one of a server with many agents. With -w it writes the table into the README, between the comments that mark it. It
// is run at the top of the repository.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	write := flag.Bool("w", false, "write the table into README.md")
	flag.Parse()
	if err := run(*write); err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(1)
	}
}

func run(write bool) error {
	block, err := block("bench/results")
	if err != nil {
		return err
	}
	if !write {
		_, err := os.Stdout.WriteString(block)
		return err
	}
	const name = "README.md"
	readme, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	before, _, after, err := cut(string(readme))
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", name, err)
	}
	return os.WriteFile(name, []byte(before+block+after), 0o644)
}
