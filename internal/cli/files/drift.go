package files

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/cli/selection"
	"drover/internal/cli/term"
	"drover/internal/command"
)

// NewDrift returns 'drover drift'.
func NewDrift() *cobra.Command {
	var s remote.Session
	var f client.DriftFilter
	var sel remote.Choice
	cmd := &cobra.Command{
		Use:  "drift [NAMESPACE/NAME]",
		Args: term.Args,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := sel.Connect(cmd, &s)
			if err != nil {
				return err
			}
			if len(args) > 0 {
				if f.Namespace, f.Name, err = term.SplitID(args[0]); err != nil {
					return selection.SuggestNamespace(cmd.Context(), c, args[0], err)
				}
			}
			if err := sel.First(cmd.Context(), c, f.Namespace, f.Name); err != nil {
				return err
			}
			f.Hosts, f.Selector, f.ProcessChoice = sel.Names, sel.Selector, sel.ProcessChoice
			answer, err := c.Drift(cmd.Context(), f)
			if err != nil {
				return remote.ExitOf(err)
			}
			if answer.Processes == 0 && (len(args) > 0 || !sel.Any()) {
				if err := sel.NoMatch(cmd.Context(), c, args); err != nil {
					return err
				}
				return term.NoSuchf("no process matches%s", sel.Where())
			}
			for i := range answer.Items {
				answer.Items[i].Mend = s.AgainIn(answer.Items[i].Mend)
			}
			return showDrift(cmd, &s, answer)
		},
		ValidArgsFunction: remote.First(selection.CompleteProcesses(&s)),
	}
	cmd.Flags().BoolVar(&f.Stored, "stored", false, "ask no host: compare only what the server has stored")
	sel.QueryFlags(cmd, &s, "only on these hosts")
	sel.LimitFlag(cmd)
	s.Flags(cmd, term.AsTable, term.AsJSON, term.AsYAML)
	return cmd
}

// showDrift prints differences, and fails if there are some.
func showDrift(cmd *cobra.Command, s *remote.Session, answer v1.DriftReport) error {
	if s.Form != term.AsTable {
		if err := term.PrintValue(cmd.OutOrStdout(), s.Form, answer); err != nil {
			return err
		}
	} else if len(answer.Items) > 0 {
		if err := term.PrintList(cmd, s.Output, foldDifferences(answer.Items), driftColumns(), nil); err != nil {
			return err
		}
	}
	for _, h := range answer.Unasked {
		term.Say(cmd, "running processes not compared: %s: %s\n", term.Printable(h.Host), term.Printable(h.Error))
	}
	switch {
	case answer.Total == 0 && len(answer.Unasked) > 0:
		return &command.ExitError{Code: command.Unreachable}
	case answer.Total == 0:
		term.Say(cmd, "no differences\n")
		return nil
	case answer.Total > len(answer.Items):
		term.Say(cmd, "%d differences in all: choose a namespace or hosts to see the others\n", answer.Total)
	}
	return &command.ExitError{Code: command.Wrong}
}

// foldDifferences makes one row of the differences that are equal on many hosts: it names the hosts, the command that
// mends all of them, and the time of the last difference.
func foldDifferences(all []v1.Difference) []v1.Difference {
	const anyHost = "--hosts \x00"
	type key struct{ namespace, name, kind, field, want, have, app, user, through, text, mend string }
	var rows []v1.Difference
	var hosts [][]string
	places := map[key]int{}
	for _, d := range all {
		command := strings.ReplaceAll(d.Mend, "--hosts "+term.ShellWord(d.Host), anyHost)
		k := key{
			d.Namespace, d.Name, d.Kind, d.Field, valueText(d.Want), valueText(d.Have), d.App, d.User, d.Through,
			d.Text, command,
		}
		place, met := places[k]
		if !met {
			place = len(rows)
			places[k] = place
			d.Mend = command
			rows, hosts = append(rows, d), append(hosts, nil)
		} else if last := rows[place].At; d.At != nil && (last == nil || d.At.After(*last)) {
			rows[place].At = d.At
		}
		hosts[place] = append(hosts[place], d.Host)
	}
	for i := range rows {
		r, list := &rows[i], strings.Join(hosts[i], ",")
		r.Mend = strings.ReplaceAll(r.Mend, anyHost, "--hosts "+term.ShellWord(list))
		if r.Host = list; len(hosts[i]) > mostHostsInRow {
			r.Host = fmt.Sprintf("%s,… (%d hosts)", strings.Join(hosts[i][:mostHostsInRow], ","), len(hosts[i]))
		}
	}
	return rows
}

// mostHostsInRow is how many hosts a row names.
const mostHostsInRow = 3

func valueText(v any) string {
	if v == nil {
		return ""
	}
	if text, ok := v.(string); ok {
		return term.Printable(text)
	}
	text, _ := json.Marshal(v) // it was JSON
	return term.Printable(string(text))
}

func driftColumns() []term.Column[v1.Difference] {
	return []term.Column[v1.Difference]{
		{Head: "NAME", Cell: func(d v1.Difference) string { return d.Namespace + "/" + d.Name }},
		{Head: "HOST", Cell: func(d v1.Difference) string { return d.Host }},
		{Head: "KIND", Cell: func(d v1.Difference) string { return d.Kind }},
		{Head: "FIELD", Cell: func(d v1.Difference) string { return d.Field }},
		{Head: "FILE", Cell: func(d v1.Difference) string { return valueText(d.Want) }},
		{Head: "HOST HAS", Cell: func(d v1.Difference) string { return valueText(d.Have) }},
		{Head: "WHY", Cell: whyDiffers},
		{Head: "MEND", Cell: func(d v1.Difference) string { return d.Mend }},
	}
}

// whyDiffers says what happened, and in parentheses who did it when.
func whyDiffers(d v1.Difference) string {
	var known []string
	if d.App+d.User != "" {
		known = append(known, strings.TrimSpace(d.Through+" by "+term.Caller(d.App, d.User)))
	}
	if d.At != nil {
		known = append(known, term.Stamp(d.At))
	}
	if known == nil {
		return term.Printable(d.Text)
	}
	return term.Printable(d.Text + " (" + strings.Join(known, ", ") + ")")
}
