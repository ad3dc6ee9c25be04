package servers

import (
	"github.com/spf13/cobra"

	"drover/internal/command"
	"drover/internal/config"
	"drover/internal/dev"
	"drover/internal/service"
)

// NewDev returns 'drover dev'.
func NewDev() *cobra.Command {
	cfg := config.DefaultDev()
	var level string
	cmd := &cobra.Command{
		Use:  "dev",
		Args: command.NoArgs,
	}
	command.Daemon(cmd, func(cmd *cobra.Command, s *service.Service) error {
		log, err := command.Log(cmd.ErrOrStderr(), level)
		if err != nil {
			return err
		}
		cfg.Bootstrap = config.FromEnvironment()
		if err := cfg.Validate(); err != nil {
			return &command.UsageError{Err: err}
		}
		return dev.Run(cmd.Context(), cfg, command.Build(), s, log)
	})
	flags := cmd.Flags()
	flags.StringVar(&cfg.DataDir, "data-dir", cfg.DataDir, "directory for all stored data")
	flags.StringVar(&cfg.HTTP, "http", cfg.HTTP, "loopback address of the API; port 0 chooses a free port")
	flags.IntVar(&cfg.AgentCloud, "agent-cloud", cfg.AgentCloud, "cloud area of the local agent")
	flags.StringVar(&cfg.AgentIP, "agent-ip", cfg.AgentIP, "address by which callers name the local agent")
	flags.StringVar(&cfg.AgentID, "agent-id", cfg.AgentID, "stable id of the local agent, in addition to CLOUD:IP")
	flags.Var(&cfg.TrustedGateways, "trusted-gateway",
		"network of trusted gateways, which may name app and user without a proof on /procapi and /esb/api; may be repeated")
	flags.StringVar(&cfg.LoginURL, "login-url", "",
		"BlueKing login service that verifies a bk_token, such as https://paas.example.com/login")
	cfg.Agent.Flags(flags)
	flags.StringVar(&level, "log-level", "info", "debug, info, warn or error")
	return cmd
}
