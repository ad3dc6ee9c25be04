// Package settings reads the settings of a role of drover: flags override environment variables, which override a
// YAML file. It owns the reading and the validation of addresses; the packages of the roles own the settings. It is
// separate from package config so that the agent does not link a YAML parser.
package settings

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
)

// Setting is one of the settings, with its flag.
type Setting struct {
	// Name is the name of the flag, and the key in the file.
	Name string
	Help string
	// One of these is set.
	Text *string
	List *[]string
	Bool *bool
}

// variable returns the name of its environment variable.
func (s Setting) variable() string {
	return "DROVER_" + strings.ToUpper(strings.ReplaceAll(s.Name, "-", "_"))
}

// Take takes over the value of the same setting of another configuration.
func (s Setting) Take(other Setting) {
	switch {
	case s.Text != nil:
		*s.Text = *other.Text
	case s.List != nil:
		*s.List = *other.List
	default:
		*s.Bool = *other.Bool
	}
}

// ReadFile reads a YAML file into the structure; missing keys keep their values. An unknown key is an error.
func ReadFile(path string, into any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("cannot read configuration: %w", err)
	}
	d := yaml.NewDecoder(bytes.NewReader(data), yaml.Strict())
	if err := d.Decode(into); err != nil && !errors.Is(err, io.EOF) { // an empty file changes nothing
		return fmt.Errorf("cannot read configuration %s: %s", path,
			strings.TrimSpace(yaml.FormatError(err, false, true)))
	}
	return nil
}

// ReadEnvironment reads the environment over the settings. Lists have commas.
func ReadEnvironment(all []Setting) error {
	var faults []error
	for _, s := range all {
		value, set := os.LookupEnv(s.variable())
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
				faults = append(faults, fmt.Errorf("%s=%q: expected true or false", s.variable(), value))
			}
			*s.Bool = yes
		}
	}
	return errors.Join(faults...)
}

// DataDir makes the data directory absolute, and returns an error if it is invalid.
func DataDir(dir *string) error {
	abs, err := filepath.Abs(*dir)
	if err != nil || *dir == "" {
		return fmt.Errorf("data-dir %q: expected a directory", *dir)
	}
	*dir = abs
	return nil
}

// LogLevel returns an error if the name of a log level is invalid.
func LogLevel(level string) error {
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, level) {
		return fmt.Errorf("log-level %q: expected debug, info, warn or error", level)
	}
	return nil
}

// Address returns the host of an address, or an error if the address is not host:port.
func Address(name, address, example string) (host string, err error) {
	host, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil || strings.ContainsAny(host, " /@") {
		return "", fmt.Errorf("%s %q: expected HOST:PORT, such as %s", name, address, example)
	}
	return host, nil
}

// Advertised returns an error if an advertised address is invalid.
func Advertised(name, address, example string) error {
	host, err := Address(name, address, example)
	switch {
	case err != nil:
		return err
	case Everywhere(host):
		return fmt.Errorf("%s %q: expected the name or address of this host, such as %s", name, address, example)
	case strings.Trim(address[strings.LastIndexByte(address, ':')+1:], "0") == "":
		return fmt.Errorf("%s %q: expected a port", name, address)
	default:
		return nil
	}
}

// Everywhere reports whether a host means all addresses of the machine.
func Everywhere(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

// Hosts returns the hosts of addresses without wildcard addresses, plus the machine's own name and the loopback names,
// each once.
func Hosts(addresses ...string) []string {
	var names []string
	add := func(name string) {
		if !Everywhere(name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, address := range addresses {
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
