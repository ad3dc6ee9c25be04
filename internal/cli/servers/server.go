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
		Use:   "server",
		Short: "Run a server that agents on other machines join",
		Long: `Run a server that agents on other machines join. It has no agent of its own.

Flags override the environment (DROVER_HTTP is --http, and so on; separate the items of a list with
commas), which overrides the file of --config. 'drover config check' validates such a file.

The API and the fabric speak TLS; agents connect to the fabric. At its first start the server makes
its own certificate authority in the data directory. Hosts verify the server by the fingerprint in
their token, callers by server/pki/ca.pem.

It runs in the foreground; SIGTERM or Ctrl-C ends it. Without the server, agents keep supervising,
and reconnect once the server is back.

Environment: DROVER_BOOTSTRAP_APP_CODE and DROVER_BOOTSTRAP_APP_SECRET together set the first app of
a new data directory. Otherwise drover generates the first app and prints it once.`,
		Example: `  drover server --advertise drover.example.com:7351
  drover server --config /etc/drover/server.yaml`,
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
