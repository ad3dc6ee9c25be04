// Package agentcli is the command line of drover-agent. It links neither a database nor a broker.
package agentcli

import (
	"github.com/spf13/cobra"

	"drover/internal/command"
)

// NewRoot returns the whole command line.
func NewRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "drover-agent",
		Short: "Supervise the processes of one host",
		Args:  cobra.ArbitraryArgs,
		RunE:  command.Subcommands,
	}
	version := command.NewVersion()
	version.Short = "Print the version of this binary"
	root.AddCommand(newJoin(), newRun(), newConfig(), newPolicy(), newFacts(), newShutdown(), version)
	return root
}
