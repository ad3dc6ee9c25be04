package servers

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"drover/internal/command"
	"drover/internal/config"
	"drover/internal/config/proxyconfig"
	"drover/internal/proxy"
	"drover/internal/service"
)

// proxyDir is the directory of a proxy's own files, below its data directory.
const proxyDir = "proxy"

// NewProxy returns 'drover proxy'.
func NewProxy() *cobra.Command {
	cmd := newProxyRun()
	cmd.Use = "proxy"
	cmd.Args = cobra.ArbitraryArgs
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return command.Subcommands(cmd, args)
		}
		return run(cmd, args)
	}
	cmd.AddCommand(newProxyJoin(), newProxyRun())
	return cmd
}

func newProxyRun() *cobra.Command {
	given := proxyconfig.Default() // the values of the flags
	var file string
	cmd := &cobra.Command{
		Use:  "run",
		Args: command.NoArgs,
	}
	command.Daemon(cmd, func(cmd *cobra.Command, s *service.Service) error {
		cfg := proxyconfig.Default()
		if err := readSettings(cmd, &given, &cfg, file); err != nil {
			return &command.UsageError{Err: err}
		}
		return runProxy(cmd, cfg, s)
	})
	cmd.Flags().StringVar(&file, "config", "", "YAML file of settings, with the names of the flags")
	settingFlags(cmd, given.Settings())
	return cmd
}

func runProxy(cmd *cobra.Command, cfg proxyconfig.Config, s *service.Service) error {
	log, err := command.Log(cmd.ErrOrStderr(), cfg.LogLevel)
	if err != nil {
		return err
	}
	lock, err := config.Lock(cmd.Context(), cfg.DataDir)
	if err != nil {
		return err
	}
	defer lock.Close() //nolint:errcheck // nothing was written
	p, err := proxy.New(cmd.Context(), proxy.Config{
		Dir: filepath.Join(cfg.DataDir, proxyDir), Listen: cfg.Fabric, HTTP: cfg.HTTP, Build: command.Build(),
		Service: s, Log: log,
	})
	if err != nil {
		return err
	}
	told := false
	return p.Run(cmd.Context(), func(fabric string) {
		if told {
			return
		}
		told = true
		e := p.Enrolment()
		_, err := fmt.Fprintf(cmd.OutOrStdout(),
			"\ndrover proxy is ready.\n\n  %-8s  %s, area %d\n  %-8s  %s\n  %-8s  %s\n  %-8s  %s\n  %-8s  %s\n\n",
			"name", e.Name, e.Area, "join", p.URL(), "agents", fabric, "servers", strings.Join(e.Hubs, " "), "data",
			cfg.DataDir)
		if err != nil {
			log.Warn("cannot write to standard output", "error", err)
		}
	})
}
