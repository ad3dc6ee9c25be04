package cli

import (
	"github.com/spf13/cobra"
)

func newAppChange() *cobra.Command {
	var s session
	var o output
	var f appFlags
	cmd := &cobra.Command{
		Use:   "change CODE",
		Short: "Change an app's note, powers or limits",
		Example: `  drover app change viewer --rate 20 --burst 40
  drover app change viewer --admin=false`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := s.client(cmd)
			if err != nil {
				return err
			}
			a, err := c.App(cmd.Context(), args[0])
			if err != nil {
				return exitOf(err)
			}
			if a, err = c.ChangeApp(cmd.Context(), args[0], f.change(cmd, a.Limits)); err != nil {
				return exitOf(err)
			}
			return showApp(cmd, o, a)
		},
	}
	f.flags(cmd)
	return appVerb(cmd, &s, &o)
}
