// Package serverconfig holds the settings of drover server: a YAML file, environment variables of the same names over it, and flags
// over both. It owns their names, defaults and what is wrong with them. It is apart from package config so that the agent does not link
// a reader of YAML.
package serverconfig

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"drover/internal/config"
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

// Setting is one of the settings, with its flag.
type Setting struct {
	// Name is that of the flag and of the key in the file.
	Name string
	Help string
	// One of these is set.
	Text *string
	List *[]string
	Bool *bool
}

// Variable is the name of its environment variable.
func (s Setting) Variable() string {
	return "DROVER_" + strings.ToUpper(strings.ReplaceAll(s.Name, "-", "_"))
}

// Default returns the settings of a server that is told nothing.
func Default() Config {
	return Config{DataDir: config.DataDir(), HTTP: DefaultHTTP, Fabric: DefaultFabric, LogLevel: "info"}
}

// Settings lists the settings of a Config, in the order in which the help shows them.
func (c *Config) Settings() []Setting {
	return []Setting{
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
func (c *Config) ReadFile(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("cannot read configuration: %w", err)
	}
	d := yaml.NewDecoder(bytes.NewReader(data), yaml.Strict())
	if err := d.Decode(c); err != nil && !errors.Is(err, io.EOF) { // an empty file says nothing
		return fmt.Errorf("cannot read configuration %s: %s", path, strings.TrimSpace(yaml.FormatError(err, false, true)))
	}
	return nil
}

// ReadEnvironment reads the environment over the settings. Lists have commas.
func (c *Config) ReadEnvironment() error {
	c.Bootstrap = config.FromEnvironment()
	var faults []error
	for _, s := range c.Settings() {
		value, set := os.LookupEnv(s.Variable())
		if !set {
			continue
		}
		switch {
		case s.Text != nil:
			*s.Text = value
		case s.List != nil:
			*s.List = strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' })
		default:
			yes, err := strconv.ParseBool(value)
			if err != nil {
				faults = append(faults, fmt.Errorf("%s=%q: expected true or false", s.Variable(), value))
			}
			*s.Bool = yes
		}
	}
	return errors.Join(faults...)
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
	checkAddress("http", c.HTTP, DefaultHTTP, fault)
	if host, ok := checkAddress("fabric", c.Fabric, DefaultFabric, fault); ok && everywhere(host) && len(c.Advertise) == 0 {
		fault("fabric %q is every address: say with advertise which one agents connect to, such as drover.example.com:7351", c.Fabric)
	}
	for _, a := range c.Advertise {
		if host, ok := checkAddress("advertise", a, "drover.example.com:7351", fault); ok && everywhere(host) {
			fault("advertise %q: expected the name or address of this server, such as drover.example.com:7351", a)
		} else if ok && strings.HasSuffix(a, ":0") {
			fault("advertise %q: expected a port", a)
		}
	}
	c.checkTLS(fault)
	for _, g := range c.TrustedGateway {
		if err := c.Gateways.Set(g); err != nil {
			fault("trusted-gateway: %w", err)
		}
	}
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, c.LogLevel) {
		fault("log-level %q: expected debug, info, warn or error", c.LogLevel)
	}
	if err := c.Bootstrap.Validate(); err != nil {
		faults = append(faults, err)
	}
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

// checkAddress reports an address that is not host:port, and returns its host.
func checkAddress(name, address, example string, fault func(string, ...any)) (host string, ok bool) {
	host, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil || strings.ContainsAny(host, " /@") {
		fault("%s %q: expected HOST:PORT, such as %s", name, address, example)
		return "", false
	}
	return host, true
}

// everywhere reports whether a host stands for all addresses of the machine.
func everywhere(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

// Names are the host names and addresses by which the server is reached: those it listens on, those it advertises, its own name and
// loopback.
func (c *Config) Names() []string {
	var names []string
	add := func(name string) {
		if name != "" && !everywhere(name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, address := range append([]string{c.HTTP, c.Fabric}, c.Advertise...) {
		if host, _, err := net.SplitHostPort(address); err == nil {
			add(host)
		}
	}
	if name, err := os.Hostname(); err == nil {
		add(name)
	}
	for _, name := range []string{"localhost", "127.0.0.1", "::1"} {
		add(name)
	}
	return names
}
