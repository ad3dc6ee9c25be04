package cli

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"drover/client"
)

func newAudit() *cobra.Command {
	var s session
	var o output
	var f client.AuditFilter
	var since, until string
	var denied bool
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "List calls and denials, newest first",
		Long:  "List calls and denials, newest first: who, from where, what, on how many targets, with which outcome. Needs an administrator.",
		Example: `  drover audit --denied --since 24h
  drover audit --app bk_nodeman --since 2026-11-20T00:00:00Z -o json`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if f.Since, err = moment("--since", since); err != nil {
				return err
			}
			if f.Until, err = moment("--until", until); err != nil {
				return err
			}
			if denied {
				allowed := false
				f.Allowed = &allowed
			}
			c, err := s.client(cmd)
			if err != nil {
				return err
			}
			rows, err := client.Collect(c.Audit(cmd.Context(), f))
			if err != nil {
				return exitOf(err)
			}
			return printList(cmd, &s, o, rows, auditColumns(), func(r client.AuditRow) string { return r.RequestID })
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	flags.StringVar(&since, "since", "", "only from this time on: RFC 3339, or an age such as 24h")
	flags.StringVar(&until, "until", "", "only before this time: RFC 3339, or an age such as 1h")
	flags.StringVar(&f.App, "app", "", "only of this app")
	flags.StringVar(&f.User, "user", "", "only of this user")
	flags.StringVar(&f.Action, "action", "", "only of this endpoint")
	flags.StringVar(&f.RequestID, "request", "", "only of this request id")
	flags.BoolVar(&denied, "denied", false, "only what was not allowed")
	flags.IntVar(&f.Limit, "limit", 50, "at most so many; 0 is all")
	completeFlag(cmd, "app", completeApps(&s))
	completeFlag(cmd, "user", completeUsers(&s))
	o.flags(cmd, asTable, asWide, asJSON, asYAML)
	s.flags(cmd)
	return cmd
}

// moment reads a time, or an age.
func moment(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return time.Now().Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, usagef("%s %q: expected a time such as 2026-11-20T10:30:00Z, or an age such as 24h", flag, text)
	}
	return t, nil
}

func auditColumns() []column[client.AuditRow] {
	return []column[client.AuditRow]{
		{head: "TIME", cell: func(r client.AuditRow) string { return stamp(&r.At) }},
		{head: "BY", cell: func(r client.AuditRow) string { return by(r.App, r.User) }},
		{head: "FROM", cell: func(r client.AuditRow) string { return r.Remote }},
		{head: "ACTION", cell: func(r client.AuditRow) string { return r.Action }},
		{head: "TARGET", cell: func(r client.AuditRow) string { return r.Target }},
		{head: "TARGETS", cell: func(r client.AuditRow) string { return strconv.Itoa(r.Targets) }},
		{head: "OUTCOME", state: true, cell: func(r client.AuditRow) string {
			switch {
			case !r.Allowed:
				return "denied"
			case r.Code != 0:
				return "failed"
			default:
				return "ok"
			}
		}},
		{head: "CODE", wide: true, cell: func(r client.AuditRow) string { return strconv.Itoa(r.Code) }},
		{head: "REQUEST", wide: true, cell: func(r client.AuditRow) string { return r.RequestID }},
		{head: "MESSAGE", wide: true, cell: func(r client.AuditRow) string { return r.Message }},
		{head: "DETAIL", wide: true, cell: func(r client.AuditRow) string { return string(r.Detail) }},
	}
}
