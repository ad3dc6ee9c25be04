package host

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"

	"drover/internal/agent/launch"
	"drover/internal/agent/trail"
	"drover/internal/process"
)

// maxVariables is how much drover reads of one file of variables, in bytes.
const maxVariables = 256 << 10

// maxFaults is how many faulty lines of a file an error names.
const maxFaults = 5

// variables returns the variables of a spec: those that name the process, then those of its files in their order, then
// those of the spec; a later one wins. drover reads the files with the rights of the account. The error joins the
// faults of all files.
func (h *Host) variables(of process.ID, spec *process.Spec, account launch.Account) (map[string]string, error) {
	all := map[string]string{}
	if of != (process.ID{}) {
		all["DROVER_NAMESPACE"], all["DROVER_NAME"], all["DROVER_HOST"] = of.Namespace, of.Name, h.name()
		if _, number := spec.CopyOf(of); number > 0 {
			all["DROVER_COPY"] = strconv.Itoa(number)
		}
	}
	var faults []error
	for _, path := range spec.Execution.EnvironmentFiles {
		text, err := h.readFor(account, path)
		if err == nil {
			if err = parseVariables(text, all); err != nil {
				err = fmt.Errorf("%s: %w", path, err)
			}
		}
		faults = append(faults, err)
	}
	maps.Copy(all, spec.Execution.Environment)
	return all, errors.Join(faults...)
}

// readFor reads a file with the rights of an account.
func (h *Host) readFor(account launch.Account, path string) (string, error) {
	type answer struct {
		text string
		err  error
	}
	got, err := within(h.files, account.Name, path, func() answer {
		var text []byte
		err := h.visitor(account)(path, func(way *trail.Trail) error {
			if !way.IsRegular() {
				return fmt.Errorf("%s is not a regular file", path)
			}
			file, err := way.Open()
			if err != nil {
				return err
			}
			defer file.Close() //nolint:errcheck // nothing was written
			text, err = io.ReadAll(io.LimitReader(file, maxVariables+1))
			return err
		})
		return answer{string(text), err}
	})
	switch {
	case err != nil:
		return "", fmt.Errorf("%s %w", path, err)
	case got.err != nil:
		return "", got.err
	case len(got.text) > maxVariables:
		return "", fmt.Errorf("%s is longer than %d bytes", path, maxVariables)
	}
	return got.text, nil
}

// parseVariables adds the lines NAME=value of a text. Blank lines and lines that begin with # do not count. A value may
// stand in one pair of quotes. The error names the first lines with a fault, and never a value.
func parseVariables(text string, into map[string]string) error {
	var faults []string
	number := 0
	text = strings.TrimPrefix(text, "\ufeff") // some editors begin a file with it
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if name = strings.TrimSpace(name); !ok {
			faults = append(faults, fmt.Sprintf("line %d is not NAME=value", number))
			continue
		}
		fault := process.VariableFault(name)
		switch {
		case fault == process.OwnVariable:
			faults = append(faults,
				fmt.Sprintf("line %d: %.100q is set by drover: expected a name that does not begin with DROVER_", number, name))
		case fault != "" || strings.ContainsAny(name, " \t\"'"):
			faults = append(faults, fmt.Sprintf("line %d does not begin with the name of a variable", number))
		case strings.ContainsRune(value, 0):
			faults = append(faults, fmt.Sprintf("line %d holds a NUL byte", number))
		default:
			into[name] = unquoted(strings.TrimSpace(value))
		}
	}
	switch more := len(faults) - maxFaults; {
	case len(faults) == 0:
		return nil
	case more > 0:
		return fmt.Errorf("%s, and %d more faulty lines", strings.Join(faults[:maxFaults], ", "), more)
	}
	return errors.New(strings.Join(faults, ", "))
}

// unquoted drops one pair of quotes around a text. In double quotes it also drops a backslash before ", \, $ and `, as
// systemd does in an EnvironmentFile (systemd.exec(5)). A text whose last quote has such a backslash stays as it is.
func unquoted(text string) string {
	n := len(text)
	if n < 2 || text[0] != '"' && text[0] != '\'' || text[n-1] != text[0] {
		return text
	}
	inside := text[1 : n-1]
	if text[0] == '\'' {
		return inside
	}
	var out strings.Builder
	for i := 0; i < len(inside); i++ {
		if inside[i] == '\\' {
			if i+1 == len(inside) {
				return text
			}
			if strings.IndexByte("\"\\$`", inside[i+1]) >= 0 {
				i++
			}
		}
		out.WriteByte(inside[i])
	}
	return out.String()
}
