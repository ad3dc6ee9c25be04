package servers

import (
	"fmt"

	"github.com/spf13/cobra"

	"drover/internal/cli/term"
	"drover/internal/command"
	"drover/internal/config/proxyconfig"
	"drover/internal/config/serverconfig"
	"drover/internal/config/settings"
)

// NewConfig returns 'drover config'.
func NewConfig() *cobra.Command {
	return term.Noun("config", newConfigCheck())
}

// settingsFile is settings that a file can have.
type settingsFile interface {
	ReadFile(path string) error
	Validate() error
}

func newConfigCheck() *cobra.Command {
	var role string
	cmd := &cobra.Command{
		Use:  "check FILE",
		Args: term.Args,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := term.OneOf("--role", role, "server", "proxy"); err != nil {
				return err
			}
			server, proxy := serverconfig.Default(), proxyconfig.Default()
			var cfg settingsFile = &server
			if role == "proxy" {
				cfg = &proxy
			}
			if err := settings.Wrong(cfg.ReadFile(args[0]), cfg.Validate); err != nil {
				return &command.ExitError{Code: command.Failed, Err: fmt.Errorf("%s is not valid:\n%w", args[0], err)}
			}
			term.Say(cmd, "%s is valid\n", args[0])
			if role == "server" {
				for _, remark := range server.Remarks() {
					term.Say(cmd, "note: %s\n", remark)
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&role, "role", "server", "role that the file configures: server or proxy")
	term.Complete(cmd, "role", "server", "proxy")
	return cmd
}
