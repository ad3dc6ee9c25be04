package servers

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"drover/internal/cli/term"
	"drover/internal/command"
	"drover/internal/config"
	"drover/internal/config/settings"
	"drover/internal/proxy"
)

func newProxyJoin() *cobra.Command {
	var dir string
	var cfg proxy.JoinConfig
	cmd := &cobra.Command{
		Use:  "join --server URL --token TOKEN --name NAME --advertise HOST:PORT",
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if cfg.Token, err = command.Token(cfg.Token, cmd.InOrStdin()); err != nil {
				return err
			}
			cfg.Dir, cfg.Build = filepath.Join(dir, proxyDir), command.Build()
			e, err := proxy.Join(cmd.Context(), cfg)
			if err != nil {
				return command.NotJoined(err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(),
				"joined as %s, a proxy of area %d; start it with: drover proxy --data-dir %s\n", e.Name, e.Area, dir)
			return err
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.Server, "server", "", "URL of the server's API, such as https://drover.example.com:7350")
	flags.StringVar(&cfg.Token, "token", "", "the token; - reads the token from stdin")
	flags.StringVar(&cfg.Name, "name", "", "name of the proxy: lower-case letters, digits, dots and dashes")
	flags.StringVar(&cfg.Advertise, "advertise", "", "HOST:PORT by which the agents of the area reach this proxy")
	flags.StringVar(&dir, "data-dir", config.DataDir(), "directory for all stored data")
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(cmd *cobra.Command, _ []string) error {
		var faults []error
		for _, name := range []string{"server", "token", "name", "advertise"} {
			if !cmd.Flags().Changed(name) {
				faults = append(faults, term.Usagef("--%s is missing", name))
			}
		}
		if cfg.Advertise != "" {
			if err := settings.Advertised("advertise", cfg.Advertise, "10.1.0.2:7351"); err != nil {
				faults = append(faults, &command.UsageError{Err: err})
			}
		}
		return errors.Join(faults...)
	})
	return cmd
}
