package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"drover/client"
	"drover/internal/server/access"
)

func newApp() *cobra.Command {
	return noun("app", "Manage the apps that may call the API, and their rights",
		`Manage the apps that may call the API, their secrets and their rights. Needs an
administrator: an administrator app, or the server's own account on the server's host.

A right is "OPERATIONS on NAMESPACES", or "OPERATIONS on NAMESPACES at HOSTS". OPERATIONS are *,
read, operate, setup, or names of operations. NAMESPACES are patterns, or biz:7 for a business.
HOSTS are patterns, or area:3 for a cloud area. Separate the items of a list with commas:
"read,restart on biz:7 at area:0,1:10.2.*".`,
		newAppCreate(), newAppList(), newAppShow(), newAppChange(),
		newAppDisable(), newAppEnable(), newAppRotate(), newAppResetSecret(), newAppGrant(), newAppRevoke())
}

// grantsOf reads rights as people write them.
func grantsOf(texts []string) ([]client.Grant, error) {
	grants := make([]client.Grant, len(texts))
	for i, text := range texts {
		g, err := access.ParseGrant(text)
		if err != nil {
			return nil, usagef("%w", err)
		}
		grants[i] = client.Grant(g)
	}
	return grants, nil
}

func grantText(g client.Grant) string { return access.Grant(g).String() }

func grantTexts(grants []client.Grant) string {
	texts := make([]string, len(grants))
	for i, g := range grants {
		texts[i] = grantText(g)
	}
	return strings.Join(texts, "; ")
}

// kindOf is what an app may, in a word.
func kindOf(a client.App) string {
	switch {
	case a.Disabled:
		return "disabled"
	case a.Admin:
		return "administrator"
	default:
		return "enabled"
	}
}

// limitText is the limits of an app; nothing where there are none.
func limitText(r client.Rates) string {
	var parts []string
	if r.Rate > 0 {
		parts = append(parts, fmt.Sprintf("%g calls a second (%d at once after a pause)", r.Rate, max(r.Burst, 1)))
	}
	if r.Concurrent > 0 {
		parts = append(parts, fmt.Sprintf("%d at the same time", r.Concurrent))
	}
	return strings.Join(parts, ", ")
}

// showApp writes an app in the form that is asked for.
func showApp(cmd *cobra.Command, o output, a client.App) error {
	w := cmd.OutOrStdout()
	if o.form != asText {
		return printValue(w, o.form, a)
	}
	if _, err := fmt.Fprintf(w, "%s: %s\n", printable(a.Code), kindOf(a)); err != nil {
		return err
	}
	fields := []field{{"Note", a.Note}, {"Names users", yesNo(a.MayNameUsers)}, {"Limits", limitText(a.Limits)}}
	if a.Admin {
		fields = append(fields, field{"Right", "everything"})
	}
	for _, g := range a.Grants {
		fields = append(fields, field{"Right", grantText(g)})
	}
	for _, s := range a.Secrets {
		until := "without end"
		if s.ExpiresAt != nil {
			until = "until " + stamp(s.ExpiresAt)
		}
		fields = append(fields, field{"Secret", fmt.Sprintf("%s, made %s, valid %s", s.ID, stamp(&s.CreatedAt), until)})
	}
	return writeFields(w, append(fields, field{"Created", stamp(&a.CreatedAt)}, field{"Changed", stamp(&a.ChangedAt)}))
}

// changed returns the run of a command that does something to an app and shows it, or the secret that it has got.
func changed(s *session, o *output,
	do func(ctx context.Context, c *client.Client, args []string) (client.App, error),
) run {
	return queryCommand(s, do, func(cmd *cobra.Command, _ []string, a client.App) error {
		if a.Secret != "" {
			return showOnce(cmd, *o, a, fmt.Sprintf("code    %s\nsecret  %s\n", a.Code, a.Secret),
				"drover shows the secret only this once, and stores only its hash")
		}
		return showApp(cmd, *o, a)
	})
}

// appVerb completes a command about one app.
func appVerb(cmd *cobra.Command, s *session, o *output) *cobra.Command {
	o.flags(cmd, asText, asJSON, asYAML)
	return argumentCommand(cmd, s, "CODE", completeApps(s))
}
