package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/cli/term"
	"drover/internal/process"
	"drover/internal/selector"
)

// NewToken returns the commands about the tokens that hosts and proxies join with.
func NewToken() *cobra.Command {
	return remote.Resource[v1.JoinToken]{
		Use: "token",
		List: remote.List[v1.JoinToken]{
			Use: "list", None: "no tokens",
			ID:      func(t v1.JoinToken) string { return t.ID },
			Columns: tokenColumns(),
			Rows: func(ctx context.Context, c *client.Client, _ []string) ([]v1.JoinToken, error) {
				return client.Collect(c.JoinTokens(ctx))
			},
		},
		Once: func(t v1.JoinToken) (text, note string) {
			return t.Token + "\n", fmt.Sprintf(
				"drover shows the token only this once, and stores only its hash; the token is valid for %s until %s",
				process.Count(t.Uses, "host", "hosts"), term.Stamp(&t.ExpiresAt))
		},
		Prefixes: true,
		Verbs: []remote.Verb[v1.JoinToken]{
			tokenCreate(),
			{
				Use: "revoke ID",
				Call: func(ctx context.Context, c *client.Client, args []string) (v1.JoinToken, error) {
					return v1.JoinToken{}, c.RevokeJoinToken(ctx, args[0])
				},
				Done: "token %s was revoked",
			},
		},
	}.Command()
}

func tokenColumns() []term.Column[v1.JoinToken] {
	return []term.Column[v1.JoinToken]{
		{Head: "ID", Cell: func(t v1.JoinToken) string { return t.ID }},
		{Head: "STATE", State: true, Cell: func(t v1.JoinToken) string { return t.State }},
		{Head: "ROLE", Cell: func(t v1.JoinToken) string { return t.Role }},
		{Head: "AREA", Cell: func(t v1.JoinToken) string { return fmt.Sprint(t.Cloud) }},
		{Head: "USED", Cell: func(t v1.JoinToken) string { return fmt.Sprintf("%d/%d", t.Used, t.Uses) }},
		{Head: "ENDS", Cell: func(t v1.JoinToken) string { return term.Stamp(&t.ExpiresAt) }},
		{Head: "LABELS", Cell: func(t v1.JoinToken) string { return labelText(t.Labels) }},
		{Head: "REPLACES", Cell: func(t v1.JoinToken) string { return t.Replaces }},
		{Head: "NOTE", Cell: func(t v1.JoinToken) string { return t.Note }},
		{Head: "BUSINESS", Wide: true, Cell: func(t v1.JoinToken) string { return businessText(t.Business) }},
		{Head: "CREATED", Wide: true, Cell: func(t v1.JoinToken) string { return term.Stamp(&t.CreatedAt) }},
		{Head: "REVOKED", Wide: true, Cell: func(t v1.JoinToken) string { return term.Stamp(t.RevokedAt) }},
	}
}

func tokenCreate() remote.Verb[v1.JoinToken] {
	var t client.NewJoinToken
	var labels []string
	var given func(flag string) bool
	return remote.Verb[v1.JoinToken]{
		Use: "create --area N --uses N --ttl DURATION",
		New: true,
		Flags: func(cmd *cobra.Command) {
			flags := cmd.Flags()
			flags.StringVar(&t.Role, "role", "agent", "role of the token: agent or proxy")
			term.Complete(cmd, "role", "agent", "proxy")
			flags.IntVar(&t.Cloud, "area", 0, "cloud area that hosts join")
			flags.IntVar(&t.Uses, "uses", 0, "how many hosts may join with the token")
			term.LengthVar(flags, &t.TTL, "ttl", 0, "how long the token is valid, such as 1h or 720h")
			flags.StringArrayVar(&labels, "labels", nil, "labels of these hosts, such as key=value,key2=value; may be repeated")
			flags.Int64Var(&t.Business, "business", 0, "business of these hosts; 0 is no business")
			flags.StringVar(&t.Replaces, "replaces", "", "known host whose place the host takes that joins with the token")
			flags.StringVar(&t.Note, "note", "", "a note for administrators")
			cmd.PreRunE = term.Chain(cmd.PreRunE, func(*cobra.Command, []string) error {
				faults := []error{term.OneOf("--role", t.Role, "agent", "proxy")}
				var wrong []error
				t.Labels, wrong = selector.ParseLabels(strings.Join(labels, ","))
				for _, err := range wrong {
					faults = append(faults, term.Usagef("--labels: %w", err))
				}
				for _, name := range []string{"area", "uses", "ttl"} {
					if !flags.Changed(name) {
						faults = append(faults, term.Usagef("--%s is missing", name))
					}
				}
				if flags.Changed("ttl") && t.TTL < time.Second {
					faults = append(faults, term.Usagef("--ttl %s: expected 1s or more", t.TTL))
				}
				return errors.Join(faults...)
			})
			given = flags.Changed
		},
		Request: func([]string) (any, []string) {
			return v1.JoinTokenRequest{
				Role: t.Role, Cloud: t.Cloud, Labels: t.Labels, Business: t.Business, Replaces: t.Replaces,
				Note: t.Note, Uses: t.Uses, TTLSeconds: int64(t.TTL / time.Second),
			}, toldOfToken(&t, given)
		},
		Fields: map[string]string{
			"role": "--role", "cloud": "--area", "uses": "--uses", "ttl_seconds": "--ttl", "labels": "--labels",
			"business": "--business", "replaces": "--replaces", "note": "--note",
		},
		Call: func(ctx context.Context, c *client.Client, _ []string) (v1.JoinToken, error) {
			return c.CreateJoinToken(ctx, t)
		},
	}
}

// toldOfToken returns the fields of a request whose faults the flags tell.
func toldOfToken(t *client.NewJoinToken, given func(flag string) bool) (told []string) {
	if t.TTL < time.Second {
		told = append(told, "ttl_seconds")
	}
	if !given("uses") {
		told = append(told, "uses")
	}
	if term.OneOf("--role", t.Role, "agent", "proxy") != nil {
		told = append(told, "role")
	}
	return told
}

// labelText is "key=value,…", sorted by key.
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
