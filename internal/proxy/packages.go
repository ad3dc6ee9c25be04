package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"drover/internal/depot"
	"drover/internal/fabric"
	"drover/internal/idle"
	"drover/internal/wire"
)

const (
	// packageTime is how long an answer of the servers about a package may take: less than the patience of the agents.
	packageTime = 15 * time.Second
	// allowedAgain is the pause after servers that do not let the proxy answer its agents.
	allowedAgain = time.Minute
)

// upstream asks the servers for packages.
type upstream struct {
	requester requester
	subject   string
}

// Signed implements depot.Source.
func (u upstream) Signed(ctx context.Context, version, arch string) ([]byte, error) {
	return u.ask(ctx, wire.PackageQuestion{Version: version, Arch: arch})
}

// Piece implements depot.Source.
func (u upstream) Piece(ctx context.Context, version, arch string, piece int) ([]byte, error) {
	return u.ask(ctx, wire.PackageQuestion{Version: version, Arch: arch, Piece: &piece})
}

func (u upstream) ask(ctx context.Context, q wire.PackageQuestion) ([]byte, error) {
	question, err := json.Marshal(q)
	if err != nil {
		return nil, fmt.Errorf("cannot encode question about a package: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, packageTime)
	defer cancel()
	var data []byte
	answer, err := u.requester.Request(ctx, u.subject, question)
	if err == nil {
		data, err = wire.ReadPackageAnswer(answer)
	}
	if err != nil && !errors.Is(err, wire.ErrNoPackage) {
		return nil, errors.Join(wire.ErrDepotBusy, err) // the agent asks again
	}
	return data, err
}

// givePackages answers the questions of agents about packages until ctx ends, so that a program crosses the long line
// once. Without it the servers answer.
func (p *Proxy) givePackages(ctx context.Context, conn *fabric.Conn, e wire.ProxyEnrolment) error {
	kept := depot.NewCache(upstream{conn, wire.ProxyPackagesSubject(e.Area, p.state.id.public)})
	from := depot.New(kept, p.cfg.Log)
	for ctx.Err() == nil {
		//nolint:contextcheck // stop ends it
		stop, err := conn.ServeEach(wire.PackagesOf(e.Area), wire.ServersQueue, depot.Workers, from.Answer)
		if err == nil {
			defer stop()
			return kept.Run(ctx)
		}
		// Servers of an earlier version do not allow it.
		p.cfg.Log.DebugContext(ctx, "cannot answer questions about packages, the servers do", "error", err)
		idle.Sleep(ctx, allowedAgain)
	}
	return nil
}
