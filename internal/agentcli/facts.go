package agentcli

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"drover/internal/agent"
	"drover/internal/command"
)

func newFacts() *cobra.Command {
	r := &runFlags{}
	cmd := &cobra.Command{
		Use:   "facts",
		Short: "Show what the agent reports of this host, and check its facts",
		Long: `Show the labels and facts that the agent reports of this host, as JSON. The command
reads the files of --facts-dir and runs the executables there, as the agent does. It lists every
file and every fact that the agent leaves out.

Exit codes: 0 valid, 1 something is left out.`,
		Example: `  drover-agent facts --config /etc/drover/agent.conf`,
		Args:    command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := r.read(cmd); err != nil {
				return err
			}
			host, faults := agent.Facts(cmd.Context(), r.settings, slog.New(slog.DiscardHandler))
			text, err := json.Marshal(host)
			if err != nil {
				return fmt.Errorf("cannot show the facts: %w", err)
			}
			if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n", text); err != nil {
				return err
			}
			if len(faults) > 0 {
				return &command.ExitError{Code: command.Failed, Err: fmt.Errorf("left out: %w", errors.Join(faults...))}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&r.file, "config", "", "file of settings, with the names of the flags")
	r.declare(cmd)
	return cmd
}
