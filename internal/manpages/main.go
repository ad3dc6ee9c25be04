// Command manpages writes the manual pages of drover and drover-agent, a page for each command, from the texts that
// --help shows: manpages DIR writes DIR/drover/*.1 and DIR/drover-agent/*.1. SOURCE_DATE_EPOCH sets their date.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"drover/internal/agentcli"
	"drover/internal/cli"
	"drover/internal/cli/term"
	"drover/internal/words"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: manpages DIR")
		os.Exit(2)
	}
	drover := cli.NewRoot()
	term.DescribeAll(drover, words.English)
	for _, root := range []*cobra.Command{drover, agentcli.NewRoot()} {
		if err := write(root, filepath.Join(os.Args[1], root.Name())); err != nil {
			fmt.Fprintln(os.Stderr, "manpages:", err)
			os.Exit(1)
		}
	}
}

// write writes the pages of a command and of all commands below it.
func write(root *cobra.Command, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root.DisableAutoGenTag = true // it would be a second date
	keepTables(root)
	return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "drover", Manual: "drover"}, dir)
}

// keepTables makes the indented lines of the help texts blocks of Markdown, which the pages show as they are.
func keepTables(cmd *cobra.Command) {
	var text strings.Builder
	inTable := false
	for line := range strings.Lines(cmd.Long) {
		indented := strings.HasPrefix(line, "  ")
		if indented != inTable {
			text.WriteString("\n")
		}
		if inTable = indented; indented {
			text.WriteString("  ")
		}
		text.WriteString(line)
	}
	cmd.Long = text.String()
	for _, sub := range cmd.Commands() {
		keepTables(sub)
	}
}
