// Package cli is the command line of drover. Each command has its own file, cmd_<noun>_<verb>.go, and is listed in
// NewRoot or under its noun. It owns arguments and output: results go to stdout, messages to stderr. It reaches a
// server through package client only.
package cli

import (
	"github.com/spf13/cobra"

	"drover/internal/command"
)

// NewRoot returns the whole command line.
func NewRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "drover",
		Short: "Run and watch processes on a fleet of hosts",
		Long: `drover runs and watches processes on a fleet of hosts. It speaks the process APIs of
BlueKing GSE and JOB.

Name a process as NAMESPACE/NAME. In both parts * matches any text and ? matches one character;
quote them for the shell. Name a host by its id or as CLOUD:IP.

drover uses the server on this host if drover.sock exists in the default data directory. Otherwise
drover uses the server of DROVER_SERVER, with DROVER_APP_CODE and DROVER_APP_SECRET, for the user of
DROVER_USER or DROVER_USER_TOKEN. --server and --data-dir choose another server.

Results go to stdout, messages to stderr. drover honours NO_COLOR, TERM=dumb and --color.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not running ('status') or something is wrong ('why'),
4 no such thing, 5 not allowed, 6 unreachable or timed out, 7 done on some targets only.`,
		Args:                       cobra.ArbitraryArgs,
		RunE:                       command.Subcommands,
		SuggestionsMinimumDistance: 2,
	}
	root.AddGroup(
		&cobra.Group{ID: groupProcesses, Title: "Processes:"},
		&cobra.Group{ID: groupRecords, Title: "Tasks, events, hosts and audit:"},
		&cobra.Group{ID: groupAccess, Title: "Access:"},
		&cobra.Group{ID: groupServer, Title: "Servers:"},
	)
	grouped(root, groupProcesses, newPs(), newStatus(), newWhy())
	for _, v := range verbs() {
		grouped(root, groupProcesses, newOperate(v))
	}
	grouped(root, groupProcesses, newRegister())
	grouped(root, groupRecords, newTask(), newEvents(), newAgents(), newAudit())
	grouped(root, groupAccess, newApp(), newUser())
	grouped(root, groupServer, newServer(), newProxy(), newProxies(), newDev(), newConfig(), newDatabase(), newToken(),
		newKeys(), newWebhook())
	root.AddCommand(command.NewVersion())
	return root
}

// The groups of commands in the help.
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

// noun returns a command that only holds other commands.
func noun(use, short, long string, verbs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Args: cobra.ArbitraryArgs, RunE: command.Subcommands,
		SuggestionsMinimumDistance: 2,
	}
	cmd.AddCommand(verbs...)
	return cmd
}

// atMostOne rejects more than one argument.
func atMostOne(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usagef("%s: unexpected argument %q", cmd.CommandPath(), args[1])
	}
	return nil
}

// exactly rejects any number of arguments other than the number of names.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		if len(args) < len(names) {
			return usagef("%s: %s is missing", cmd.CommandPath(), names[len(args)])
		}
		return usagef("%s: unexpected argument %q", cmd.CommandPath(), args[len(names)])
	}
}
