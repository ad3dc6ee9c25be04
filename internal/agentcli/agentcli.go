// Package agentcli is the command line of drover-agent. It links neither a database nor a broker.
package agentcli

import (
	"fmt"
	"net"
	"path/filepath"

	"github.com/spf13/cobra"

	"drover/internal/agent"
	"drover/internal/command"
	"drover/internal/config"
)

// NewRoot returns the whole command line.
func NewRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "drover-agent",
		Short: "Supervise the processes of one host",
		Args:  cobra.ArbitraryArgs,
		RunE:  command.Subcommands,
	}
	root.AddCommand(newJoin(), newRun(), newPolicy(), command.NewVersion())
	return root
}

func newRun() *cobra.Command {
	var dir, level, address, policyFile string
	settings := config.DefaultAgent()
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the agent of a data directory that has joined a server",
		Long: `Run the agent of a data directory that has joined a server.

It runs in the foreground. SIGTERM ends it and leaves the supervised processes running; started again with the same data
directory it picks them up. A data directory of drover dev holds an agent that has joined.`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := command.Log(cmd.ErrOrStderr(), level)
			if err != nil {
				return err
			}
			if err := settings.Validate(); err != nil {
				return &command.UsageError{Err: err}
			}
			cfg := agent.Config{Dir: filepath.Join(dir, "agent"), Build: command.Build(), Policy: policyFile, Settings: settings, Log: log}
			if address != "" {
				if cfg.Metrics, err = (&net.ListenConfig{}).Listen(cmd.Context(), "tcp", address); err != nil {
					return fmt.Errorf("cannot listen for metrics: %w (--metrics takes another address)", err)
				}
				log.Info("metrics are served", "address", cfg.Metrics.Addr().String())
			}
			a, err := agent.New(cfg)
			if err != nil {
				return err
			}
			return a.Run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&dir, "data-dir", config.DataDir(), "directory of everything that is kept")
	cmd.Flags().StringVar(&address, "metrics", "", "address to answer /metrics on without a password, such as 127.0.0.1:9350; empty for none")
	policyFlag(cmd, &policyFile)
	settings.Flags(cmd.Flags())
	cmd.Flags().StringVar(&level, "log-level", "info", "debug, info, warn or error")
	return cmd
}
