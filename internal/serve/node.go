package serve

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"path/filepath"

	"drover/internal/server"
)

// Node describes a NATS broker that servers use instead of an embedded one.
type Node = server.Node

// ConfigureNode makes the configuration of a broker by the keys below a server's directory.
func ConfigureNode(dir string, n Node, out io.Writer, log *slog.Logger) error {
	return server.ConfigureNode(dir, n, out, log)
}

// Adopt makes a database that of the keys below a server's directory; without a name it is the file there.
func Adopt(ctx context.Context, dir, database string, log *slog.Logger) error {
	return server.Adopt(ctx, dir, cmp.Or(database, filepath.Join(dir, "drover.db")), log)
}
