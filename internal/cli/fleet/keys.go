package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/cli/term"
	"drover/internal/command"
	"drover/internal/idle"
	"drover/internal/process"
)

// NewKeys returns the commands about the keys by which hosts trust the server.
func NewKeys() *cobra.Command {
	cmd := remote.Resource[v1.Key]{
		Use:   "keys",
		Names: func(*remote.Session) remote.Completer { return keyKinds },
		Verbs: []remote.Verb[v1.Key]{{
			Use: "drop KIND KEY",
			Call: func(ctx context.Context, c *client.Client, args []string) (v1.Key, error) {
				return v1.Key{}, c.DropKey(ctx, args[0], args[1])
			},
			Done: "the %s key was dropped",
		}},
	}.Command()
	cmd.AddCommand(newKeysList(), newKeysRotate())
	return cmd
}

func newKeysList() *cobra.Command {
	var s remote.Session
	cmd := &cobra.Command{
		Use:  "list",
		Args: term.Args,
		RunE: remote.Query(&s, func(ctx context.Context, c *client.Client, _ []string) (v1.Keys, error) {
			return c.Keys(ctx)
		}, func(cmd *cobra.Command, _ []string, keys v1.Keys) error {
			return printKeys(cmd, s.Output, keys)
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	s.ListFlags(cmd, term.AsTable, term.AsWide, term.AsJSON, term.AsYAML, term.AsName)
	return cmd
}

func printKeys(cmd *cobra.Command, o term.Output, keys v1.Keys) error {
	if o.Structured() {
		return term.PrintValue(cmd.OutOrStdout(), o.Form, keys)
	}
	if err := term.PrintList(cmd, o, keys.Keys, keyColumns(), func(k v1.Key) string { return k.ID }); err != nil {
		return err
	}
	term.Say(cmd, "%d of %s online use these keys\n", keys.Reached, process.Count(keys.Online, "host", "hosts"))
	for _, s := range keys.StoppedServers {
		term.Say(cmd, "server %s does not run (last seen %s) and lacks keys: %s; before it starts, bring them there: "+
			"'drover server keys export' here, 'drover server keys import' there\n", term.Printable(s.Name),
			term.Stamp(&s.LastSeenAt), strings.Join(s.Lacks, ", "))
	}
	return nil
}

func keyColumns() []term.Column[v1.Key] {
	return []term.Column[v1.Key]{
		{Head: "KIND", Cell: func(k v1.Key) string { return k.Kind }},
		{Head: "STAGE", Cell: func(k v1.Key) string { return k.Stage }},
		{Head: "SINCE", Cell: func(k v1.Key) string { return term.Stamp(&k.Since) }},
		{Head: "KEPT UNTIL", Cell: func(k v1.Key) string { return term.Stamp(k.Until) }},
		{Head: "ENDS", Cell: func(k v1.Key) string { return term.Stamp(k.Ends) }},
		{Head: "KEY", Cell: func(k v1.Key) string { return k.ID }},
	}
}

// kindsOfKeys are the kinds of keys.
func kindsOfKeys() []string {
	return []string{"manifest", "sealing", "ca", "agent-signer", "proxy-signer", "server-signer"}
}

// keyKinds completes the kinds of keys.
func keyKinds(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return kindsOfKeys(), cobra.ShellCompDirectiveNoFileComp
}

// rotation is the command that replaces keys.
type rotation struct {
	remote.Session
	keep             time.Duration
	force, all, wait bool
}

func newKeysRotate() *cobra.Command {
	var r rotation
	cmd := &cobra.Command{
		Use:               "rotate [KIND...]",
		Args:              r.check,
		RunE:              r.run,
		ValidArgsFunction: keyKinds,
	}
	term.LengthVar(cmd.Flags(), &r.keep, "keep", 0,
		"how long the server keeps the present key for hosts that are away (default 4320h, 180 days)")
	cmd.Flags().BoolVar(&r.force, "force", false, "do not wait for online hosts that have not received the next key")
	cmd.Flags().BoolVar(&r.all, "all", false, "replace the keys of every kind")
	cmd.Flags().BoolVar(&r.wait, "wait", false, "take both steps, and wait for the online hosts")
	r.WaitingFlags(cmd, term.AsTable, term.AsWide, term.AsJSON, term.AsYAML, term.AsName)
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(*cobra.Command, []string) error {
		if cmd.Flags().Changed("keep") && r.keep < time.Minute {
			return term.Usagef("--keep %s: expected 1m or more", r.keep)
		}
		return nil
	})
	return cmd
}

// check checks the kinds that are named.
func (r *rotation) check(_ *cobra.Command, kinds []string) error {
	switch {
	case r.all && len(kinds) > 0:
		return term.Usagef("--all and KIND exclude each other")
	case !r.all && len(kinds) == 0:
		return term.Usagef("KIND is missing: expected %s, or --all", strings.Join(kindsOfKeys(), ", "))
	}
	var faults []error
	if !r.wait && (r.all || len(kinds) > 1) {
		faults = append(faults, term.Usagef("several kinds are replaced one after another: give --wait"))
	}
	for _, kind := range kinds {
		faults = append(faults, term.OneOf("KIND", kind, kindsOfKeys()...))
	}
	return errors.Join(faults...)
}

func (r *rotation) run(cmd *cobra.Command, kinds []string) error {
	c, err := r.Client(cmd)
	if err != nil {
		return err
	}
	keys, err := c.Keys(cmd.Context())
	if r.all { // drover dev does not have them all
		kinds = slices.DeleteFunc(kindsOfKeys(), func(kind string) bool {
			return !slices.ContainsFunc(keys.Keys, func(k v1.Key) bool { return k.Kind == kind })
		})
	}
	for _, kind := range kinds {
		if err == nil && (!r.wait || !pending(keys, kind)) {
			keys, err = c.RotateKeys(cmd.Context(), kind, r.keep, r.force)
		}
	}
	if err == nil && r.wait {
		keys, err = r.activate(cmd, c, keys, kinds)
	}
	if err != nil {
		return remote.ExitOf(err)
	}
	if !r.wait && slices.ContainsFunc(kinds, func(kind string) bool { return pending(keys, kind) }) {
		term.Say(cmd,
			"the server announces the next key to all hosts; once they have it, run this command again to activate it\n")
	}
	return printKeys(cmd, r.Output, keys)
}

// pending reports whether a kind of key has a next one.
func pending(keys v1.Keys, kind string) bool {
	return slices.ContainsFunc(keys.Keys, func(k v1.Key) bool { return k.Kind == kind && k.Stage == "next" })
}

// activate takes the second step of each kind, once the online hosts have what was changed before. If it cannot, it
// says with what command to go on.
func (r *rotation) activate(cmd *cobra.Command, c *client.Client, keys v1.Keys, kinds []string) (
	v1.Keys, error,
) {
	for i, kind := range kinds {
		now, err := r.reached(cmd, c, keys)
		for err == nil && pending(now, kind) {
			now, err = c.RotateKeys(cmd.Context(), kind, r.keep, r.force)
			if refused, ok := errors.AsType[*v1.Problem](err); ok && refused.Status == http.StatusConflict {
				later, failed := c.Keys(cmd.Context()) // a host may have come meanwhile
				if failed == nil && later.Reached < later.Online {
					now, err = r.reached(cmd, c, later)
				}
			}
		}
		if err != nil {
			term.Say(cmd, "go on: %s\n", r.Again("keys rotate %s --wait", strings.Join(kinds[i:], " ")))
			return keys, err
		}
		keys = now
	}
	return r.reached(cmd, c, keys)
}

// betweenLooks is the time between two looks at the hosts.
const betweenLooks = time.Second

// reached waits until all online hosts use the keys, unless the rotation is forced.
func (r *rotation) reached(cmd *cobra.Command, c *client.Client, keys v1.Keys) (v1.Keys, error) {
	said := -1
	for keys.Reached < keys.Online && !r.force {
		if keys.Reached != said {
			said = keys.Reached
			term.Say(cmd, "%d of %s online use these keys\n", keys.Reached, process.Count(keys.Online, "host", "hosts"))
		}
		if !idle.Sleep(cmd.Context(), betweenLooks) {
			return keys, &command.ExitError{Code: command.Unreachable, Err: fmt.Errorf(
				"%d of %s online have not received the keys", keys.Online-keys.Reached, process.Count(keys.Online, "host", "hosts"))}
		}
		now, err := c.Keys(cmd.Context())
		if err != nil {
			return keys, err
		}
		keys = now
	}
	return keys, nil
}
