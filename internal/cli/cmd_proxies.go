package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"drover/client"
)

func newProxies() *cobra.Command {
	return noun("proxies", "List and remove the proxies of areas",
		`List and remove the proxies of areas that have no route to the servers. A proxy joins by
'drover proxy join', with a token of 'drover token create --role proxy'. Needs an administrator.`,
		newProxiesList(), newProxiesRemove())
}

func newProxiesList() *cobra.Command {
	var s session
	var o output
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the proxies that have joined, sorted by area and name",
		Args:  exactly(),
		RunE: listCommand(&s, &o, "no proxies have joined", proxyColumns(), func(p client.Proxy) string { return p.Name },
			func(ctx context.Context, c *client.Client, _ []string) ([]client.Proxy, error) {
				return client.Collect(c.Proxies(ctx))
			}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.flags(cmd, asTable, asWide, asJSON, asYAML, asName)
	s.flags(cmd)
	return cmd
}

func proxyColumns() []column[client.Proxy] {
	return []column[client.Proxy]{
		{head: "NAME", cell: func(p client.Proxy) string { return p.Name }},
		{head: "AREA", cell: func(p client.Proxy) string { return fmt.Sprint(p.Area) }},
		{head: "STATE", state: true, cell: func(p client.Proxy) string {
			if p.Online {
				return "online"
			}
			return "away"
		}},
		{head: "AGENTS", cell: func(p client.Proxy) string { return fmt.Sprint(p.Agents) }},
		{head: "ADDRESS", cell: func(p client.Proxy) string { return p.Advertise }},
		{head: "SEEN", cell: func(p client.Proxy) string { return since(p.LastSeen) }},
		{head: "BUILD", cell: func(p client.Proxy) string { return p.Build }},
		{head: "JOINED", wide: true, cell: func(p client.Proxy) string { return stamp(&p.JoinedAt) }},
		{head: "KEY", wide: true, cell: func(p client.Proxy) string { return p.Key }},
	}
}
