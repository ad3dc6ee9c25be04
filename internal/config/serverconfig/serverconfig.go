// Package serverconfig holds the settings of drover server. It owns their names, defaults and what is wrong with them; package settings
// reads them.
package serverconfig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"drover/internal/config"
	"drover/internal/config/settings"
)

// Config is what drover server is told. The keys of the file are the names of the flags.
type Config struct {
	DataDir string `yaml:"data-dir"`
	// HTTP and Fabric are what is listened on.
	HTTP   string `yaml:"http"`
	Fabric string `yaml:"fabric"`
	// Advertise is what agents connect to, host:port; empty: what Fabric says, where that is one address.
	Advertise []string `yaml:"advertise"`
	// InsecureHTTP has the API speak without TLS.
	InsecureHTTP bool `yaml:"insecure-http"`
	// TLSCert and TLSKey are files of a certificate that somebody else has issued, for the API.
	TLSCert string `yaml:"tls-cert"`
	TLSKey  string `yaml:"tls-key"`
	// TrustedGateway and LoginURL are as in config.Dev.
	TrustedGateway []string `yaml:"trusted-gateway"`
	LoginURL       string   `yaml:"login-url"`
	LogLevel       string   `yaml:"log-level"`

	Bootstrap config.Bootstrap `yaml:"-"`
	// Gateways are those of TrustedGateway, once Validate has returned.
	Gateways config.Prefixes `yaml:"-"`
}

// Default ports.
const (
	DefaultHTTP   = "0.0.0.0:7350"
	DefaultFabric = "0.0.0.0:7351"
)

// Default returns the settings of a server that is told nothing.
func Default() Config {
	return Config{DataDir: config.DataDir(), HTTP: DefaultHTTP, Fabric: DefaultFabric, LogLevel: "info"}
}

// Settings lists the settings of a Config, in the order in which the help shows them.
func (c *Config) Settings() []settings.Setting {
	return []settings.Setting{
		{Name: "data-dir", Help: "directory of everything that is kept", Text: &c.DataDir},
		{Name: "http", Help: "address of the API", Text: &c.HTTP},
		{Name: "fabric", Help: "address that agents connect to", Text: &c.Fabric},
		{Name: "advertise", Help: "HOST:PORT of the fabric as agents reach it, also through NAT; may be repeated; needed where --fabric is every address", List: &c.Advertise},
		{Name: "insecure-http", Help: "speak HTTP without TLS: for loopback, or behind a proxy on this machine that speaks it", Bool: &c.InsecureHTTP},
		{Name: "tls-cert", Help: "file of a certificate for the API and its issuers, in PEM; without it the server is its own authority", Text: &c.TLSCert},
		{Name: "tls-key", Help: "file of the key that belongs to --tls-cert", Text: &c.TLSKey},
		{Name: "trusted-gateway", Help: "network whose peers are believed, on /procapi and /esb/api, whom they call for; may be repeated", List: &c.TrustedGateway},
		{Name: "login-url", Help: "BlueKing login service to ask about a bk_token, such as https://paas.example.com/login", Text: &c.LoginURL},
		{Name: "log-level", Help: "debug, info, warn or error", Text: &c.LogLevel},
	}
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
	if abs, err := filepath.Abs(c.DataDir); err != nil || c.DataDir == "" {
		fault("data-dir %q: expected a directory", c.DataDir)
	} else {
		c.DataDir = abs
	}
	check := func(err error) {
		if err != nil {
			faults = append(faults, err)
		}
	}
	_, err := settings.Address("http", c.HTTP, DefaultHTTP)
	check(err)
	host, err := settings.Address("fabric", c.Fabric, DefaultFabric)
	check(err)
	if err == nil && settings.Everywhere(host) && len(c.Advertise) == 0 {
		fault("fabric %q is every address: say with advertise which one agents connect to, such as drover.example.com:7351", c.Fabric)
	}
	for _, a := range c.Advertise {
		check(settings.Advertised("advertise", a, "drover.example.com:7351"))
	}
	c.checkTLS(fault)
	for _, g := range c.TrustedGateway {
		if err := c.Gateways.Set(g); err != nil {
			fault("trusted-gateway: %w", err)
		}
	}
	check(settings.LogLevel(c.LogLevel))
	check(c.Bootstrap.Validate())
	return errors.Join(faults...)
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
			_ = f.Close() // nothing was written
		}
	}
}

// Names are the host names and addresses by which the server is reached: those it listens on, those it advertises, its own name and
// loopback.
func (c *Config) Names() []string {
	return settings.Hosts(append([]string{c.HTTP, c.Fabric}, c.Advertise...)...)
}
