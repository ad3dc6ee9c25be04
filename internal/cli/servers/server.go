// Package servers has the commands that run a server or a proxy on this host, or care for its files: server, proxy,
// dev, config and database.
package servers

import (
	"github.com/spf13/cobra"

	"drover/internal/command"
	"drover/internal/config/serverconfig"
	"drover/internal/serve"
	"drover/internal/service"
)

// NewServer returns 'drover server'.
func NewServer() *cobra.Command {
	given := serverconfig.Default() // the values of the flags
	var file string
	cmd := &cobra.Command{
		Use:  "server",
		Args: command.NoArgs,
	}
	command.Daemon(cmd, func(cmd *cobra.Command, s *service.Service) error {
		cfg, err := serverSettings(cmd, &given, file)
		if err != nil {
			return &command.UsageError{Err: err}
		}
		log, err := command.Log(cmd.ErrOrStderr(), cfg.LogLevel)
		if err != nil {
			return err
		}
		return serve.Run(cmd.Context(), cfg, command.Build(), s, log)
	})
	flags := cmd.Flags()
	flags.StringVar(&file, "config", "", "YAML file of settings, with the names of the flags")
	settingFlags(cmd, given.Settings())
	cmd.AddCommand(newServerKeys(), newServerNATSConfig(), newServerReady())
	return cmd
}

// serverSettings applies the file, the environment and the given flags to the defaults. It rejects a password in
// --database.
func serverSettings(cmd *cobra.Command, given *serverconfig.Config, file string) (serverconfig.Config, error) {
	cfg := serverconfig.Default()
	if cmd.Flags().Changed("database") && serverconfig.HasPassword(given.Database) {
		return cfg, errPassword
	}
	return cfg, readSettings(cmd, given, &cfg, file)
}
