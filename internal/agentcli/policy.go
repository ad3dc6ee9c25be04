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
		Short: "Show the policy of this host, and check its file",
		Long: `Show what the policy of this host allows drover to do, and check its file. A change
of the file takes effect at once. No server can change the file. Without a file everything is
allowed; with an invalid file nothing is allowed.

Exit codes: 0 valid, 1 invalid.`,
		Example: `  drover-agent policy
  drover-agent policy --policy ./policy.conf   # check a file before you install it`,
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
	cmd.Flags().StringVar(file, "policy", policy.DefaultFile, "policy file: what drover may do on this host")
}
