package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"drover/internal/command"
	"drover/internal/config/serverconfig"
)

func newConfig() *cobra.Command {
	return noun("config", "Look at the configuration of a server", "Look at the configuration of a server.", newConfigCheck())
}

func newConfigCheck() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Say everything that is wrong with a file of settings",
		Long: `Say everything that is wrong with a file of settings of 'drover server', and nothing when it is right. The environment is left out.
The exit code is 1 when something is wrong.`,
		Example: `  drover config check /etc/drover/server.yaml`,
		Args:    exactly("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg := serverconfig.Default()
			err := cfg.ReadFile(args[0])
			if err == nil {
				err = cfg.Validate()
			}
			if err != nil {
				return &command.ExitError{Code: command.Failed, Err: fmt.Errorf("%s is not right:\n%w", args[0], err)}
			}
			say(cmd, "%s is right\n", args[0])
			return nil
		},
	}
}
