package brokers

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"drover/internal/durable"
	"drover/internal/fabric/broker"
	"drover/internal/pki"
	"drover/internal/server/keyring"
	"drover/internal/wire"
)

// Node is an external broker of the fabric.
type Node struct {
	broker.Node
	// Names are the host names and IP addresses by which it is reached, by agents and by the others.
	Names []string
	// Out is the directory for its files, which an operator then copies to its Dir. If it is empty, ConfigureNode only
	// writes the configuration.
	Out string
}

// ConfigureNode writes the configuration of a broker to out, with the keys in a server's directory. If n.Out is set,
// it also writes the broker's files: configuration, certificate, key, and the authority of the other brokers. It
// replaces existing files, so it can also renew a certificate.
func ConfigureNode(dir string, keys *keyring.Ring, authority *pki.Manager, n Node, out io.Writer) error {
	var text bytes.Buffer
	if err := broker.ConfigureNode(&text, externalKeys(dir, keys), n.Node); err != nil {
		return err
	}
	if n.Out == "" {
		_, err := out.Write(text.Bytes())
		return err
	}
	cert, key, err := authority.IssueNode(n.Names)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(n.Out, 0o700); err != nil {
		return fmt.Errorf("cannot write files of a broker: %w", err)
	}
	for _, file := range []struct {
		name string
		data []byte
		mode os.FileMode
	}{
		{broker.KeyFile, key, 0o600},
		{broker.CertFile, cert, 0o644},
		{broker.CAFile, []byte(authority.CA()), 0o644},
		{broker.ConfigFile, text.Bytes(), 0o644},
	} {
		if err := durable.Replace(filepath.Join(n.Out, file.name), file.data, file.mode); err != nil {
			return fmt.Errorf("cannot write files of a broker: %w", err)
		}
	}
	_, err = fmt.Fprintf(out,
		"%s has %s, %s, %s and %s: bring them to %s on the host of %s, and run nats-server -c %s there\n", n.Out,
		broker.ConfigFile, broker.CertFile, broker.KeyFile, broker.CAFile, n.Dir, n.Name,
		filepath.Join(n.Dir, broker.ConfigFile))
	return err
}

// externalKeys returns the keys and rights by which external brokers admit the same clients as an embedded broker.
func externalKeys(dir string, keys *keyring.Ring) broker.ExternalConfig {
	return broker.ExternalConfig{
		Dir: directory(dir), Signers: signers(keys), Operators: keys.Pairs(keyring.ServerSigner)[1:],
		Agents:  rights(wire.AgentSubjects()),
		Proxies: rights(wire.ProxySubjects()),
	}
}
