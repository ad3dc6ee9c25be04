// Package serverconfig holds the settings of drover server. It owns their names, their defaults and their validation;
// package settings reads them.
package serverconfig

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"drover/internal/config"
	"drover/internal/config/settings"
)

// Config holds the settings of drover server. The keys of the file are the names of the flags.
type Config struct {
	DataDir string `yaml:"data-dir"`
	// HTTP and Fabric are the listen addresses.
	HTTP   string `yaml:"http"`
	Fabric string `yaml:"fabric"`
	// Database is the URL of a PostgreSQL database, or the path of a SQLite file; empty: server/drover.db in the data
	// directory.
	Database string `yaml:"database"`
	// NATS are the URLs of external brokers. If it is set, the server embeds no broker and does not listen on Fabric.
	NATS []string `yaml:"nats"`
	// Cluster is the address to which the embedded brokers of other servers connect, and Routes are the addresses of
	// those brokers, host:port.
	Cluster string   `yaml:"cluster"`
	Routes  []string `yaml:"route"`
	// Advertise are the addresses to which agents connect, host:port. The default is NATS, or Fabric if that is a
	// single address.
	Advertise []string `yaml:"advertise"`
	Proxies   `yaml:",inline"`
	TLS       `yaml:",inline"`
	// TrustedGateway and LoginURL are as in config.Dev.
	TrustedGateway []string `yaml:"trusted-gateway"`
	LoginURL       string   `yaml:"login-url"`
	LogLevel       string   `yaml:"log-level"`
	// ApprovalAbove is a number of hosts, above which a rollout needs the approval of a second person; empty means
	// never.
	ApprovalAbove string `yaml:"approval-above"`
	Breakers      `yaml:",inline"`
	// OIDC is the identity provider of the console; only the file has it.
	OIDC OIDC `yaml:"oidc"`
	// Console has further settings of the console; only the file has them.
	Console Console `yaml:"console"`

	Bootstrap config.Bootstrap `yaml:"-"`
	// Gateways are the parsed TrustedGateway, once Validate has returned.
	Gateways config.Prefixes `yaml:"-"`
	// Breadth is the parsed ApprovalAbove, once Validate has returned; 0 means no limit.
	Breadth int `yaml:"-"`
}

// Breakers holds the thresholds of breakers as texts; an empty one stands for the default.
type Breakers struct {
	// Share is a percentage of hosts, and Hosts the least number of hosts, that fail within Window. Hold is how long a
	// breaker stays open.
	Share  string `yaml:"breaker-share"`
	Hosts  string `yaml:"breaker-hosts"`
	Window string `yaml:"breaker-window"`
	Hold   string `yaml:"breaker-hold"`
	// Thresholds are the parsed texts, once Validate has returned.
	Thresholds Thresholds `yaml:"-"`
}

// Thresholds are the parsed thresholds of breakers; 0 stands for the default.
type Thresholds struct {
	Share        float64
	Hosts        int
	Window, Hold time.Duration
}

// settings lists the settings of breakers.
func (b *Breakers) settings() []settings.Setting {
	return []settings.Setting{
		{
			Name: "breaker-share",
			Help: "a breaker opens if more than this share of the hosts of a process fails from one cause (default: 30%)",
			Text: &b.Share,
		},
		{
			Name: "breaker-hosts",
			Help: "hosts that must fail before a breaker opens (default: 5)",
			Text: &b.Hosts,
		},
		{
			Name: "breaker-window",
			Help: "time within which hosts must fail before a breaker opens (default: 60s)",
			Text: &b.Window,
		},
		{Name: "breaker-hold", Help: "how long a breaker stays open (default: 5m)", Text: &b.Hold},
	}
}

