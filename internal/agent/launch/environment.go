package launch

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// MarkVariable is the environment variable that names the process on whose behalf a command runs.
const MarkVariable = "DROVER_PROCESS"

// DefaultPath is the PATH of a command whose spec sets none.
const DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

const (
	defaultLang = "C.UTF-8"
	localTime   = "/etc/localtime"
)

// environment is the complete environment of a command.
func environment(c Command) []string {
	lang := os.Getenv("LANG") //nolint:forbidigo // commands share this one variable of the agent
	if lang == "" {
		lang = defaultLang
	}
	base := [][2]string{
		{"HOME", c.Account.Home},
		{"USER", c.Account.Name},
		{"LOGNAME", c.Account.Name},
		{"SHELL", c.Account.Shell},
		{"PATH", DefaultPath},
		{"LANG", lang},
		{"TZ", timeZone()},
	}
	all := make([]string, 0, len(base)+len(c.Variables)+1)
	for _, v := range base {
		if _, replaced := c.Variables[v[0]]; !replaced {
			all = append(all, v[0]+"="+v[1])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Variables)) {
		all = append(all, name+"="+c.Variables[name])
	}
	return append(all, MarkVariable+"="+c.Mark)
}

// timeZone returns the zone of the host. It is never empty: to the C library an empty TZ means UTC, not "as
// configured".
func timeZone() string {
	if tz := os.Getenv("TZ"); tz != "" { //nolint:forbidigo // as with LANG
		return tz
	}
	if target, err := os.Readlink(localTime); err == nil {
		if _, zone, ok := strings.Cut(filepath.Clean(target), "/zoneinfo/"); ok {
			return zone
		}
	}
	if _, err := os.Stat(localTime); err == nil {
		return ":" + localTime
	}
	return "UTC"
}
