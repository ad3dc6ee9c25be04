package client

import (
	"context"
	"iter"
	"net/url"
	"strconv"

	v1 "drover/api/v1"
)

// Proxies lists the joined proxies, ordered by area and name.
func (c *Client) Proxies(ctx context.Context) iter.Seq2[v1.Proxy, error] {
	return pages[v1.Proxy](ctx, c, at(v1.RouteListProxies), url.Values{}, 0)
}

// RemoveProxy removes a proxy by its name or key: the server disconnects it at once and rejects it if it reconnects.
func (c *Client) RemoveProxy(ctx context.Context, proxy string) error {
	return c.do(ctx, at(v1.RouteRemoveProxy, proxy), nil, nil, nil)
}

// AddPackage adds a version of the agent by its signed text, and returns which pieces the server needs. It may be
// repeated.
func (c *Client) AddPackage(ctx context.Context, signed string) (v1.Package, error) {
	var p v1.Package
	err := c.within(ctx, uploadTime, at(v1.RouteAddPackage), nil, v1.PackageRequest{Signed: signed}, &p)
	return p, err
}

// PutPiece sends a piece of a package.
func (c *Client) PutPiece(ctx context.Context, version, arch string, piece int, data []byte) error {
	return c.within(ctx, uploadTime, at(v1.RoutePutPiece, version, arch, strconv.Itoa(piece)), nil,
		v1.PackagePiece{Data: data}, nil)
}

// Packages lists the versions of the agent that the server has, by version and architecture.
func (c *Client) Packages(ctx context.Context) iter.Seq2[v1.Package, error] {
	return pages[v1.Package](ctx, c, at(v1.RouteListPackages), url.Values{}, 0)
}

// RemovePackage removes a version of the agent. The hosts that run it go on.
func (c *Client) RemovePackage(ctx context.Context, version, arch string) error {
	return c.do(ctx, at(v1.RouteRemovePackage, version, arch), nil, nil, nil)
}

// UpgradeAgents begins a rollout of a version of the agent. When it returns, the server has the rollout on disk.
func (c *Client) UpgradeAgents(ctx context.Context, r v1.UpgradeRequest) (v1.Rollout, error) {
	var answer v1.Rollout
	err := c.within(ctx, submitTime, at(v1.RouteUpgradeAgents), nil, r, &answer)
	return answer, err
}

// PlanUpgrade returns what a request would do, after all checks of UpgradeAgents, and does nothing.
func (c *Client) PlanUpgrade(ctx context.Context, r v1.UpgradeRequest) (p v1.OperationPlan, err error) {
	err = c.do(ctx, at(v1.RouteUpgradeAgents), url.Values{"dry_run": {"true"}}, r, &p)
	return p, err
}

// Server returns the state of the server. Needs an administrator.
func (c *Client) Server(ctx context.Context) (v1.Server, error) {
	var s v1.Server
	err := c.do(ctx, at(v1.RouteGetServer), nil, nil, &s)
	return s, err
}