// read parses the texts.
func (b *Breakers) read(fault func(format string, args ...any)) {
	t := &b.Thresholds
	if b.Share != "" {
		n, err := strconv.Atoi(strings.TrimSuffix(b.Share, "%"))
		if err != nil || n < 1 || n > 100 || !strings.HasSuffix(b.Share, "%") {
			fault("breaker-share %q: expected a percentage from 1%% to 100%%, such as 30%%", b.Share)
		}
		t.Share = float64(n) / 100
	}
	if b.Hosts != "" {
		var err error
		if t.Hosts, err = strconv.Atoi(b.Hosts); err != nil || t.Hosts < 1 {
			fault("breaker-hosts %q: expected a number of hosts, from 1", b.Hosts)
		}
	}
	for _, d := range []struct {
		name, text string
		to         *time.Duration
	}{{"breaker-window", b.Window, &t.Window}, {"breaker-hold", b.Hold, &t.Hold}} {
		if d.text == "" {
			continue
		}
		var err error
		if *d.to, err = time.ParseDuration(d.text); err != nil || *d.to < time.Second || *d.to > longestBreaker {
			fault("%s %q: expected a time from 1s to %s, such as 60s", d.name, d.text, longestBreaker)
		}
	}
}

// longestBreaker bounds the times of breakers: the server looks at the events of the window when it starts.
const longestBreaker = time.Hour

// Proxies holds the addresses for proxies.
type Proxies struct {
	// Listen is the listen address for proxies; empty means none.
	Listen string `yaml:"proxies"`
	// AdvertiseProxies are the addresses to which proxies connect, host:port. The default is Listen if that is a single
	// address, else the hosts of Advertise with its port.
	AdvertiseProxies []string `yaml:"advertise-proxies"`
}

// TLS holds the TLS settings of the API.
type TLS struct {
	// InsecureHTTP serves the API without TLS.
	InsecureHTTP bool `yaml:"insecure-http"`
	// TLSCert and TLSKey are the files of an external certificate.
	TLSCert string `yaml:"tls-cert"`
	TLSKey  string `yaml:"tls-key"`
}

// The default ports.
const (
	defaultHTTP    = "0.0.0.0:7350"
	defaultFabric  = "0.0.0.0:7351"
	defaultProxies = "0.0.0.0:7352"
)

// Default returns the default settings of a server.
func Default() Config {
	return Config{DataDir: config.DataDir(), HTTP: defaultHTTP, Fabric: defaultFabric, LogLevel: "info"}
}

// Settings lists the settings of a Config, in the order in which the help shows them.
func (c *Config) Settings() []settings.Setting {
	return append([]settings.Setting{
		{Name: "data-dir", Help: "directory for all stored data", Text: &c.DataDir},
		{Name: "http", Help: "address of the API", Text: &c.HTTP},
		{Name: "fabric", Help: "address that agents connect to", Text: &c.Fabric},
		{
			Name: "database",
			Help: "URL of a PostgreSQL database, such as postgres://drover@db.example.com/drover, or path of a " +
				"SQLite file (default: server/drover.db in the data directory). Put a password into the file of " +
				"--config, DROVER_DATABASE or PGPASSFILE",
			Text: &c.Database,
		},
		{
			Name: "nats",
			Help: "URL of a NATS broker to use instead of an embedded one, such as tls://nats1.example.com:4222; " +
				"may be repeated",
			List: &c.NATS,
		},
		{
			Name: "cluster",
			Help: "address that the embedded brokers of other servers connect to, such as 0.0.0.0:7353 (default: no " +
				"cluster)",
			Text: &c.Cluster,
		},
		{Name: "route", Help: "HOST:PORT of another server's --cluster; may be repeated", List: &c.Routes},
		{
			Name: "advertise",
			Help: "HOST:PORT by which agents reach the fabric, also through NAT; may be repeated; required if " +
				"--fabric is a wildcard address",
			List: &c.Advertise,
		},
		{
			Name: "proxies",
			Help: "address that proxies connect to, such as " + defaultProxies + " (default: no proxies)",
			Text: &c.Listen,
		},
		{
			Name: "advertise-proxies",
			Help: "HOST:PORT by which proxies reach each server or broker; may be repeated (default: --proxies if " +
				"it is one address, otherwise the hosts of --advertise with the port of --proxies)",
			List: &c.AdvertiseProxies,
		},
		{
			Name: "insecure-http",
			Help: "serve HTTP without TLS: only for loopback, or behind a TLS proxy on this machine",
			Bool: &c.InsecureHTTP,
		},
		{
			Name: "tls-cert",
			Help: "PEM file of the API's certificate and its issuers (default: the server issues its own " +
				"certificate)",
			Text: &c.TLSCert,
		},
		{Name: "tls-key", Help: "file of the private key of --tls-cert", Text: &c.TLSKey},
		{
			Name: "trusted-gateway",
			Help: "network of trusted gateways, which may name app and user without a proof on /procapi and " +
				"/esb/api; may be repeated",
			List: &c.TrustedGateway,
		},
		{
			Name: "login-url",
			Help: "BlueKing login service that verifies a bk_token, such as https://paas.example.com/login",
			Text: &c.LoginURL,
		},
		{
			Name: "approval-above",
			Help: "number of hosts above which an operation or an apply must be a rollout that a second person approves " +
				"(default: no limit)",
			Text: &c.ApprovalAbove,
		},
		{Name: "log-level", Help: "debug, info, warn or error", Text: &c.LogLevel},
	}, c.Breakers.settings()...)
}

