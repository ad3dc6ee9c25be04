package cli

import (
	"github.com/spf13/cobra"

	"drover/internal/config/settings"
)

// settingFlags makes a flag of each setting; what it is when it is not given is what the setting is now.
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

// givenFlags takes over those settings whose flags were given. Both lists are of the same settings.
func givenFlags(cmd *cobra.Command, given, into []settings.Setting) {
	for i, s := range into {
		if cmd.Flags().Changed(s.Name) {
			s.Take(given[i])
		}
	}
}
