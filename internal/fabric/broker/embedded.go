package broker

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"drover/internal/fabric"
)

const (
	authTimeout = 15 // seconds; a whole fleet may reconnect at once
	tlsTimeout  = 15 // seconds
	// pingInterval is how long a client may be silent before a ping. The kernel notices a lost peer much earlier
	// (fabric.KeepAlive); pings find a program that hangs.
	pingInterval = 75 * time.Second
	// routePing is the interval of pings between brokers: the side that dialled has no other sign of a lost broker, and
	// gives it up after three intervals.
	routePing     = 8 * time.Second
	maxPingsOut   = 2
	writeDeadline = 10 * time.Second
	closedKept    = 16 // number of remembered closed connections, which drover never reads
	portFile      = "port"
	settleTimeout = time.Minute // for steps that take microseconds unless the machine is overloaded
	settleEvery   = time.Millisecond
)

// errListen marks a failure of the address for clients.
var errListen = errors.New("cannot listen")

// endpoint is the address for clients, with its TLS configuration.
type endpoint struct {
	// dir keeps the last port; port 0 means that port if it is free, otherwise any port.
	dir, host string
	port      int
	tls       *tls.Config
	log       *slog.Logger
	denied    func(text string) // may be nil
	ready     <-chan struct{}   // may be nil
}

func newEndpoint(dir, listen string, tls *tls.Config, log *slog.Logger) (endpoint, error) {
	host, port, err := splitAddress(listen)
	return endpoint{dir: dir, host: host, port: port, tls: tls, log: log}, err
}

func splitAddress(listen string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(listen)
	if err != nil {
		return "", 0, err
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("port %q: expected a number from 0 to 65535", text)
	}
	return host, int(n), nil
}

// start starts a server; configure returns new options for each attempt. Agents know only the port of the last start,
// so start tries that port first. It fails unless the server listens on all its addresses.
func (e endpoint) start(configure func() (*server.Options, error)) (*server.Server, int, error) {
	if e.port == 0 {
		if last := lastPort(e.dir); last != 0 {
			srv, port, err := e.startOn(last, configure)
			if !errors.Is(err, errListen) {
				return srv, port, err
			}
			e.log.Warn("another program uses the previous port of the broker", "port", last)
		}
		e.port = server.RANDOM_PORT
	}
	srv, port, err := e.startOn(e.port, configure)
	if err != nil {
		return nil, 0, err
	}
	if err := os.WriteFile(filepath.Join(e.dir, portFile), []byte(strconv.Itoa(port)+"\n"), 0o600); err != nil {
		shutdown(srv)
		return nil, 0, err
	}
	return srv, port, nil
}

func (e endpoint) startOn(port int, configure func() (*server.Options, error)) (*server.Server, int, error) {
	opts, err := configure()
	if err != nil {
		return nil, 0, err
	}
	opts.Host = e.host
	opts.Port = port
	opts.NoSigs = true
	opts.NoSystemAccount = true
	opts.MaxPayload = fabric.MaxMessage
	opts.AuthTimeout = authTimeout
	opts.PingInterval = pingInterval
	opts.MaxPingsOut = maxPingsOut
	// Otherwise each client gets a ping two seconds after its connect begins, which nobody needs: it would only add to
	// the work when a whole fleet comes back.
	opts.DisableShortFirstPing = true
	opts.WriteDeadline = writeDeadline
	opts.MaxClosedClients = closedKept
	opts.MaxConn = connections()
	opts.Cluster.PingInterval = routePing
	opts.Cluster.NoAdvertise = true // agents must not learn addresses of the servers' network
	if e.tls != nil {
		opts.TLS, opts.TLSHandshakeFirst, opts.TLSTimeout = true, true, tlsTimeout
		opts.TLSConfig = forProcessors(e.ready).limit(e.tls)
	}
	srv, err := server.NewServer(opts)
	if err != nil {
		return nil, 0, err
	}
	log := &logBridge{log: e.log, denied: e.denied}
	srv.SetLoggerV2(log, false, false, false)
	clustered := opts.Cluster.Port != 0
	srv.Start() // returns once the client and proxy ports are open, or once it has logged the failure
	chosen, err := settle(srv, clustered, log)
	if err != nil {
		shutdown(srv)
		return nil, 0, err
	}
	go limitConnections(srv, e.log)
	return srv, chosen, nil
}

// settle waits until a started server listens on all its addresses, and returns its port for clients, or the error.
// The server opens the cluster port a little later than the other ports. settle waits for it even if another port has
// failed: a server that is shut down earlier would keep the cluster port, and block the next attempt.
func settle(srv *server.Server, clustered bool, log *logBridge) (port int, err error) {
	addr, listens := srv.Addr().(*net.TCPAddr)
	deadline := time.NewTimer(settleTimeout)
	defer deadline.Stop()
	look := time.NewTicker(settleEvery)
	defer look.Stop()
	for clustered && srv.ClusterAddr() == nil && !log.failed("route") {
		select {
		case <-deadline.C:
			return 0, fmt.Errorf("cannot find out within %v whether the cluster port is open", settleTimeout)
		case <-look.C:
		}
	}
	reasons := log.begun()
	switch text := strings.Join(reasons, "; "); {
	case !listens && len(reasons) <= 1:
		return 0, fmt.Errorf("%w: %s", errListen, text)
	case len(reasons) > 0:
		return 0, errors.New(text)
	}
	return addr.Port, nil
}

// A server without free descriptors answers no caller and cannot open its files. So clients get only a part of the
// descriptors: all but a reserve, and at least half.
const (
	reserveShare = 50
	reserveLeast = 64
)

// connections returns the largest number of clients of a server in this process.
func connections() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return server.DEFAULT_MAX_CONNECTIONS
	}
	return connectionsOf(limit.Cur)
}

func connectionsOf(descriptors uint64) int {
	n := int(min(descriptors, math.MaxInt32)) //nolint:gosec // it fits
	return n - min(max(n/reserveShare, reserveLeast), n/2)
}

func shutdown(srv *server.Server) {
	srv.Shutdown()
	srv.WaitForShutdown()
}

// lastPort returns the port of the last start, or 0 if it is unknown.
func lastPort(dir string) int {
	text, err := os.ReadFile(filepath.Join(dir, portFile))
	if err != nil {
		return 0
	}
	port, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 16)
	if err != nil {
		return 0
	}
	return int(port)
}
