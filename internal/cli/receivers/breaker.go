package receivers

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/cli/term"
)

// NewBreaker returns the commands about breakers.
func NewBreaker() *cobra.Command {
	return remote.Resource[v1.Breaker]{
		Use:  "breaker",
		List: breakerList(), Names: breakerList().Names, Show: showBreaker,
		Verbs: []remote.Verb[v1.Breaker]{
			{
				Use: "reset PROCESS",
				Call: func(ctx context.Context, c *client.Client, args []string) (v1.Breaker, error) {
					namespace, name, err := term.SplitID(args[0])
					if err != nil {
						return v1.Breaker{}, err
					}
					return c.ResetBreaker(ctx, namespace, name)
				},
				Already: func(ctx context.Context, c *client.Client, args []string) string {
					list, err := c.Breakers(ctx, true)
					at := slices.IndexFunc(list, func(b v1.Breaker) bool { return breakerID(b) == args[0] })
					if err != nil || at < 0 || list[at].ClosedAt == nil {
						return "" // the call knows
					}
					return fmt.Sprintf("nothing changed: the breaker of %s was closed already", args[0])
				},
			},
		},
	}.Command()
}

func breakerList() remote.List[v1.Breaker] {
	return remote.List[v1.Breaker]{
		Use: "list", None: "no open breakers",
		ID: breakerID,
		Columns: []term.Column[v1.Breaker]{
			{Head: "PROCESS", Cell: breakerID},
			{Head: "STATE", State: true, Cell: breakerState},
			{Head: "FAILED", Cell: failedOf},
			{Head: "CAUSE", Cell: func(b v1.Breaker) string { return b.Cause }},
			{Head: "REVISION", Cell: func(b v1.Breaker) string { return fmt.Sprint(b.Revision) }},
			{Head: "OPENED", Cell: func(b v1.Breaker) string { return term.Stamp(&b.OpenedAt) }},
			{Head: "UNTIL", Cell: func(b v1.Breaker) string { return term.Stamp(&b.UntilAt) }},
		},
		Rows: func(ctx context.Context, c *client.Client, _ []string) ([]v1.Breaker, error) {
			return c.Breakers(ctx, false)
		},
	}
}

func breakerID(b v1.Breaker) string { return b.Namespace + "/" + b.Name }

func breakerState(b v1.Breaker) string {
	if b.ClosedAt != nil {
		return "closed"
	}
	return "open"
}

func failedOf(b v1.Breaker) string { return fmt.Sprintf("%d of %d hosts", b.Failed, b.Hosts) }

func showBreaker(b v1.Breaker) (state string, fields []term.Field) {
	fields = []term.Field{
		{"Failed", failedOf(b)},
		{"Cause", b.Cause},
		{"Revision", fmt.Sprint(b.Revision)},
		{"Opened", term.Stamp(&b.OpenedAt)},
		{"Until", term.Stamp(&b.UntilAt)},
	}
	if b.ClosedAt != nil {
		fields = append(fields, term.Field{"Closed", term.Stamp(b.ClosedAt)}, term.Field{"By", b.ClosedBy})
	}
	return breakerState(b), fields
}
