package command

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// ReadSettings reads a file over the flags of a command that were not given: lines of NAME: VALUE, named as the flags;
// # at the beginning of a line is a comment. It is for a program too small for a reader of YAML, and what it takes
// means the same in YAML. The error names all that is wrong, each with its line, and is a wrong use.
func ReadSettings(cmd *cobra.Command, path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return &UsageError{Err: fmt.Errorf("cannot read configuration: %w", err)}
	}
	flags := cmd.Flags()
	var faults []string
	lines := map[string]int{}
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, found := strings.Cut(line, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		flag := flags.Lookup(name)
		fault := ""
		switch {
		case !found:
			fault = fmt.Sprintf("%q: expected NAME: VALUE", line)
		case flag == nil || name == "config" || name == "help":
			fault = fmt.Sprintf("unknown setting %q", name)
		case lines[name] > 0:
			fault = fmt.Sprintf("%s is already set in line %d", name, lines[name])
		case flag.Changed:
		default:
			if err := flags.Set(name, value); err != nil {
				fault = fmt.Sprintf("%s %q: expected a value of type %s", name, value, flag.Value.Type())
				_ = flag.Value.Set(flag.DefValue) // which has been taken before
			}
		}
		if fault != "" {
			faults = append(faults, fmt.Sprintf("%s:%d: %s", path, number, fault))
		}
		lines[name] = number
	}
	if len(faults) > 0 {
		return &UsageError{Err: fmt.Errorf("cannot read configuration:\n%s", strings.Join(faults, "\n"))}
	}
	return nil
}
