package broker_test

import (
	"net/url"

	"github.com/nats-io/nats-server/v2/server"
)

// openRelay starts a leaf node as an attacker would who has a proxy's key: it lets in everybody, with every right. It
// returns where.
func (n *network) openRelay(id credential) string {
	n.t.Helper()
	hub := &url.URL{Scheme: "tls", Host: n.config.Leaves}
	remote := &server.RemoteLeafOpts{
		URLs: []*url.URL{hub}, TLS: true, TLSConfig: trusting(n.t, n.manager), TLSHandshakeFirst: true,
		SignatureCB: func(nonce []byte) (string, []byte, error) {
			signature, err := id.Key.Sign(nonce)
			return id.JWT, signature, err
		},
	}
	opts := &server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, ServerName: "open", TLS: true,
		TLSConfig: n.manager.ServerTLS(), TLSHandshakeFirst: true,
	}
	opts.LeafNode.Remotes = []*server.RemoteLeafOpts{remote}
	srv, err := server.NewServer(opts)
	if err != nil {
		n.t.Fatal(err)
	}
	srv.Start()
	n.t.Cleanup(func() {
		srv.Shutdown()
		srv.WaitForShutdown()
	})
	eventually(n.t, "the open relay to be joined", func() bool { return srv.NumLeafNodes() > 0 })
	return srv.ClientURL()
}
