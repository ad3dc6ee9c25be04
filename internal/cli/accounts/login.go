package accounts

import (
	"context"

	"github.com/spf13/cobra"

	"drover/client"
	"drover/internal/cli/remote"
)

// NewLogin returns the command that prints a link to the console.
func NewLogin() *cobra.Command {
	return remote.Resource[client.SignIn]{
		Once: func(s client.SignIn) (text, note string) {
			return s.URL + "\n", "open the link within 10 minutes; it signs " + s.User + " in once"
		},
		Verbs: []remote.Verb[client.SignIn]{{
			Use: "login [USER]", Short: "Print a link that signs a browser in to the console",
			Long: `Print a link that signs a browser in to the console, once and within 10 minutes.

The link signs you in. An administrator may name another user, and give the link to that person.`,
			Example: "  drover login\n  drover login anna",
			Call: func(ctx context.Context, c *client.Client, args []string) (client.SignIn, error) {
				user := ""
				if len(args) > 0 {
					user = args[0]
				}
				return c.SignIn(ctx, user)
			},
		}},
	}.Commands()[0]
}
