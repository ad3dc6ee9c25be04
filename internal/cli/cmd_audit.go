package cli

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"drover/client"
)

func newAudit() *cobra.Command {
	var s session
	var o output
	var f client.AuditFilter
	var when timeRange
	var denied bool
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "List calls and denials, newest first",
		Long:  "List calls and denials, newest first: caller, address, operation, number of targets and outcome. Needs an administrator.",
		Example: `  drover audit --denied --since 24h
  drover audit --app bk_nodeman --since 2026-11-20T00:00:00Z -o json`,
		Args: exactly(),
		RunE: listCommand(&s, &o, "no audit records", auditColumns(), func(r client.AuditRow) string { return r.RequestID },
			func(ctx context.Context, c *client.Client, _ []string) ([]client.AuditRow, error) {
				var err error
				if f.Since, f.Until, err = when.times(); err != nil {
					return nil, err
				}
				if denied {
					f.Allowed = new(false)
				}
				return client.Collect(c.Audit(ctx, f))
			}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	when.flags(cmd)
	flags.StringVar(&f.App, "app", "", "only calls of this app")
	flags.StringVar(&f.User, "user", "", "only calls of this user")
	flags.StringVar(&f.Action, "action", "", "only calls of this endpoint")
	flags.StringVar(&f.RequestID, "request", "", "only the call with this request id")
	flags.BoolVar(&denied, "denied", false, "only denied calls")
	flags.IntVar(&f.Limit, "limit", 50, "most rows to list; 0 lists all")
	completeFlag(cmd, "app", completeApps(&s))
	completeFlag(cmd, "user", completeUsers(&s))
	o.flags(cmd, asTable, asWide, asJSON, asYAML)
	s.flags(cmd)
	return cmd
}

func auditColumns() []column[client.AuditRow] {
	return []column[client.AuditRow]{
		{head: "TIME", cell: func(r client.AuditRow) string { return stamp(&r.At) }},
		{head: "BY", cell: func(r client.AuditRow) string { return by(r.App, r.User) }},
		{head: "FROM", cell: func(r client.AuditRow) string { return r.Remote }},
		{head: "ACTION", cell: askedFor},
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
		{head: "ENDPOINT", wide: true, cell: func(r client.AuditRow) string { return r.Action }},
		{head: "CODE", wide: true, cell: func(r client.AuditRow) string { return strconv.Itoa(r.Code) }},
		{head: "REQUEST", wide: true, cell: func(r client.AuditRow) string { return r.RequestID }},
		{head: "MESSAGE", wide: true, cell: func(r client.AuditRow) string { return r.Message }},
		{head: "DETAIL", wide: true, cell: func(r client.AuditRow) string { return string(r.Detail) }},
	}
}

// askedFor is what a call has asked for: its operations, else its endpoint.
func askedFor(r client.AuditRow) string {
	var detail struct {
		Ops map[string]int `json:"ops"`
	}
	if json.Unmarshal(r.Detail, &detail) != nil || len(detail.Ops) == 0 { // of most calls there is no detail
		return r.Action
	}
	return strings.Join(slices.Sorted(maps.Keys(detail.Ops)), ", ")
}
