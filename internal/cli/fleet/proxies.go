package fleet

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/cli/term"
)

// NewProxies returns the commands about the proxies that have joined.
func NewProxies() *cobra.Command {
	return remote.Resource[client.Proxy]{
		Use: "proxies", Short: "List and remove the proxies of areas",
		Long: `List and remove the proxies of areas that have no route to the servers. A proxy joins by
'drover proxy join', with a token of 'drover token create --role proxy'. Needs an administrator.`,
		List: remote.List[client.Proxy]{
			Use: "list", Short: "List the proxies that have joined, sorted by area and name",
			None:    "no proxies have joined",
			ID:      func(p client.Proxy) string { return p.Name },
			Columns: proxyColumns(),
			Rows: func(ctx context.Context, c *client.Client, _ []string) ([]client.Proxy, error) {
				return client.Collect(c.Proxies(ctx))
			},
		},
		Verbs: []remote.Verb[client.Proxy]{{
			Use: "remove NAME|KEY", Short: "Remove a proxy: disconnect it now and reject it if it reconnects",
			Long: `Remove a proxy, named by its name or key. The server disconnects the proxy now and
rejects it if it reconnects. Its agents connect to the other proxies of their area. If the area has
no other proxy, its agents are away until they reach a proxy or a server, so add another proxy
first. The removed proxy can join again with a token. Needs an administrator.`,
			Call: func(ctx context.Context, c *client.Client, args []string) (client.Proxy, error) {
				return client.Proxy{}, c.RemoveProxy(ctx, args[0])
			},
			Done: "proxy %s was removed",
		}},
	}.Command()
}

func proxyColumns() []term.Column[client.Proxy] {
	return []term.Column[client.Proxy]{
		{Head: "NAME", Cell: func(p client.Proxy) string { return p.Name }},
		{Head: "AREA", Cell: func(p client.Proxy) string { return fmt.Sprint(p.Area) }},
		{Head: "STATE", State: true, Cell: func(p client.Proxy) string { return online(p.Online) }},
		{Head: "AGENTS", Cell: func(p client.Proxy) string { return fmt.Sprint(p.Agents) }},
		{Head: "ADDRESS", Cell: func(p client.Proxy) string { return p.Advertise }},
		{Head: "SEEN", Cell: func(p client.Proxy) string { return term.Since(p.LastSeen) }},
		{Head: "BUILD", Cell: func(p client.Proxy) string { return p.Build }},
		{Head: "JOINED", Wide: true, Cell: func(p client.Proxy) string { return term.Stamp(&p.JoinedAt) }},
		{Head: "KEY", Wide: true, Cell: func(p client.Proxy) string { return p.Key }},
	}
}
