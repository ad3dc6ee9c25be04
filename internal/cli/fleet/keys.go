package fleet

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/cli/term"
	"drover/internal/process"
)

// NewKeys returns the commands about the keys by which hosts trust the server.
func NewKeys() *cobra.Command {
	cmd := remote.Resource[client.Key]{
		Use: "keys", Short: "Replace the keys by which hosts trust this server",
		Long: `Replace the keys by which hosts trust this server, without touching a host
(docs/ops/rotation.md). There are six kinds. Manifest keys sign what agents trust.
Sealing keys encrypt the messages of servers, agents and proxies. ca keys issue the certificates of
servers and proxies. The keys of agent-signer, proxy-signer and server-signer issue the credentials of
agents, proxies and servers. Each key passes through the stages next, present and former. Needs an
administrator.`,
		Names: func(*remote.Session) remote.Completer { return keyKinds },
		Verbs: []remote.Verb[client.Key]{{
			Use: "drop KIND KEY", Short: "Discard a pending key, or retire an old one early",
			Long: `Discard a key of stage next, or retire a key of stage former before it expires. Use
it if the key has leaked. A host that is away and knows no later key cannot reconnect afterwards.
Such a host joins again with a token ('drover-agent join') and keeps its key, names and processes.`,
			Call: func(ctx context.Context, c *client.Client, args []string) (client.Key, error) {
				return client.Key{}, c.DropKey(ctx, args[0], args[1])
			},
			Done: "the %s key was dropped",
		}},
	}.Command()
	cmd.AddCommand(newKeysList(), newKeysRotate())
	return cmd
}

func newKeysList() *cobra.Command {
	var s remote.Session
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the keys, and how many hosts use them",
		Args:  term.Args,
		RunE: remote.Query(&s, func(ctx context.Context, c *client.Client, _ []string) (client.Keys, error) {
			return c.Keys(ctx)
		}, func(cmd *cobra.Command, _ []string, keys client.Keys) error {
			return printKeys(cmd, s.Output, keys)
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	s.ListFlags(cmd, term.AsTable, term.AsWide, term.AsJSON, term.AsYAML, term.AsName)
	return cmd
}

func printKeys(cmd *cobra.Command, o term.Output, keys client.Keys) error {
	if o.Structured() {
		return term.PrintValue(cmd.OutOrStdout(), o.Form, keys)
	}
	if err := term.PrintList(cmd, o, keys.Keys, keyColumns(), func(k client.Key) string { return k.ID }); err != nil {
		return err
	}
	term.Say(cmd, "%d of %s online use these keys\n", keys.Reached, process.Count(keys.Online, "host", "hosts"))
	return nil
}

func keyColumns() []term.Column[client.Key] {
	return []term.Column[client.Key]{
		{Head: "KIND", Cell: func(k client.Key) string { return k.Kind }},
		{Head: "STAGE", Cell: func(k client.Key) string { return k.Stage }},
		{Head: "SINCE", Cell: func(k client.Key) string { return term.Stamp(&k.Since) }},
		{Head: "KEPT UNTIL", Cell: func(k client.Key) string { return term.Stamp(k.Until) }},
		{Head: "ENDS", Cell: func(k client.Key) string { return term.Stamp(k.Ends) }},
		{Head: "KEY", Cell: func(k client.Key) string { return k.ID }},
	}
}

// keyKinds completes the kinds of keys.
func keyKinds(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return []cobra.Completion{"manifest", "sealing", "ca", "agent-signer", "proxy-signer", "server-signer"},
		cobra.ShellCompDirectiveNoFileComp
}

func newKeysRotate() *cobra.Command {
	var s remote.Session
	var keep time.Duration
	var force bool
	cmd := &cobra.Command{
		Use:   "rotate KIND",
		Short: "Advance a key rotation by one step",
		Long: `Advance the rotation of a kind of key by one step. KIND is manifest, sealing,
ca, agent-signer, proxy-signer or server-signer.

The first step makes the next key. The server announces it to all hosts within seconds, signed by
the present key. The second step activates the next key and makes the present key a former key.
Until it expires, the server uses a former key only for hosts that were away and know no later key.

The server rejects the second step while a host that is online has not received the next key. If
several servers share a database, import the keys of this server into the others between the two
steps ('drover server keys').`,
		Example: `  drover keys rotate manifest     # make the next key and announce it
  drover keys list                # until all online hosts use it
  drover keys rotate manifest     # activate the next key`,
		Args: term.Args,
		RunE: remote.Query(&s, func(ctx context.Context, c *client.Client, args []string) (client.Keys, error) {
			return c.RotateKeys(ctx, args[0], keep, force)
		}, func(cmd *cobra.Command, args []string, keys client.Keys) error {
			for _, k := range keys.Keys {
				if k.Kind == args[0] && k.Stage == "next" {
					term.Say(cmd,
						"the server announces the next key to all hosts; once they have it, run this command again to activate it\n")
				}
			}
			return printKeys(cmd, s.Output, keys)
		}),
		ValidArgsFunction: keyKinds,
	}
	term.LengthVar(cmd.Flags(), &keep, "keep", 0,
		"how long the server keeps the present key for hosts that are away (default 4320h, 180 days)")
	cmd.Flags().BoolVar(&force, "force", false, "do not wait for online hosts that have not received the next key")
	s.Flags(cmd, term.AsTable, term.AsWide, term.AsJSON, term.AsYAML, term.AsName)
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(*cobra.Command, []string) error {
		if cmd.Flags().Changed("keep") && keep < time.Minute {
			return term.Usagef("--keep %s: expected 1m or more", keep)
		}
		return nil
	})
	return cmd
}
