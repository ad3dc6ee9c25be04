package remote

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"drover/client"
	"drover/internal/cli/term"
)

// Resource is a noun, such as app or receiver: the things of one kind that a server has, and the commands about them.
type Resource[T any] struct {
	// Use is the usage line of the noun.
	Use string
	// List is the command that lists the things. Without Rows there is no such command.
	List List[T]
	// Names completes the first argument of each verb that needs an existing thing; nil completes nothing.
	Names func(s *Session) Completer
	// Show returns the state of a thing, and its other lines of text.
	Show func(T) (state string, fields []term.Field)
	// Once returns the text to print instead if the thing has a new secret, and a note. Without a secret both are
	// empty. nil is for things without secrets.
	Once func(T) (text, note string)
	// Prefixes lets the verbs name an existing thing by the beginning of its id.
	Prefixes bool
	// Verbs are the commands about one thing.
	Verbs []Verb[T]
}

// Verb is a command about one thing of a resource.
type Verb[T any] struct {
	// Use is its usage line, which also decides how many arguments the command takes.
	Use string
	// New says that the thing does not exist before the command.
	New bool
	// Hosts has the hosts of --hosts and --selector, with the help HostsHelp; nil is for commands without these flags.
	Hosts     *Hosts
	HostsHelp string
	// Flags adds the flags of the command. nil adds none.
	Flags func(cmd *cobra.Command)
	// Request returns the request of the arguments, which may be too few, and how the names of those fields begin whose
	// faults the flags tell already. If the command line has faults, the command tells the faults of the request, too,
	// which the server does not get to see. nil is for requests without a body.
	Request func(args []string) (body any, told []string)
	// Fields are the flags and arguments of those fields of the request whose faults name a flag or an argument.
	Fields map[string]string
	// Call makes the call with the arguments of the command, and returns the thing as it is afterwards.
	Call func(ctx context.Context, c *client.Client, args []string) (T, error)
	// Already returns what to say if the thing is so before the call that the call changes nothing; empty if it is not.
	// nil is for verbs that always change something.
	Already func(ctx context.Context, c *client.Client, args []string) string
	// Done is the message after the call, in which %s is the first argument. Without it the command shows the thing.
	Done string
}

// Command returns the noun with its commands.
func (r Resource[T]) Command() *cobra.Command {
	return term.Noun(r.Use, r.Commands()...)
}

// Commands returns the list and the verbs of the resource.
func (r Resource[T]) Commands() []*cobra.Command {
	var all []*cobra.Command
	if r.List.Rows != nil {
		all = append(all, r.List.Command(&Session{}))
	}
	for _, v := range r.Verbs {
		all = append(all, r.command(v))
	}
	return all
}

func (r Resource[T]) command(v Verb[T]) *cobra.Command {
	var s Session
	already := ""
	v.Call = inFlags(v.Fields, v.Call)
	if call := v.Call; v.Already != nil {
		v.Call = func(ctx context.Context, c *client.Client, args []string) (T, error) {
			already = v.Already(ctx, c, args)
			return call(ctx, c, args)
		}
	}
	cmd := &cobra.Command{
		Use: v.Use, Args: term.Args,
		RunE: Query(&s, r.calling(v), func(cmd *cobra.Command, args []string, item T) error {
			if v.Done != "" {
				term.Say(cmd, v.Done+"\n", args[0])
				return nil
			}
			if already != "" {
				term.Say(cmd, "%s\n", already)
			}
			return r.show(cmd, s.Output, item)
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	if r.Names != nil && !v.New {
		cmd.ValidArgsFunction = r.Names(&s)
	}
	if v.Done != "" {
		s.Flags(cmd)
	} else {
		s.Flags(cmd, term.AsText, term.AsJSON, term.AsYAML)
	}
	if v.Hosts != nil {
		v.Hosts.Flags(cmd, &s, v.HostsHelp)
	}
	if v.Flags != nil {
		v.Flags(cmd)
	}
	if v.Request != nil {
		cmd.PreRunE = tellRequest(cmd.PreRunE, v.Request, v.Fields)
	}
	return cmd
}

// calling returns the call of a verb, which also takes the beginning of an id if the resource allows that.
func (r Resource[T]) calling(v Verb[T]) func(context.Context, *client.Client, []string) (T, error) {
	if !r.Prefixes || v.New {
		return v.Call
	}
	return func(ctx context.Context, c *client.Client, args []string) (T, error) {
		if len(args) == 0 {
			return v.Call(ctx, c, args)
		}
		return ByPrefix(args[0], func(id string) (T, error) {
			args[0] = id
			return v.Call(ctx, c, args)
		}, Each(func() ([]T, error) { return r.List.Rows(ctx, c, nil) }), r.List.ID)
	}
}

// show writes a thing, or its new secret.
func (r Resource[T]) show(cmd *cobra.Command, o term.Output, item T) (err error) {
	text, note := "", ""
	if r.Once != nil {
		text, note = r.Once(item)
	}
	w := cmd.OutOrStdout()
	switch {
	case o.Form != term.AsText:
		err = term.PrintValue(w, o.Form, item)
	case text != "":
		_, err = io.WriteString(w, text)
	default:
		state, fields := r.Show(item)
		if _, err = fmt.Fprintf(w, "%s: %s\n", term.Printable(r.List.ID(item)), state); err == nil {
			err = o.WriteFields(w, fields)
		}
	}
	if err == nil && note != "" {
		term.Say(cmd, "%s\n", note)
	}
	return err
}
