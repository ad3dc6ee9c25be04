// Package accounts has the commands about the callers of the API: app, user and audit.
package accounts

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/cli/term"
)

// NewApp returns the commands about apps.
func NewApp() *cobra.Command {
	return remote.Resource[v1.App]{
		Use:  "app",
		List: appList(), Names: appList().Names, Show: showApp, Once: appSecret,
		Verbs: []remote.Verb[v1.App]{
			appCreate(),
			appChange(),
			{
				Use: "show CODE",
				Call: func(ctx context.Context, c *client.Client, args []string) (v1.App, error) {
					return c.App(ctx, args[0])
				},
			},
			{Use: "disable CODE", Call: switchApp(true)},
			{Use: "enable CODE", Call: switchApp(false)},
			appRotate(),
			{
				Use: "reset-secret CODE",
				Call: func(ctx context.Context, c *client.Client, args []string) (v1.App, error) {
					return c.NewSecret(ctx, args[0], 0)
				},
			},
			appGrant(),
			appRevoke(),
		},
	}.Command()
}

func appList() remote.List[v1.App] {
	return remote.List[v1.App]{
		Use: "list", None: "no apps",
		ID: func(a v1.App) string { return a.Code },
		Columns: []term.Column[v1.App]{
			{Head: "CODE", Cell: func(a v1.App) string { return a.Code }},
			{Head: "STATE", State: true, Cell: appState},
			{Head: "NAMES USERS", Cell: func(a v1.App) string { return term.YesNo(a.MayNameUsers) }},
			{Head: "RIGHTS", Cell: func(a v1.App) string { return rightsText(a.Admin, a.Grants) }},
			{Head: "LIMITS", Wide: true, Cell: func(a v1.App) string { return limitText(a.Limits) }},
			{Head: "CREATED", Wide: true, Cell: func(a v1.App) string { return term.Stamp(&a.CreatedAt) }},
			{Head: "NOTE", Wide: true, Cell: func(a v1.App) string { return a.Note }},
		},
		Rows: func(ctx context.Context, c *client.Client, _ []string) ([]v1.App, error) {
			return client.Collect(c.Apps(ctx))
		},
	}
}

// appState is the state of an app, in a word.
func appState(a v1.App) string {
	switch {
	case a.Disabled:
		return "disabled"
	case a.Admin:
		return "administrator"
	default:
		return "enabled"
	}
}

// limitText is the limits of an app; empty if it has none.
func limitText(r v1.Rates) string {
	var parts []string
	if r.Rate > 0 {
		parts = append(parts, fmt.Sprintf("%g calls a second (%d at once after a pause)", r.Rate, max(r.Burst, 1)))
	}
	if r.Concurrent > 0 {
		parts = append(parts, fmt.Sprintf("%d at the same time", r.Concurrent))
	}
	return strings.Join(parts, ", ")
}

func showApp(a v1.App) (state string, fields []term.Field) {
	fields = []term.Field{
		{"Note", a.Note},
		{"Names users", term.YesNo(a.MayNameUsers)},
		{"Limits", limitText(a.Limits)},
	}
	if a.Admin {
		fields = append(fields, term.Field{"Right", "everything"})
	}
	for _, g := range a.Grants {
		fields = append(fields, term.Field{"Right", grantText(g)})
	}
	for _, s := range a.Secrets {
		until := "without end"
		if s.ExpiresAt != nil {
			until = "until " + term.Stamp(s.ExpiresAt)
		}
		fields = append(fields,
			term.Field{"Secret", fmt.Sprintf("%s, made %s, valid %s", s.ID, term.Stamp(&s.CreatedAt), until)})
	}
	return appState(a), append(fields, term.Field{"Created", term.Stamp(&a.CreatedAt)},
		term.Field{"Changed", term.Stamp(&a.ChangedAt)})
}

func appSecret(a v1.App) (text, note string) {
	if a.Secret == "" {
		return "", ""
	}
	return fmt.Sprintf("code    %s\nsecret  %s\n", a.Code, a.Secret),
		"drover shows the secret only this once, and stores only its hash"
}

