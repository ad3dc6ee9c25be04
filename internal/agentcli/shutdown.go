package agentcli

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"drover/internal/agent"
	"drover/internal/command"
)

// shutdownTime is less than systemd gives a unit (DefaultTimeoutStopSec).
const shutdownTime = 80 * time.Second

func newShutdown() *cobra.Command {
	r := &runFlags{}
	timeout := shutdownTime
	cmd := &cobra.Command{
		Use:   "shutdown",
		Short: "End all hosted processes in order, because the host shuts down",
		Long: `End all hosted processes in order, because the host shuts down. The agent that runs on this
host ends each process by the stop rules of its process file, and first those that are 'after' it.
The unit drover-shutdown.service runs the command while the host goes down.

The wanted state stays. From now on the agent starts nothing, and begins no operation. After the boot,
or after a restart of the agent, the processes start again in order.

Exit codes: 0 all have ended, 1 a process is left or the agent does not run, 2 wrong usage.`,
		Example: `  drover-agent shutdown --config /etc/drover/agent.conf --timeout 5m`,
		Args:    command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := r.read(cmd); err != nil { // of a later version that runs: the settings that count are known
				_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "going on with the settings that are right: %v\n", err)
			}
			if timeout <= 0 {
				return &command.UsageError{Err: errors.New("--timeout must be more than 0")}
			}
			dir, err := filepath.Abs(r.dir)
			if err != nil {
				return fmt.Errorf("cannot find the data directory: %w", err)
			}
			var left []string
			var unwritten error
			ended := 0
			err = agent.Shutdown(cmd.Context(), filepath.Join(dir, "agent"), timeout, func(e agent.Ended) {
				word := "ended"
				if e.Left {
					word, left = "left ", append(left, e.ID.String())
				} else {
					ended++
				}
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s %s: %s\n", word, e.ID, e.Text)
				unwritten = errors.Join(unwritten, err)
			})
			if err != nil {
				return err
			}
			if len(left) > 0 {
				return &command.ExitError{
					Code: command.Failed,
					Err:  fmt.Errorf("%d ended, %d left: %s", ended, len(left), strings.Join(left, ", ")),
				}
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d ended, none left\n", ended)
			return errors.Join(unwritten, err)
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", shutdownTime, "how long to wait for the end of all processes")
	cmd.Flags().StringVar(&r.file, "config", "", "file of settings, with the names of the flags")
	r.declare(cmd)
	return cmd
}
