package broker

import "github.com/nats-io/nats-server/v2/server"

// Addresses returns the IP address of each client of this broker, by the public key of its user.
func (b *Broker) Addresses() map[string]string {
	list, err := b.srv.Connz(&server.ConnzOptions{Username: true, Limit: b.srv.NumClients() + listGrowth})
	if err != nil { // only invalid options are an error
		b.log.Error("cannot list connections", "error", err)
		return nil
	}
	addresses := make(map[string]string, len(list.Conns))
	for _, conn := range list.Conns {
		addresses[conn.AuthorizedUser] = conn.IP
	}
	return addresses
}