func switchApp(disabled bool) func(context.Context, *client.Client, []string) (v1.App, error) {
	return func(ctx context.Context, c *client.Client, args []string) (v1.App, error) {
		return c.ChangeApp(ctx, args[0], v1.AppChange{Disabled: &disabled})
	}
}

// appFlags are the flags to create or change an app.
type appFlags struct {
	note         string
	admin        bool
	mayNameUsers bool
	rate         float64
	burst        int
	concurrent   int
	given        func(flag string) bool
}

func (f *appFlags) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.note, "note", "", "a note for administrators")
	flags.BoolVar(&f.admin, "admin", false, "grant every right, and the management of apps and users")
	flags.BoolVar(&f.mayNameUsers, "may-name-users", false, "let the app name its user without a proof")
	flags.Float64Var(&f.rate, "rate", 0, "limit of calls a second; 0 is no limit")
	flags.IntVar(&f.burst, "burst", 0, "burst of calls that the app may make after a pause")
	flags.IntVar(&f.concurrent, "concurrent", 0, "limit of concurrent calls; 0 is no limit")
	f.given = flags.Changed
}

// change copies the given flags. Limits change together: limits that are not given keep their values.
func (f *appFlags) change(before v1.Rates) v1.AppChange {
	var change v1.AppChange
	if f.given("note") {
		change.Note = &f.note
	}
	if f.given("admin") {
		change.Admin = &f.admin
	}
	if f.given("may-name-users") {
		change.MayNameUsers = &f.mayNameUsers
	}
	limits := before
	if f.given("rate") {
		limits.Rate = f.rate
	}
	if f.given("burst") {
		limits.Burst = f.burst
	}
	if f.given("concurrent") {
		limits.Concurrent = f.concurrent
	}
	if limits != before {
		change.Limits = &limits
	}
	return change
}

func appCreate() remote.Verb[v1.App] {
	var f appFlags
	var grants []string
	return remote.Verb[v1.App]{
		Use: "create [CODE]",
		New: true,
		Flags: func(cmd *cobra.Command) {
			f.flags(cmd)
			cmd.Flags().StringArrayVar(&grants, "grant", nil, "a right of the new app; may be repeated")
		},
		Call: func(ctx context.Context, c *client.Client, args []string) (v1.App, error) {
			change := f.change(v1.Rates{})
			if change.Code = "app-" + strings.ToLower(rand.Text()[:8]); len(args) == 1 {
				change.Code = args[0]
			}
			if len(grants) > 0 {
				parsed, err := grantsOf(grants)
				if err != nil {
					return v1.App{}, err
				}
				change.Grants = &parsed
			}
			return c.CreateApp(ctx, change)
		},
	}
}

func appChange() remote.Verb[v1.App] {
	var f appFlags
	return remote.Verb[v1.App]{
		Use:   "change CODE",
		Flags: f.flags,
		Call: func(ctx context.Context, c *client.Client, args []string) (v1.App, error) {
			a, err := c.App(ctx, args[0])
			if err != nil {
				return v1.App{}, err
			}
			return c.ChangeApp(ctx, args[0], f.change(a.Limits))
		},
	}
}

func appRotate() remote.Verb[v1.App] {
	var keep time.Duration
	return remote.Verb[v1.App]{
		Use: "rotate CODE",
		Flags: func(cmd *cobra.Command) {
			term.LengthVar(cmd.Flags(), &keep, "keep", 24*time.Hour, "how long the old secret stays valid, at most 2160h")
			cmd.PreRunE = term.Chain(cmd.PreRunE, func(*cobra.Command, []string) error {
				if keep < time.Second {
					return term.Usagef(
						"--keep %s: expected 1s or more; 'drover app reset-secret' revokes the old secret now", keep)
				}
				return nil
			})
		},
		Call: func(ctx context.Context, c *client.Client, args []string) (v1.App, error) {
			return c.NewSecret(ctx, args[0], keep)
		},
	}
}
