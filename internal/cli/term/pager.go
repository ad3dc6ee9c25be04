package term

import (
	"errors"
	"os/exec"
	"syscall"

	"github.com/spf13/cobra"

	"drover/internal/config"
)

// Paged adds --no-pager to a command, and has it write through a pager if its output is a terminal and applies, called
// when the command runs, is true.
func Paged(cmd *cobra.Command, applies func() bool) {
	var plain bool
	cmd.Flags().BoolVar(&plain, "no-pager", false, "do not show the text in a pager (PAGER, or less) at a terminal")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		words := config.Pager()
		if out := cmd.OutOrStdout(); plain || len(words) == 0 || !Rewritable(out) || !applies() {
			return run(cmd, args)
		}
		pager := exec.Command(words[0], words[1:]...) //nolint:gosec,noctx // the person has chosen it, and ends it
		pager.Stdout, pager.Stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
		in, err := pager.StdinPipe()
		if err == nil {
			err = pager.Start()
		}
		if err != nil { // there is no such program
			return run(cmd, args)
		}
		cmd.SetOut(forPerson{in})
		err = run(cmd, args)
		_ = in.Close()
		if ended := pager.Wait(); err == nil {
			err = ended
		}
		if errors.Is(err, syscall.EPIPE) { // the person has read enough
			return nil
		}
		return err
	}
}
