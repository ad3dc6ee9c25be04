// Package cli is the command line of drover. Each command has a file of its own and is listed in NewRoot.
package cli

import (
	"github.com/spf13/cobra"

	"drover/internal/command"
)

// NewRoot returns the whole command line.
func NewRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "drover",
		Short: "Run and watch processes on a fleet of hosts",
		Long: `drover runs and watches processes on a fleet of hosts. It speaks the process APIs of BlueKing GSE and JOB.

Exit codes: 0 done, 1 failed, 2 wrong usage.`,
		Args: cobra.ArbitraryArgs,
		RunE: command.Subcommands,
	}
	root.AddCommand(
		newDev(),
		command.NewVersion(),
	)
	return root
}
