// Package cli is the command line of drover: NewRoot lists the commands. Each group of nouns has a package below this
// one, which owns arguments and output: results go to stdout, messages to stderr. No such package imports another.
// They share two: term for output, messages and arguments, and remote, which reaches a server through package client.
// A noun of one shape, such as app, is a remote.Resource: one value with its columns, calls and verbs.
package cli

import (
	"github.com/spf13/cobra"

	"drover/internal/cli/accounts"
	"drover/internal/cli/events"
	"drover/internal/cli/files"
	"drover/internal/cli/fleet"
	"drover/internal/cli/inspect"
	"drover/internal/cli/list"
	"drover/internal/cli/logs"
	"drover/internal/cli/operations"
	"drover/internal/cli/receivers"
	"drover/internal/cli/servers"
	"drover/internal/cli/term"
	"drover/internal/cli/ui"
	"drover/internal/cli/why"
	"drover/internal/command"
)

// Main runs the command line, and returns the exit code.
func Main(args []string) int {
	root := NewRoot()
	term.DescribeCompletions(root, args)
	term.ReadLanguage(root, args)
	return command.Main(root, args, func(text string) string { return term.Told(root, root.ErrOrStderr(), text) })
}

// NewRoot returns the whole command line.
func NewRoot() *cobra.Command {
	root := &cobra.Command{
		Use:                        "drover",
		Args:                       cobra.ArbitraryArgs,
		RunE:                       command.Subcommands,
		SuggestionsMinimumDistance: 2,
	}
	term.LanguageFlag(root)
	root.AddGroup(
		&cobra.Group{ID: groupProcesses},
		&cobra.Group{ID: groupRecords},
		&cobra.Group{ID: groupAccess},
		&cobra.Group{ID: groupServer},
	)
	grouped(root, groupProcesses, list.NewPs(), inspect.NewTop(), list.NewStatus(),
		list.NewIsActive(), list.NewIsFailed(), why.NewWhy(), logs.NewLogs(),
		list.NewWait(), ui.New())
	grouped(root, groupProcesses, operations.NewOperations()...)
	grouped(root, groupProcesses, files.NewRegister(), files.NewApply(), files.NewDiff(),
		files.NewGet(), files.NewExplain(), files.NewEdit(),
		files.NewImport())
	grouped(root, groupRecords, operations.NewTask(), operations.NewRollout(), operations.NewSchedule(),
		events.NewEvents(), events.NewHistory(), events.NewChanges(), files.NewRevisions(),
		files.NewDrift(),
		agents(), accounts.NewAudit())
	grouped(root, groupAccess, accounts.NewLogin(), accounts.NewLogout(), accounts.NewContext(),
		accounts.NewApp(), accounts.NewUser(), accounts.NewCan())
	grouped(root, groupServer, servers.NewServer(), servers.NewProxy(), servers.NewDev(), servers.NewConfig(),
		servers.NewDatabase(), inspect.NewDoctor())
	grouped(root, groupServer, fleet.NewProxies(), fleet.NewToken(), fleet.NewKeys(),
		fleet.NewPackages())
	grouped(root, groupServer, receivers.NewReceiver(), receivers.NewSilence(),
		receivers.NewBreaker())
	root.AddCommand(command.NewVersion())
	term.TellAll(root)
	return root
}

// agents returns the commands about hosts: an upgrade is a rollout.
func agents() *cobra.Command {
	cmd := fleet.NewHosts()
	cmd.AddCommand(operations.NewUpgrade())
	return cmd
}

// The groups of commands in the help. Package help has their titles.
const (
	groupProcesses = "processes"
	groupRecords   = "records"
	groupAccess    = "access"
	groupServer    = "server"
)

func grouped(root *cobra.Command, group string, commands ...*cobra.Command) {
	for _, c := range commands {
		c.GroupID = group
		root.AddCommand(c)
	}
}
