package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"drover/internal/command"
	"drover/internal/config/proxyconfig"
	"drover/internal/config/serverconfig"
)

func newConfig() *cobra.Command {
	return noun("config", "Look at the configuration of a server or a proxy", "Look at the configuration of a server or a proxy.", newConfigCheck())
}

// checked are settings that a file may hold.
type checked interface {
	ReadFile(path string) error
	Validate() error
}

func newConfigCheck() *cobra.Command {
	var role string
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Say everything that is wrong with a file of settings",
		Long: `Say everything that is wrong with a file of settings of 'drover server', or with --role proxy of 'drover proxy', and nothing when it is
right. The environment is left out. The exit code is 1 when something is wrong.`,
		Example: `  drover config check /etc/drover/server.yaml
  drover config check --role proxy /etc/drover/proxy.yaml`,
		Args: exactly("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := oneOf("--role", role, "server", "proxy"); err != nil {
				return err
			}
			server, proxy := serverconfig.Default(), proxyconfig.Default()
			var cfg checked = &server
			if role == "proxy" {
				cfg = &proxy
			}
			err := cfg.ReadFile(args[0])
			if err == nil {
				err = cfg.Validate()
			}
			if err != nil {
				return &command.ExitError{Code: command.Failed, Err: fmt.Errorf("%s is not right:\n%w", args[0], err)}
			}
			say(cmd, "%s is right\n", args[0])
			if role == "server" {
				for _, remark := range server.Remarks() {
					say(cmd, "note: %s\n", remark)
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&role, "role", "server", "whose settings they are: server or proxy")
	complete(cmd, "role", "server", "proxy")
	return cmd
}