// ReadFile reads a file over the settings. An unknown key is an error.
func (c *Config) ReadFile(path string) error { return settings.ReadFile(path, c) }

// ReadEnvironment reads the environment over the settings.
func (c *Config) ReadEnvironment() error {
	c.Bootstrap = config.FromEnvironment()
	return settings.ReadEnvironment(c.Settings())
}

// Validate reports everything that is wrong, and makes the data directory absolute.
func (c *Config) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	check := func(err error) {
		if err != nil {
			faults = append(faults, err)
		}
	}
	check(settings.DataDir(&c.DataDir))
	_, err := settings.Address("http", c.HTTP, defaultHTTP)
	check(err)
	host, err := settings.Address("fabric", c.Fabric, defaultFabric)
	check(err)
	if err == nil && settings.Everywhere(host) && len(c.Advertise)+len(c.NATS) == 0 {
		fault(
			"fabric %q is a wildcard address: say with advertise which address agents connect to, such as drover.example.com:7351", c.Fabric)
	}
	for _, u := range c.NATS {
		if !wellFormed(u) {
			fault("nats %q: expected tls://HOST:PORT, such as tls://nats1.example.com:4222", u)
		}
	}
	c.checkCluster(fault)
	for _, a := range c.Advertise {
		check(settings.Advertised("advertise", a, "drover.example.com:7351"))
	}
	check(Database(c.Database))
	c.checkProxies(check)
	c.checkTLS(fault)
	for _, g := range c.TrustedGateway {
		if err := c.Gateways.Set(g); err != nil {
			fault("trusted-gateway: %w", err)
		}
	}
	if c.ApprovalAbove != "" {
		if c.Breadth, err = strconv.Atoi(c.ApprovalAbove); err != nil || c.Breadth < 1 {
			fault("approval-above %q: expected a number of hosts, from 1", c.ApprovalAbove)
		}
	}
	c.Breakers.read(fault)
	c.OIDC.read(c.Console.BasePath, fault)
	c.Console.read(fault)
	check(settings.LogLevel(c.LogLevel))
	check(c.Bootstrap.Validate())
	return errors.Join(faults...)
}

