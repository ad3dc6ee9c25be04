package agentcli

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"drover/internal/agent"
	"drover/internal/agent/procfs"
	"drover/internal/agent/upgrade"
	"drover/internal/command"
	"drover/internal/config"
	"drover/internal/service"
)

// runFlags is what 'drover-agent run' is told.
type runFlags struct {
	// file holds settings that the flags do not give.
	file                        string
	dir, metrics, policy, level string
	settings                    config.Agent
	// prove is the descriptor for the proofs of a version that is being tried; 0 without a trial.
	prove int
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
	r.settings.ReleaseFlags(flags)
	flags.StringVar(&r.level, "log-level", "info", "debug, info, warn or error")
}

// read reads the file and returns the log, and the errors in the settings. Settings without an error count in any case.
func (r *runFlags) read(cmd *cobra.Command) (log *slog.Logger, fault error) {
	if r.file != "" {
		fault = command.ReadSettings(cmd, r.file)
	}
	wrong := r.settings.Validate()
	log, err := command.Log(cmd.ErrOrStderr(), r.level)
	if err != nil {
		log = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
	}
	if fault = errors.Join(fault, wrong, err); fault != nil {
		fault = &command.UsageError{Err: fault}
	}
	return log, fault
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
78, and a restart does not help. A crash has the exit code 2.`,
		Example: `  drover-agent run --config /etc/drover/agent.conf`,
		Args:    command.NoArgs,
	}
	command.Daemon(cmd, func(cmd *cobra.Command, s *service.Service) error {
		log, fault := r.read(cmd)
		dir, err := filepath.Abs(r.dir)
		if err != nil {
			return fmt.Errorf("cannot find the data directory: %w", err)
		}
		cfg := agent.Config{
			Dir: filepath.Join(dir, "agent"), Build: command.Build(), Policy: r.policy,
			Settings: r.settings, Service: s, Log: log,
		}
		if next := r.choose(&cfg); next != "" { // also with faults: that version may know these settings
			log.Error("the installed program goes on", "error", become(next))
			cfg.Version = nil
		}
		if fault != nil {
			return fault
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
		if err := a.Run(cmd.Context()); err != nil || a.PendingTrial() == nil {
			return err
		}
		s.Hold()
		if next := r.judge(&cfg, a.PendingTrial()).Try(cmd.Context()); next != "" {
			s.Flush()
			return become(next)
		}
		return nil
	})
	cmd.Flags().IntVar(&r.prove, upgrade.ProveFlag, 0, "descriptor for the proofs of a version that is being tried")
	_ = cmd.Flags().MarkHidden(upgrade.ProveFlag) // it exists
	cmd.Flags().StringVar(&r.file, "config", "", "file of settings, with the names of the flags")
	r.declare(cmd)
	return cmd
}

// choose returns the program to run instead of this one, or completes the configuration of this one.
func (r *runFlags) choose(cfg *agent.Config) (next string) {
	if r.prove > 0 {
		cfg.Prove = os.NewFile(uintptr(r.prove), "proofs")
		cfg.Version = upgrade.TrialProgram(cfg.Dir)
		return ""
	}
	c := upgrade.Choose(cfg.Dir, cfg.Log)
	cfg.Version = c.Version
	return c.Run
}

// judge returns the judge of a trial.
func (r *runFlags) judge(cfg *agent.Config, due *upgrade.PendingTrial) *upgrade.Judge {
	return &upgrade.Judge{
		Dir: cfg.Dir, Args: os.Args[1:], Within: r.settings.TrialTime, Settle: upgrade.Settle, MostCPU: upgrade.MostCPU,
		Before: due.Before, FS: procfs.New("/proc"), Log: cfg.Log,
	}
}

// become runs another program in the place of this one, with the same pid, arguments and children.
func become(program string) error {
	return fmt.Errorf("cannot run %s: %w", program, syscall.Exec(program, os.Args, os.Environ()))
}
