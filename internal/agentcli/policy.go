package agentcli

import (
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"drover/internal/agent/policy"
	"drover/internal/command"
)

func newPolicy() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Show what the policy of this host lets drover do, and whether its file is in order",
		Long: `Show what the policy of this host lets drover do, and whether its file is in order. The file counts as soon as it is written, and no
server can change it. Without a file everything is allowed; with one that is broken nothing is.

Exit codes: 0 in order, 1 broken.`,
		Example: `  drover-agent policy
  drover-agent policy --policy ./policy.conf   # before it is put in its place`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			k := policy.New(file, slog.New(slog.DiscardHandler))
			if err := k.Err(); err != nil {
				return fmt.Errorf("nothing is allowed: %w", err)
			}
			text := k.Summary()
			if text == "" {
				text = "everything is allowed: " + file + " is not there, or says nothing"
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), text)
			return err
		},
	}
	policyFlag(cmd, &file)
	return cmd
}

func policyFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "policy", policy.DefaultFile, "file that says what drover may do on this host")
}
