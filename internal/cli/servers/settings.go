package servers

import (
	"errors"

	"github.com/spf13/cobra"

	"drover/internal/config/settings"
)

// settingFlags makes a flag for each setting. The default of a flag is the present value of its setting.
func settingFlags(cmd *cobra.Command, all []settings.Setting) {
	flags := cmd.Flags()
	for _, s := range all {
		switch {
		case s.Text != nil:
			flags.StringVar(s.Text, s.Name, *s.Text, s.Help)
		case s.List != nil:
			flags.StringArrayVar(s.List, s.Name, nil, s.Help)
		default:
			flags.BoolVar(s.Bool, s.Name, false, s.Help)
		}
	}
}

// givenFlags copies the settings whose flags were given. Both lists have the same settings.
func givenFlags(cmd *cobra.Command, given, into []settings.Setting) {
	for i, s := range into {
		if cmd.Flags().Changed(s.Name) {
			s.Take(given[i])
		}
	}
}

// roleSettings are the settings of a role.
type roleSettings interface {
	settingsFile
	ReadEnvironment() error
	Settings() []settings.Setting
}

// readSettings applies the file, the environment and the given flags to a configuration, and validates it. An empty
// file name means no file.
func readSettings(cmd *cobra.Command, given, into roleSettings, file string) error {
	var read error
	if file != "" {
		read = into.ReadFile(file)
	}
	return settings.Wrong(read, func() error {
		faults := into.ReadEnvironment()
		givenFlags(cmd, given.Settings(), into.Settings())
		return errors.Join(faults, into.Validate())
	})
}
