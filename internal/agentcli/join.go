package agentcli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"drover/internal/agent"
	"drover/internal/agent/admission"
	"drover/internal/command"
	"drover/internal/config"
	"drover/internal/wire"
)

func newJoin() *cobra.Command {
	var dir string
	var anew bool
	var cfg admission.Config
	cmd := &cobra.Command{
		Use:   "join --server URL --token TOKEN",
		Short: "Join this host to a server",
		Long: `Join this host to a server, with a token of 'drover token create'. Afterwards
'drover-agent run' runs the agent.

The agent makes its key on this host and never sends the private key. The agent verifies the server
by the fingerprint in the token, not by the root certificates of this system. Other users of this
host can read a token on the command line, so
--token - reads the token from stdin.

If a host joins again with the same data directory, it keeps its key and its processes. If a host is
a copy of another host with its disk, it has that host's key, and the server rejects it.
--new-identity moves the old data aside and joins the copy as a new host.

Exit codes: 0 joined, 1 failed, 2 wrong usage, 5 not allowed (token, fingerprint, clock), 6
unreachable.`,
		Example: `  drover-agent join --server https://drover.example.com:7350 --token - < token`,
		Args:    command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cfg.Server == "" || cfg.Token == "" {
				return &command.UsageError{Err: errors.New("--server and --token are needed")}
			}
			var err error
			if cfg.Token, err = command.Token(cfg.Token, cmd.InOrStdin()); err != nil {
				return err
			}
			cfg.Dir, cfg.Build = filepath.Join(dir, "agent"), command.Build()
			join := admission.Join
			if anew {
				join = joinAnew(cmd.ErrOrStderr())
			}
			e, err := join(cmd.Context(), cfg)
			if err != nil {
				return command.NotJoined(err)
			}
			name := fmt.Sprintf("%d:%s", e.Cloud, e.IP)
			if e.ID != "" {
				name += " (" + e.ID + ")"
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "joined as %s; start it with: drover-agent run --data-dir %s\n",
				name, dir)
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.Server, "server", "", "URL of the server's API, such as https://drover.example.com:7350")
	flags.StringVar(&cfg.Token, "token", "", "the token; - reads the token from stdin")
	flags.StringVar(&dir, "data-dir", config.DataDir(), "directory for all stored data")
	flags.StringVar(&cfg.IP, "ip", "",
		"address by which callers name this host (default: the address with the route to the server)")
	flags.StringVar(&cfg.ID, "id", "", "stable id, in addition to the address; empty for none")
	flags.BoolVar(&anew, "new-identity", false,
		"first move the key and the records of this host aside: for a copy of another host")
	flags.BoolVar(&cfg.InsecureHTTP, "insecure-http", false,
		"allow http:// to another machine: only on a network that nobody else can reach")
	return cmd
}

// joinAnew moves the host's data aside and joins; if the join fails, it restores the data.
func joinAnew(talk io.Writer) func(context.Context, admission.Config) (wire.Enrolment, error) {
	return func(ctx context.Context, cfg admission.Config) (wire.Enrolment, error) {
		aside, err := agent.Forget(cfg.Dir, time.Now())
		if err != nil {
			return wire.Enrolment{}, err
		}
		e, err := admission.Join(ctx, cfg)
		switch {
		case aside == "":
		case err == nil:
			fmt.Fprintf(talk, "moved the previous data of this host to %s\n", aside) //nolint:errcheck // it is talk
		default:
			err = errors.Join(err, os.RemoveAll(cfg.Dir), os.Rename(aside, cfg.Dir))
		}
		return e, err
	}
}
