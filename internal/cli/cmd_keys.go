package cli

import (
	"context"

	"github.com/spf13/cobra"

	"drover/client"
	"drover/internal/process"
)

func newKeys() *cobra.Command {
	return noun("keys", "Replace the keys by which hosts trust this server",
		`Replace the keys by which hosts trust this server, without touching a host
(docs/ops/rotation.md). There are three kinds. Manifest keys sign the orders that agents obey. ca
keys issue the certificates of servers and proxies. agent-signer keys issue the credentials of
agents. Each key passes through the stages next, present and former. Needs an administrator.`,
		newKeysList(), newKeysRotate(), newKeysDrop())
}

func newKeysList() *cobra.Command {
	var s session
	var o output
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the keys, and how many hosts use them",
		Args:  exactly(),
		RunE: queryCommand(&s, func(ctx context.Context, c *client.Client, _ []string) (client.Keys, error) {
			return c.Keys(ctx)
		}, func(cmd *cobra.Command, _ []string, keys client.Keys) error {
			return printKeys(cmd, &s, o, keys)
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.flags(cmd, asTable, asWide, asJSON, asYAML, asName)
	s.flags(cmd)
	return cmd
}

func printKeys(cmd *cobra.Command, s *session, o output, keys client.Keys) error {
	if o.form == asJSON || o.form == asYAML {
		return printValue(cmd.OutOrStdout(), o.form, keys)
	}
	if err := printList(cmd, s, o, keys.Keys, keyColumns(), func(k client.Key) string { return k.ID }); err != nil {
		return err
	}
	say(cmd, "%d of %s online use these keys\n", keys.Reached, process.Count(keys.Online, "host", "hosts"))
	return nil
}

func keyColumns() []column[client.Key] {
	return []column[client.Key]{
		{head: "KIND", cell: func(k client.Key) string { return k.Kind }},
		{head: "STAGE", cell: func(k client.Key) string { return k.Stage }},
		{head: "SINCE", cell: func(k client.Key) string { return stamp(&k.Since) }},
		{head: "KEPT UNTIL", cell: func(k client.Key) string { return stamp(k.Until) }},
		{head: "ENDS", cell: func(k client.Key) string { return stamp(k.Ends) }},
		{head: "KEY", cell: func(k client.Key) string { return k.ID }},
	}
}

// keyKinds are the words for the kinds of keys.
func keyKinds(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return []cobra.Completion{"manifest", "ca", "agent-signer"}, cobra.ShellCompDirectiveNoFileComp
}
