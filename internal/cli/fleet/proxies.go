package fleet

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/cli/term"
)

// NewProxies returns the commands about the proxies that have joined.
func NewProxies() *cobra.Command {
	return remote.Resource[v1.Proxy]{
		Use: "proxies",
		List: remote.List[v1.Proxy]{
			Use:     "list",
			None:    "no proxies have joined",
			ID:      func(p v1.Proxy) string { return p.Name },
			Columns: proxyColumns(),
			Rows: func(ctx context.Context, c *client.Client, _ []string) ([]v1.Proxy, error) {
				return client.Collect(c.Proxies(ctx))
			},
		},
		Verbs: []remote.Verb[v1.Proxy]{{
			Use: "remove NAME|KEY",
			Call: func(ctx context.Context, c *client.Client, args []string) (v1.Proxy, error) {
				return v1.Proxy{}, c.RemoveProxy(ctx, args[0])
			},
			Done: "proxy %s was removed",
		}},
	}.Command()
}

func proxyColumns() []term.Column[v1.Proxy] {
	return []term.Column[v1.Proxy]{
		{Head: "NAME", Cell: func(p v1.Proxy) string { return p.Name }},
		{Head: "AREA", Cell: func(p v1.Proxy) string { return fmt.Sprint(p.Area) }},
		{Head: "STATE", State: true, Cell: func(p v1.Proxy) string { return online(p.Online) }},
		{Head: "AGENTS", Cell: func(p v1.Proxy) string { return fmt.Sprint(p.Agents) }},
		{Head: "ADDRESS", Cell: func(p v1.Proxy) string { return p.Advertise }},
		{Head: "SEEN", Cell: func(p v1.Proxy) string { return term.Since(p.LastSeen) }},
		{Head: "BUILD", Cell: func(p v1.Proxy) string { return p.Build }},
		{Head: "JOINED", Wide: true, Cell: func(p v1.Proxy) string { return term.Stamp(&p.JoinedAt) }},
		{Head: "KEY", Wide: true, Cell: func(p v1.Proxy) string { return p.Key }},
	}
}
