package serve

import (
	"io"
	"log/slog"

	"drover/internal/server"
)

// Node describes a NATS broker that servers use instead of an embedded one.
type Node = server.Node

// ConfigureNode makes the configuration of a broker by the keys below a server's directory.
func ConfigureNode(dir string, n Node, out io.Writer, log *slog.Logger) error {
	return server.ConfigureNode(dir, n, out, log)
}
