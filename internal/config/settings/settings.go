// Package settings reads the settings of a role of drover: flags override environment variables, which override a
// YAML file. It owns the reading and the validation of addresses; the packages of the roles own the settings. It is
// separate from package config so that the agent does not link a YAML parser.
package settings

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
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

// ReadFile reads a YAML file into the structure; missing keys keep their values. An unknown key is an error. If only
// entries are wrong, the error is a *Faults with all of them, and the structure has the other entries.
func ReadFile(path string, into any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("cannot read configuration: %w", err)
	}
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return fmt.Errorf("cannot read configuration %s: %s", path,
			strings.TrimSpace(yaml.FormatError(err, false, true)))
	}
	faults := Faults{path: path}
	for len(file.Docs) > 0 && file.Docs[0].Body != nil { // an empty file changes nothing
		body := file.Docs[0].Body
		err := yaml.NodeToValue(body, into, yaml.Strict())
		wrong, placed := errors.AsType[yaml.Error](err)
		switch {
		case err == nil:
		case !placed || wrong.GetToken() == nil:
			return fmt.Errorf("cannot read configuration %s: %w", path, err)
		default:
			at := wrong.GetToken().Position
			text, key := wrong.GetMessage(), drop(body, at.Offset)
			if _, unknown := errors.AsType[*yaml.UnknownFieldError](err); !unknown && key != "" {
				text = key + ": " + text
			}
			if faults.all = append(faults.all, fault{at.Line, text}); key != "" {
				continue
			}
		}
		break
	}
	if len(faults.all) == 0 {
		return nil
	}
	slices.SortStableFunc(faults.all, func(a, b fault) int { return a.line - b.line })
	return &faults
}

// Faults is the error of a file that has been read but for some of its entries.
type Faults struct {
	path string
	all  []fault
}

// Error names all entries.
func (f *Faults) Error() string {
	lines := []string{"cannot read configuration:"}
	for _, one := range f.all {
		lines = append(lines, fmt.Sprintf("%s:%d: %s", f.path, one.line, one.text))
	}
	return strings.Join(lines, "\n")
}

// Wrong returns the error of ReadFile together with what is wrong in the settings otherwise. If the file is missing or
// not YAML, it does not ask for the latter.
func Wrong(read error, otherwise func() error) error {
	if _, entries := errors.AsType[*Faults](read); read != nil && !entries {
		return read
	}
	return errors.Join(read, otherwise())
}

// fault is what is wrong in a line of a file.
type fault struct {
	line int
	text string
}

// drop removes the innermost entry of a mapping that has a place of the file, and returns its key; empty if there is
// none.
func drop(body ast.Node, offset int) (key string) {
	m, ok := body.(*ast.MappingNode)
	if !ok {
		return ""
	}
	at := -1
	for i, entry := range m.Values {
		if entry.Key.GetToken().Position.Offset <= offset {
			at = i
		}
	}
	if at < 0 {
		return ""
	}
	entry := m.Values[at]
	if entry.Key.GetToken().Position.Offset < offset {
		key = drop(entry.Value, offset)
	}
	if key == "" {
		m.Values = slices.Delete(m.Values, at, at+1)
		return entry.Key.GetToken().Value
	}
	return entry.Key.GetToken().Value + "." + key
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
