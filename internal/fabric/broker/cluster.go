package broker

import (
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"net/url"

	"github.com/nats-io/nats-server/v2/server"
)

// Cluster makes one fabric of the embedded brokers of several servers: each broker connects to each. If an agent is
// connected to one broker, all brokers reach it.
type Cluster struct {
	// Listen is the address and port for the other brokers. Port 0 is any port.
	Listen string
	// Routes are the addresses, host:port, of other brokers. A broker finds further brokers through them, if each
	// listens on the source address of its connections.
	Routes []string
	// TLS is the certificate and the verification of both sides.
	TLS *tls.Config
}

// options makes a server a member of a cluster.
func (c *Cluster) options(opts *server.Options) error {
	host, port, err := splitAddress(c.Listen)
	if err != nil {
		return err
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	opts.ServerName = "drover-" + rand.Text() // server names must be unique
	opts.Cluster.Name = "drover"
	opts.Cluster.Host, opts.Cluster.Port = host, port
	opts.Cluster.TLSConfig, opts.Cluster.TLSTimeout = accepting(c.TLS, nil), tlsTimeout
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
