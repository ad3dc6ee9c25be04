package agentcli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"drover/internal/command"
)

func newConfig() *cobra.Command {
	cmd := &cobra.Command{
		Use: "config", Short: "Check the settings of an agent", Args: cobra.ArbitraryArgs,
		RunE: command.Subcommands,
	}
	cmd.AddCommand(newConfigCheck())
	return cmd
}

func newConfigCheck() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Validate a configuration file and list every error",
		Long: `Validate a configuration file of 'drover-agent run' and list every error. For the
policy file, use 'drover-agent policy'.

If the file has an error, the exit code is 1.`,
		Example: `  drover-agent config check /etc/drover/agent.conf`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return &command.UsageError{Err: errors.New("expected one FILE")}
			}
			r := &runFlags{file: args[0]}
			told := &cobra.Command{}
			r.declare(told)
			if _, err := r.read(told); err != nil {
				text := fmt.Sprintf("%s is not valid:\n%v", args[0], err) // to find errors is no wrong use
				return &command.ExitError{Code: command.Failed, Err: errors.New(text)}
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s is valid\n", args[0])
			return err
		},
	}
}
