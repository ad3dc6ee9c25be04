package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"drover/client"
	"drover/internal/process"
)

func newToken() *cobra.Command {
	return noun("token", "Manage the tokens that hosts join with",
		`Manage the tokens that hosts join with ('drover-agent join'). drover shows a token only
once, when it is created, and stores only its hash. A token holds the fingerprint by which a host
verifies this server. Needs an administrator.`,
		newTokenCreate(), newTokenList(), newTokenRevoke())
}

func newTokenCreate() *cobra.Command {
	var s session
	var o output
	var t client.NewJoinToken
	cmd := &cobra.Command{
		Use:   "create --area N --uses N --ttl DURATION",
		Short: "Create a token that hosts join with, and print it once",
		Long: `Create a token that hosts join with, and print it. drover shows the token only this
once. Each host that joins with it gets the area, the labels and the business. If a host retries
with the same key, because it got no answer, it counts once.

With --role proxy the token is for a proxy of the area. Such a token has neither labels nor a
business. Create it before the tokens for the hosts of the area.`,
		Example: `  drover token create --area 0 --uses 1 --ttl 1h
  drover token create --area 3 --uses 200 --ttl 24h --labels role=web,rack=4 --note 'rack 4'
  drover token create --role proxy --area 3 --uses 2 --ttl 1h`,
		Args: exactly(),
		RunE: queryCommand(&s, func(ctx context.Context, c *client.Client, _ []string) (client.JoinToken, error) {
			return c.CreateJoinToken(ctx, t)
		}, func(cmd *cobra.Command, _ []string, made client.JoinToken) error {
			return showOnce(cmd, o, made, made.Token+"\n",
				fmt.Sprintf(
					"drover shows the token only this once, and stores only its hash; the token is valid for %s until %s",
					process.Count(made.Uses, "host", "hosts"), stamp(&made.ExpiresAt)))
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	flags.StringVar(&t.Role, "role", "agent", "role of the token: agent or proxy")
	complete(cmd, "role", "agent", "proxy")
	flags.IntVar(&t.Cloud, "area", 0, "cloud area that hosts join")
	flags.IntVar(&t.Uses, "uses", 0, "how many hosts may join with it")
	flags.DurationVar(&t.TTL, "ttl", 0, "how long the token is valid, such as 1h or 720h")
	flags.StringToStringVar(&t.Labels, "labels", nil, "labels of these hosts, such as key=value,key2=value")
	flags.Int64Var(&t.Business, "business", 0, "business of these hosts; 0 is no business")
	flags.StringVar(&t.Note, "note", "", "a note for administrators")
	o.flags(cmd, asText, asJSON, asYAML)
	s.flags(cmd)
	cmd.PreRunE = chain(cmd.PreRunE, func(*cobra.Command, []string) error {
		for _, name := range []string{"area", "uses", "ttl"} {
			if !flags.Changed(name) {
				return usagef("--%s is missing", name)
			}
		}
		if err := oneOf("--role", t.Role, "agent", "proxy"); err != nil {
			return err
		}
		if t.TTL < time.Second {
			return usagef("--ttl %s: expected 1s or more", t.TTL)
		}
		return nil
	})
	return cmd
}

func newTokenList() *cobra.Command {
	var s session
	var o output
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List tokens, newest first, without their secrets",
		Args:  exactly(),
		RunE: listCommand(&s, &o, "no tokens", joinTokenColumns(), func(t client.JoinToken) string { return t.ID },
			func(ctx context.Context, c *client.Client, _ []string) ([]client.JoinToken, error) {
				return client.Collect(c.JoinTokens(ctx))
			}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.flags(cmd, asTable, asWide, asJSON, asYAML, asName)
	s.flags(cmd)
	return cmd
}

func joinTokenColumns() []column[client.JoinToken] {
	return []column[client.JoinToken]{
		{head: "ID", cell: func(t client.JoinToken) string { return t.ID }},
		{head: "STATE", state: true, cell: func(t client.JoinToken) string { return t.State }},
		{head: "ROLE", cell: func(t client.JoinToken) string { return t.Role }},
		{head: "AREA", cell: func(t client.JoinToken) string { return fmt.Sprint(t.Cloud) }},
		{head: "USED", cell: func(t client.JoinToken) string { return fmt.Sprintf("%d/%d", t.Used, t.Uses) }},
		{head: "ENDS", cell: func(t client.JoinToken) string { return stamp(&t.ExpiresAt) }},
		{head: "LABELS", cell: func(t client.JoinToken) string { return labelText(t.Labels) }},
		{head: "NOTE", cell: func(t client.JoinToken) string { return t.Note }},
		{head: "BUSINESS", wide: true, cell: func(t client.JoinToken) string { return businessText(t.Business) }},
		{head: "CREATED", wide: true, cell: func(t client.JoinToken) string { return stamp(&t.CreatedAt) }},
		{head: "REVOKED", wide: true, cell: func(t client.JoinToken) string { return stamp(t.RevokedAt) }},
	}
}

// labelText is "key=value,…", in the order of the keys.
func labelText(labels map[string]string) string {
	var all []string
	for key, value := range labels {
		all = append(all, key+"="+value)
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

func businessText(id int64) string {
	if id == 0 {
		return ""
	}
	return fmt.Sprint(id)
}

func newTokenRevoke() *cobra.Command {
	var s session
	return argumentCommand(&cobra.Command{
		Use:   "revoke ID",
		Short: "Revoke a token now",
		Long: `Revoke a token now. Hosts that have joined with it stay joined; 'drover agents
remove' removes a host.`,
		RunE: actionCommand(&s, "token %s was revoked", func(ctx context.Context, c *client.Client, args []string) error {
			return c.RevokeJoinToken(ctx, args[0])
		}),
	}, &s, "ID", cobra.NoFileCompletions)
}
