package agentcli

import (
	"fmt"
	"log/slog"
	"net"
	"path/filepath"

	"github.com/spf13/cobra"

	"drover/internal/agent"
	"drover/internal/command"
	"drover/internal/config"
)

// runFlags is what 'drover-agent run' is told.
type runFlags struct {
	// file holds settings that the flags do not give.
	file                        string
	dir, metrics, policy, level string
	settings                    config.Agent
}

// declare makes the flags.
func (r *runFlags) declare(cmd *cobra.Command) {
	r.settings = config.DefaultAgent()
	flags := cmd.Flags()
	flags.StringVar(&r.dir, "data-dir", config.DataDir(), "directory for all stored data")
	flags.StringVar(&r.metrics, "metrics", "",
		"address that serves /metrics without a password, such as 127.0.0.1:9350; empty for none")
	policyFlag(cmd, &r.policy)
	r.settings.Flags(flags)
	flags.StringVar(&r.level, "log-level", "info", "debug, info, warn or error")
}

// read reads the file and returns the log, or the errors in the settings.
func (r *runFlags) read(cmd *cobra.Command) (*slog.Logger, error) {
	if r.file != "" {
		if err := command.ReadSettings(cmd, r.file); err != nil {
			return nil, err
		}
	}
	if err := r.settings.Validate(); err != nil {
		return nil, &command.UsageError{Err: err}
	}
	return command.Log(cmd.ErrOrStderr(), r.level)
}

func newRun() *cobra.Command {
	r := &runFlags{}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the agent of a host that has joined a server",
		Long: `Run the agent of a host that has joined a server.

It runs in the foreground. SIGTERM ends it and leaves the supervised processes running. If you start
it again with the same data directory, it supervises them again. The data directory of 'drover dev'
holds such an agent, too.

Flags override the file of --config. Each line of the file is NAME: VALUE, with the names of the
flags. 'drover-agent config check' validates such a file. If a setting is invalid, the exit code is
2.`,
		Example: `  drover-agent run --config /etc/drover/agent.conf`,
		Args:    command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := r.read(cmd)
			if err != nil {
				return err
			}
			cfg := agent.Config{
				Dir: filepath.Join(r.dir, "agent"), Build: command.Build(), Policy: r.policy,
				Settings: r.settings, Log: log,
			}
			if r.metrics != "" {
				if cfg.Metrics, err = (&net.ListenConfig{}).Listen(cmd.Context(), "tcp", r.metrics); err != nil {
					return fmt.Errorf("cannot listen for metrics: %w (--metrics takes another address)", err)
				}
				log.Info("serving metrics", "address", cfg.Metrics.Addr().String())
			}
			a, err := agent.New(cfg)
			if err != nil {
				return err
			}
			return a.Run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&r.file, "config", "", "file of settings, with the names of the flags")
	r.declare(cmd)
	return cmd
}
