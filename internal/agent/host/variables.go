package host

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
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
		if _, number := process.CopyOf(spec, of); number > 0 {
			all["DROVER_COPY"] = strconv.Itoa(number)
		}
	}
	var faults []error
	for _, entry := range spec.EnvironmentFiles {
		path, optional := process.EnvironmentFile(entry)
		text, err := h.readFor(account, path)
		if err == nil {
			if err = parseVariables(text, all); err != nil {
				err = fmt.Errorf("%s: %w", path, err)
			}
		} else if optional && errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		faults = append(faults, err)
	}
	maps.Copy(all, spec.Environment)
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

// parseVariables adds the assignments NAME=value of a text as systemd reads an EnvironmentFile (systemd.exec(5)). A
// line that begins with # or ; does not count, and quotes and backslashes are removed. A newline after a backslash or
// within quotes does not end a line. systemd ignores what it cannot read. Here it is a fault: the error names the first
// lines with one, and never a value.
func parseVariables(text string, into map[string]string) error {
	var faults []string
	r := &variableReader{rest: strings.TrimPrefix(text, "\ufeff"), line: 1} // some editors begin a file with it
	for r.skipSpace(); r.rest != ""; r.skipSpace() {
		if r.rest[0] == '#' || r.rest[0] == ';' {
			r.take("\n")
			continue
		}
		number := r.line
		name := strings.TrimSpace(r.take("=\r\n"))
		if !strings.HasPrefix(r.rest, "=") {
			faults = append(faults, fmt.Sprintf("line %d is not NAME=value", number))
			continue
		}
		r.next()
		value, closed := r.value()
		fault := process.VariableFault(name)
		switch {
		case fault == process.OwnVariable:
			faults = append(faults,
				fmt.Sprintf("line %d: %.100q is set by drover: expected a name that does not begin with DROVER_", number, name))
		case strings.HasPrefix(name, "export "):
			faults = append(faults, fmt.Sprintf("line %d begins with export: expected NAME=value", number))
		case fault != "" || strings.ContainsAny(name, " \t\"'"):
			faults = append(faults, fmt.Sprintf("line %d does not begin with the name of a variable", number))
		case !closed:
			faults = append(faults, fmt.Sprintf("line %d begins a quote that never ends", number))
		case strings.ContainsRune(value, 0):
			faults = append(faults, fmt.Sprintf("line %d holds a NUL byte", number))
		default:
			into[name] = value
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

// variableReader reads a file of variables byte by byte. line is the number of the line that rest begins in, from 1.
type variableReader struct {
	rest string
	line int
}

// next returns the next byte of a rest that is not empty.
func (r *variableReader) next() byte {
	c := r.rest[0]
	if r.rest = r.rest[1:]; c == '\n' {
		r.line++
	}
	return c
}

func (r *variableReader) skipSpace() {
	for r.rest != "" && strings.IndexByte(" \t\r\n", r.rest[0]) >= 0 {
		r.next()
	}
}

// take returns what comes before the first of some bytes.
func (r *variableReader) take(before string) string {
	n := strings.IndexAny(r.rest, before)
	if n < 0 {
		n = len(r.rest)
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

// value reads to the end of an assignment. closed is false if a quote never ends.
func (r *variableReader) value() (value string, closed bool) {
	var out strings.Builder
	quote, plain, end := byte(0), false, 0 // end is the length without the spaces after plain text
	for r.rest != "" {
		c := r.next()
		switch {
		case c == '\\' && quote != '\'':
			r.escaped(&out, quote)
			plain = plain || quote == 0
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\n' || c == '\r'):
			return out.String()[:end], true
		case quote == 0 && !plain && (c == '"' || c == '\''):
			quote = c
		case quote == 0 && (c == ' ' || c == '\t'):
			if plain {
				out.WriteByte(c)
			}
			continue
		default:
			out.WriteByte(c)
			plain = plain || quote == 0
		}
		end = out.Len()
	}
	return out.String()[:end], quote == 0
}

// escaped reads the byte after a backslash. A newline joins two lines. In double quotes a backslash counts before ", \,
// $ and ` only.
func (r *variableReader) escaped(out *strings.Builder, quote byte) {
	if r.rest == "" {
		return
	}
	c := r.next()
	if c == '\n' {
		return
	}
	if quote == '"' && strings.IndexByte("\"\\$`", c) < 0 {
		out.WriteByte('\\')
	}
	out.WriteByte(c)
}
