package servers

import (
	"errors"
	"path/filepath"

	"github.com/spf13/cobra"

	"drover/internal/cli/term"
	"drover/internal/command"
	"drover/internal/config"
	"drover/internal/config/settings"
	"drover/internal/serve"
)

func newServerNATSConfig() *cobra.Command {
	dataDir, node, logLevel := config.DataDir(), serve.Node{}, "warn"
	var names []string
	cmd := &cobra.Command{
		Use:  "nats-config --name NAME",
		Args: term.Args,
		RunE: func(cmd *cobra.Command, _ []string) error {
			node.Names = settings.Hosts()
			node.Names = append(names, node.Names...)
			log, err := command.Log(cmd.ErrOrStderr(), logLevel)
			if err != nil {
				return err
			}
			return serve.ConfigureNode(serverDir(dataDir), node, cmd.OutOrStdout(), log)
		},
	}
	f := cmd.Flags()
	f.StringVar(&dataDir, "data-dir", dataDir, "data directory of a server that holds the keys")
	f.StringVar(&node.Name, "name", "", "name of the broker, unique among the brokers")
	f.StringVar(&node.Listen, "listen", "0.0.0.0:4222", "address that agents and servers connect to")
	f.StringVar(&node.Leaves, "proxies", "",
		"address that proxies connect to, such as 0.0.0.0:7422 (default: no proxies)")
	f.StringVar(&node.Cluster, "cluster", "",
		"address that the other brokers connect to, such as 0.0.0.0:6222 (default: no other brokers)")
	f.StringArrayVar(&node.Routes, "route", nil, "HOST:PORT of another broker's --cluster; may be repeated")
	f.StringArrayVar(&names, "host", nil, "host name or IP address of the broker, for its certificate; may be repeated")
	f.StringVar(&node.Dir, "dir", "/etc/nats", "directory of the broker for its configuration and state")
	f.StringVar(&node.Out, "out", "", "directory to write the files to (default: print the configuration)")
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(cmd *cobra.Command, _ []string) error { return checkNode(cmd, &node) })
	return cmd
}

// checkNode reports the errors in the description of a broker.
func checkNode(cmd *cobra.Command, n *serve.Node) error {
	var faults []error
	if !cmd.Flags().Changed("name") {
		faults = append(faults, term.Usagef("--name is missing"))
	}
	if !filepath.IsAbs(n.Dir) {
		faults = append(faults, term.Usagef("--dir %q: expected an absolute path", n.Dir))
	}
	if len(n.Routes) > 0 && n.Cluster == "" {
		faults = append(faults, term.Usagef("--route needs --cluster"))
	}
	for _, a := range []struct{ name, address string }{
		{"listen", n.Listen},
		{"proxies", n.Leaves},
		{"cluster", n.Cluster},
	} {
		if a.address == "" && a.name != "listen" {
			continue
		}
		if _, err := settings.Address("--"+a.name, a.address, "0.0.0.0:4222"); err != nil {
			faults = append(faults, term.Usagef("%v", err))
		}
	}
	for _, r := range n.Routes {
		if err := settings.Advertised("--route", r, "nats2.example.com:6222"); err != nil {
			faults = append(faults, term.Usagef("%v", err))
		}
	}
	return errors.Join(faults...)
}
