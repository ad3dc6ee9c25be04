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
		Short: "Have this host join a server",
		Long: `Have this host join a server, with a token that 'drover token create' has printed there. 'drover-agent run' then serves it.

The agent's key is made here and stays here. The server is verified by the fingerprint in the token, not by the roots of this system.
Of a token on the command line others may read in the list of processes: with --token - it is read from the standard input.

A host that joins again with the same data directory keeps its key and its processes. One that was copied from another with its disk has
that one's key, and is refused: --new-identity sets all that it has aside, and has it join as a host of its own.

Exit codes: 0 joined, 1 failed, 2 wrong usage, 5 not allowed (token, fingerprint, clock), 6 unreachable.`,
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
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "joined as %s; start it with: drover-agent run --data-dir %s\n", name, dir)
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.Server, "server", "", "URL of the server's API, such as https://drover.example.com:7350")
	flags.StringVar(&cfg.Token, "token", "", "the token; - reads it from the standard input")
	flags.StringVar(&dir, "data-dir", config.DataDir(), "directory of everything that is kept")
	flags.StringVar(&cfg.IP, "ip", "", "address that callers name this host by (default: the one that leads to the server)")
	flags.StringVar(&cfg.ID, "id", "", "stable id beside the address; empty for none")
	flags.BoolVar(&anew, "new-identity", false, "set aside the key and the records of this host first: for a copy of another host")
	flags.BoolVar(&cfg.InsecureHTTP, "insecure-http", false, "allow http:// to another machine: only where nobody else is on the network")
	return cmd
}

// joinAnew sets aside what the host has and has it join, and puts everything back where it is not let in.
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
			fmt.Fprintf(talk, "what this host had is in %s now\n", aside) //nolint:errcheck // it is talk
		default:
			err = errors.Join(err, os.RemoveAll(cfg.Dir), os.Rename(aside, cfg.Dir))
		}
		return e, err
	}
}
