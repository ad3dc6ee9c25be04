package agentcli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"drover/internal/command"
)

func newConfig() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Look at the settings of an agent", Args: cobra.ArbitraryArgs, RunE: command.Subcommands}
	cmd.AddCommand(newConfigCheck())
	return cmd
}

func newConfigCheck() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Say everything that is wrong with a file of settings",
		Long: `Say everything that is wrong with a file of settings of 'drover-agent run'. What the host lets drover do is another file:
'drover-agent policy'.

The exit code is 1 when something is wrong.`,
		Example: `  drover-agent config check /etc/drover/agent.conf`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return &command.UsageError{Err: errors.New("expected one FILE")}
			}
			r := &running{file: args[0]}
			told := &cobra.Command{}
			r.declare(told)
			if _, err := r.read(told); err != nil {
				return &command.ExitError{Code: command.Failed, Err: fmt.Errorf("%s is not right: %w", args[0], err)}
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s is right\n", args[0])
			return err
		},
	}
}
