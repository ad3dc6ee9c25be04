package broker

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/nats-io/jwt/v2"

	"drover/internal/fabric"
)

// Node is one broker of a cluster that somebody else runs.
type Node struct {
	// Name tells it from the others.
	Name string
	// Listen is where agents and servers connect, Leaves where proxies do, Cluster where the other brokers do; the last two may be empty.
	Listen, Leaves, Cluster string
	// Routes are the Cluster addresses of the other brokers, as this one reaches them.
	Routes []string
	// Dir is where the node finds its files, and keeps the accounts: CertFile, KeyFile and CAFile.
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

// ConfigureNode writes the configuration of a broker that lets in whom a server with these keys and rights does; the rest of keys is not
// looked at. It holds no secret. Keys are made where there are none. Who is revoked the servers tell the brokers.
func ConfigureNode(out io.Writer, keys ExternalConfig, n Node) error {
	a, err := openAuthority(keys.Dir, keys.Signers, keys.Agents, keys.Proxies)
	if err != nil {
		return fmt.Errorf("cannot configure broker: %w", err)
	}
	systemID, err := a.system.PublicKey()
	if err != nil {
		return fmt.Errorf("cannot configure broker: %w", err)
	}
	operator, err := a.operatorToken(systemID)
	if err != nil {
		return fmt.Errorf("cannot configure broker: %w", err)
	}
	account, err := a.accountToken()
	if err != nil {
		return fmt.Errorf("cannot configure broker: %w", err)
	}
	claims := jwt.NewAccountClaims(systemID)
	claims.Name = "system"
	systemToken, err := claims.Encode(a.operator)
	if err != nil {
		return fmt.Errorf("cannot sign system account: %w", err)
	}
	var text strings.Builder
	n.general(&text)
	fmt.Fprintf(&text, "operator: %q\nsystem_account: %q\n", operator, systemID)
	fmt.Fprintf(&text, "resolver {\n  type: full\n  dir: %q\n  allow_delete: false\n  interval: \"1m\"\n}\n", n.path(accountDir))
	fmt.Fprintf(&text, "resolver_preload {\n  %s: %q\n  %s: %q\n}\n", a.accountID, account, systemID, systemToken)
	n.listeners(&text, a.accountID)
	_, err = io.WriteString(out, text.String())
	return err
}

func (n *Node) path(file string) string { return strings.TrimSuffix(n.Dir, "/") + "/" + file }

func (n *Node) general(text *strings.Builder) {
	fmt.Fprintf(text, "# A broker of drover's fabric, for nats-server 2.14 or later, made by 'drover server nats-config'. It holds no secret.\n")
	fmt.Fprintf(text, "server_name: %q\nlisten: %q\n", n.Name, n.Listen)
	fmt.Fprintf(text, "max_payload: %d\nping_interval: \"%ds\"\nping_max: %d\nwrite_deadline: %q\n",
		fabric.MaxMessage, int(nodePing.Seconds()), maxPingsOut, writeDeadline)
	fmt.Fprintf(text, "lame_duck_duration: \"30s\"\nauthorization { timeout: %d }\n", authTimeout)
}

// listeners writes down who is listened to, and how: TLS before the first byte, between brokers on both sides.
func (n *Node) listeners(text *strings.Builder, account string) {
	shown := fmt.Sprintf("cert_file: %q, key_file: %q, timeout: %d", n.path(CertFile), n.path(KeyFile), tlsTimeout)
	fmt.Fprintf(text, "tls { %s, handshake_first: true }\n", shown)
	if n.Leaves != "" {
		fmt.Fprintf(text, "leafnodes {\n  listen: %q\n  no_advertise: true\n  isolate_leafnode_interest: true\n  authorization { timeout: %d }\n  tls { %s, handshake_first: true }\n}\n",
			n.Leaves, authTimeout, shown)
	}
	if n.Cluster == "" {
		return
	}
	routes := make([]string, len(n.Routes))
	for i, r := range n.Routes {
		routes[i] = strconv.Quote("nats-route://" + r)
	}
	// Addresses of our own network are no business of an agent's.
	fmt.Fprintf(text, "cluster {\n  name: %q\n  listen: %q\n  no_advertise: true\n  routes: [%s]\n  tls { %s, ca_file: %q, verify: true }\n}\n",
		"drover-"+account, n.Cluster, strings.Join(routes, ", "), shown, n.path(CAFile))
}
