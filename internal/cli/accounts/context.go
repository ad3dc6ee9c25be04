package accounts

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	v1 "drover/api/v1"
	"drover/internal/cli/remote"
	"drover/internal/cli/term"
)

// logoutTime bounds the call that ends a token.
const logoutTime = 10 * time.Second

// NewLogout returns the command that ends a sign-in.
func NewLogout() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:  "logout",
		Args: term.Args,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := remote.ReadContexts()
			if err != nil {
				return err
			}
			at := all.Find(name)
			if at == nil {
				return remote.NoContext(name)
			}
			if err := endSignIn(cmd.Context(), at); err != nil {
				return remote.ExitOf(err)
			}
			if err := remote.ChangeContexts(func(all *remote.Contexts) error {
				if c := all.Find(at.Name); c != nil && c.Token == at.Token {
					c.User, c.Token, c.ExpiresAt = "", "", time.Time{}
				}
				return nil
			}); err != nil {
				return err
			}
			term.Say(cmd, "signed out of %s\n", term.Printable(at.Server))
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVar(&name, "context", "", "end the sign-in of this context")
	remote.CompleteFlag(cmd, "context", remote.ContextNames)
	return cmd
}

// endSignIn ends the token of a context at its server. A token that the server does not know any more is no error.
func endSignIn(ctx context.Context, at *remote.Context) error {
	if !at.SignedIn() {
		return nil
	}
	c, err := at.Client(nil)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, logoutTime)
	defer cancel()
	err = c.EndSignIn(ctx)
	if refusal, ok := errors.AsType[*v1.Problem](err); ok &&
		(refusal.Status == http.StatusUnauthorized || refusal.Status == http.StatusConflict) {
		return nil // the server does not take the token any more
	}
	return err
}

// sayGoesOn tells that the token of a context could not be ended.
func sayGoesOn(cmd *cobra.Command, at *remote.Context, err error) {
	term.Say(cmd, "cannot end the sign-in, which ends by itself at %s: %s\n", term.Stamp(&at.ExpiresAt),
		term.Printable(err.Error()))
}

// NewContext returns the commands about contexts.
func NewContext() *cobra.Command {
	return term.Noun("context", newContextList(), newContextUse(), newContextRemove())
}

// contextRow is a context without its token.
type contextRow struct {
	Name      string     `json:"name"`
	Server    string     `json:"server"`
	Current   bool       `json:"current"`
	User      string     `json:"user,omitempty"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
}

func newContextList() *cobra.Command {
	var o term.Output
	cmd := &cobra.Command{
		Use: "list", Args: term.Args,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := remote.ReadContexts()
			if err != nil {
				return err
			}
			rows := make([]contextRow, 0, len(all.List))
			for i := range all.List {
				c := &all.List[i]
				row := contextRow{Name: c.Name, Server: c.Server, Current: c.Name == all.Current}
				if c.SignedIn() {
					row.User, row.ExpiresAt = c.User, &c.ExpiresAt
				}
				rows = append(rows, row)
			}
			if len(rows) == 0 {
				term.Say(cmd, "no contexts: 'drover login URL' makes one\n")
			}
			return term.PrintList(cmd, o, rows, contextColumns(), func(c contextRow) string { return c.Name })
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.ListFlags(cmd, term.AsTable, term.AsJSON, term.AsYAML, term.AsName)
	return cmd
}

func contextColumns() []term.Column[contextRow] {
	return []term.Column[contextRow]{
		{Head: "CURRENT", Cell: func(c contextRow) string {
			if c.Current {
				return "*"
			}
			return ""
		}},
		{Head: "NAME", Cell: func(c contextRow) string { return c.Name }},
		{Head: "SERVER", Cell: func(c contextRow) string { return c.Server }},
		{Head: "USER", Cell: func(c contextRow) string { return c.User }},
		{Head: "ENDS", Cell: func(c contextRow) string { return term.Stamp(c.ExpiresAt) }},
	}
}

func newContextUse() *cobra.Command {
	return &cobra.Command{
		Use: "use NAME", Args: term.Args,
		RunE: func(cmd *cobra.Command, args []string) error {
			var at remote.Context
			err := remote.ChangeContexts(func(all *remote.Contexts) error {
				c := all.Find(args[0])
				if c == nil {
					return remote.NoContext(args[0])
				}
				at, all.Current = *c, c.Name
				return nil
			})
			if err != nil {
				return err
			}
			term.Say(cmd, "the current context is %s, at %s\n", term.Printable(at.Name), at.Server)
			return nil
		},
		ValidArgsFunction: remote.First(remote.ContextNames),
	}
}

func newContextRemove() *cobra.Command {
	return &cobra.Command{
		Use: "remove NAME", Args: term.Args,
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := remote.ReadContexts()
			if err != nil {
				return err
			}
			at := all.Find(args[0])
			if at == nil {
				return remote.NoContext(args[0])
			}
			if err := endSignIn(cmd.Context(), at); err != nil {
				sayGoesOn(cmd, at, err)
			}
			err = remote.ChangeContexts(func(all *remote.Contexts) error {
				all.Remove(args[0])
				return nil
			})
			if err == nil {
				term.Say(cmd, "removed context %s\n", term.Printable(args[0]))
			}
			return err
		},
		ValidArgsFunction: remote.First(remote.ContextNames),
	}
}