// Database returns an error if the name of a database is invalid. The error does not quote a URL, which may hold a
// password anywhere.
func Database(name string) error {
	scheme, _, isURL := strings.Cut(name, "://")
	if !isURL {
		return nil
	}
	if scheme != "postgres" && scheme != "postgresql" {
		return fmt.Errorf("database: expected the path of a file or a URL like %s", exampleDatabase)
	}
	u, err := url.Parse(name)
	if err != nil || strings.Trim(u.Path, "/") == "" && !u.Query().Has("dbname") {
		return fmt.Errorf(
			"database: expected a URL like %s; the given URL is not shown, because it may hold a password",
			exampleDatabase)
	}
	return nil
}

const exampleDatabase = "postgres://drover@db.example.com:5432/drover?sslmode=verify-full"

// HasPassword reports whether the name of a database holds a password, which must not stand on a command line.
func HasPassword(name string) bool {
	u, err := url.Parse(name)
	if err != nil {
		return strings.Contains(name, "://") // an invalid URL may hold a password
	}
	_, set := u.User.Password()
	return set || u.Query().Has("password")
}

// Remarks returns warnings about valid settings that are often unintended.
func (c *Config) Remarks() []string {
	if _, _, shared := strings.Cut(c.Database, "://"); !shared || len(c.NATS) > 0 || c.Cluster != "" &&
		len(c.Routes) > 0 {
		return nil
	}
	return []string{
		"without cluster and route, or nats, this server does not hear other servers on this database; a single server needs neither",
	}
}

func (c *Config) checkCluster(fault func(string, ...any)) {
	if c.Cluster != "" {
		if _, err := settings.Address("cluster", c.Cluster, "0.0.0.0:7353"); err != nil {
			fault("%w", err)
		}
		if len(c.NATS) > 0 {
			fault("cluster and nats exclude each other: with nats there is no embedded broker")
		}
	}
	for _, r := range c.Routes {
		if err := settings.Advertised("route", r, "drover2.example.com:7353"); err != nil {
			fault("%w", err)
		}
	}
	if len(c.Routes) > 0 && c.Cluster == "" {
		fault("route: expected cluster too")
	}
}

// wellFormed reports whether a URL is valid for a broker. It must use TLS: otherwise the reports of agents would cross
// the network unencrypted, and agents would not connect.
func wellFormed(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "tls" || u.User != nil || u.Path != "" || u.RawQuery != "" {
		return false
	}
	_, err = settings.Address("nats", u.Host, "")
	return err == nil && !settings.Everywhere(u.Hostname())
}

func (c *Config) checkProxies(check func(error)) {
	if c.Listen != "" {
		host, err := settings.Address("proxies", c.Listen, defaultProxies)
		check(err)
		if err == nil && settings.Everywhere(host) && len(c.Advertise)+len(c.AdvertiseProxies) == 0 {
			check(
				fmt.Errorf(
					"proxies %q is a wildcard address: say with advertise-proxies which address proxies connect to, such as drover.example.com:7352", c.Listen))
		}
		if len(c.NATS) > 0 {
			check(
				errors.New(
					"proxies and nats exclude each other: the brokers of nats listen for proxies; give their addresses with advertise-proxies"))
		}
	}
	for _, a := range c.AdvertiseProxies {
		check(settings.Advertised("advertise-proxies", a, "drover.example.com:7352"))
	}
}

func (c *Config) checkTLS(fault func(string, ...any)) {
	if (c.TLSCert == "") != (c.TLSKey == "") {
		fault("tls-cert and tls-key: expected both or none")
	}
	if c.InsecureHTTP && c.TLSCert != "" {
		fault("insecure-http and tls-cert exclude each other")
	}
	for name, path := range map[string]string{"tls-cert": c.TLSCert, "tls-key": c.TLSKey} {
		if path == "" {
			continue
		}
		if f, err := os.Open(path); err != nil {
			fault("%s: %w", name, err)
		} else {
			_ = f.Close() // the file was only read
		}
	}
}

// Names returns the host names and addresses of the server: the listen addresses, the advertised addresses, its own
// name and loopback.
func (c *Config) Names() []string {
	return settings.Hosts(append([]string{c.HTTP, c.Fabric}, c.Advertise...)...)
}
