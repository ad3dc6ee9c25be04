package broker

import (
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"net/url"

	"github.com/nats-io/nats-server/v2/server"
)

// Cluster is how the embedded brokers of several servers are one fabric: each connects to each, and an agent that is connected to one is
// reached through all.
type Cluster struct {
	// Listen is the address and port where the others connect. Port 0 is any.
	Listen string
	// Routes are the addresses, host:port, of others. Those that they know are found through them, if each listens on the address that its
	// connections begin at.
	Routes []string
	// TLS is what is shown to the others, on both sides, and how they are verified.
	TLS *tls.Config
}

// options has a server be one of a cluster.
func (c *Cluster) options(opts *server.Options) error {
	host, port, err := splitAddress(c.Listen)
	if err != nil {
		return err
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	opts.ServerName = "drover-" + rand.Text() // no two may have the same
	opts.Cluster.Name = "drover"
	opts.Cluster.Host, opts.Cluster.Port = host, port
	opts.Cluster.TLSConfig, opts.Cluster.TLSTimeout = c.TLS, tlsTimeout
	opts.Cluster.AuthTimeout = authTimeout
	for _, address := range c.Routes {
		route, err := url.Parse("nats-route://" + address)
		if err != nil {
			return fmt.Errorf("route %q is not an address: %w", address, err)
		}
		opts.Routes = append(opts.Routes, route)
	}
	return nil
}
