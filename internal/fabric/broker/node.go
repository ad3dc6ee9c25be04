package broker

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/nats-io/nkeys"

	"drover/internal/fabric"
)

// Node is one broker of an external cluster.
type Node struct {
	// Name is unique in the cluster.
	Name string
	// Listen is the address for agents and servers, Leaves for proxies, Cluster for the other brokers; the last two
	// may be empty.
	Listen, Leaves, Cluster string
	// Routes are the Cluster addresses of the other brokers, as this broker reaches them.
	Routes []string
	// Dir is the directory of the node with its files CertFile, KeyFile and CAFile, and with the accounts.
	Dir string
}

// The files of a node, in its directory.
const (
	ConfigFile = "nats-server.conf"
	CertFile   = "node.pem"
	KeyFile    = "node.key"
	CAFile     = "ca.pem"
	accountDir = "accounts"
)

// ConfigureNode writes the configuration of a broker that accepts the same clients as a server with these keys and
// rights; it ignores the rest of keys. The configuration holds no secret. ConfigureNode makes missing keys. The
// servers send the revoked keys to the brokers.
func ConfigureNode(out io.Writer, keys ExternalConfig, n Node) error {
	a, err := openAuthority(keys.Dir, keys.Signers, keys.Agents, keys.Proxies)
	if err != nil {
		return fmt.Errorf("cannot configure broker: %w", err)
	}
	var operators []string
	for _, signer := range append([]nkeys.KeyPair{a.servers.Load().key}, keys.Operators...) {
		operator, err := rootKeyToken(signer, a.system)
		if err != nil {
			return fmt.Errorf("cannot configure broker: %w", err)
		}
		operators = append(operators, strconv.Quote(operator))
	}
	account, err := a.accountToken()
	if err != nil {
		return fmt.Errorf("cannot configure broker: %w", err)
	}
	system, err := a.systemToken()
	if err != nil {
		return fmt.Errorf("cannot configure broker: %w", err)
	}
	var text strings.Builder
	n.general(&text)
	fmt.Fprintf(&text, "operator: [%s]\nsystem_account: %q\n", strings.Join(operators, ", "), a.system)
	fmt.Fprintf(&text, "resolver {\n  type: full\n  dir: %q\n  allow_delete: false\n  interval: \"1m\"\n}\n",
		n.path(accountDir))
	fmt.Fprintf(&text, "resolver_preload {\n  %s: %q\n  %s: %q\n}\n", a.account, account, a.system, system)
	n.listeners(&text, a.account)
	_, err = io.WriteString(out, text.String())
	return err
}

func (n *Node) path(file string) string { return strings.TrimSuffix(n.Dir, "/") + "/" + file }

func (n *Node) general(text *strings.Builder) {
	fmt.Fprintf(text,
		"# A broker of drover's fabric, for nats-server 2.14 or later, made by 'drover server nats-config'. It holds no secret.\n")
	fmt.Fprintf(text, "server_name: %q\nlisten: %q\n", n.Name, n.Listen)
	fmt.Fprintf(text, "max_payload: %d\nping_interval: \"%ds\"\nping_max: %d\nwrite_deadline: %q\n",
		fabric.MaxMessage, int(nodePing.Seconds()), maxPingsOut, writeDeadline)
	fmt.Fprintf(text, "lame_duck_duration: \"30s\"\nauthorization { timeout: %d }\n", authTimeout)
}

// listeners writes the configuration of the listeners: TLS before the first byte, and mutual TLS between brokers.
func (n *Node) listeners(text *strings.Builder, account string) {
	shown := fmt.Sprintf("cert_file: %q, key_file: %q, timeout: %d", n.path(CertFile), n.path(KeyFile), tlsTimeout)
	fmt.Fprintf(text, "tls { %s, handshake_first: true }\n", shown)
	if n.Leaves != "" {
		fmt.Fprintf(text,
			"leafnodes {\n  listen: %q\n  no_advertise: true\n  isolate_leafnode_interest: true\n  authorization { timeout: %d }\n  tls { %s, handshake_first: true }\n}\n",
			n.Leaves, authTimeout, shown)
	}
	if n.Cluster == "" {
		return
	}
	routes := make([]string, len(n.Routes))
	for i, r := range n.Routes {
		routes[i] = strconv.Quote("nats-route://" + r)
	}
	// Agents must not learn addresses of the servers' network.
	fmt.Fprintf(text,
		"cluster {\n  name: %q\n  listen: %q\n  no_advertise: true\n  routes: [%s]\n  tls { %s, ca_file: %q, verify: true }\n}\n",
		"drover-"+account, n.Cluster, strings.Join(routes, ", "), shown, n.path(CAFile))
}
