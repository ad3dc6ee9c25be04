package accounts

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/cli/term"
	"drover/internal/words"
)

// NewAudit returns 'drover audit'.
func NewAudit() *cobra.Command {
	var s remote.Session
	var f client.AuditFilter
	var when term.TimeRange
	var denied bool
	cmd := remote.List[v1.AuditRow]{
		Use: "audit", None: "no audit records",
		Columns: auditColumns(),
		Rows: func(ctx context.Context, c *client.Client, _ []string) (_ []v1.AuditRow, err error) {
			if f.Since, f.Until, err = when.Times(); err != nil {
				return nil, err
			}
			if denied {
				f.Allowed = new(false)
			}
			return client.Collect(c.Audit(ctx, f))
		},
	}.Command(&s)
	flags := cmd.Flags()
	when.Flags(cmd)
	flags.StringVar(&f.App, "app", "", "only calls of this app")
	flags.StringVar(&f.User, "user", "", "only calls of this user")
	flags.StringVar(&f.Action, "action", "", "only calls of this endpoint")
	flags.BoolVar(&f.Changes, "changes", false, "without the calls that only read, and without dry runs")
	flags.StringVar(&f.RequestID, "request", "", "only the call with this request id")
	flags.StringVar(&f.Address, "address", "", "only calls from this address")
	flags.BoolVar(&denied, "denied", false, "only denied calls")
	flags.IntVar(&f.Limit, "limit", 50, "list at most this number of rows; 0 lists all")
	remote.CompleteFlag(cmd, "app", appList().Names(&s))
	remote.CompleteFlag(cmd, "user", userList().Names(&s))
	return cmd
}

func auditColumns() []term.Column[v1.AuditRow] {
	return []term.Column[v1.AuditRow]{
		{Head: "TIME", Cell: func(r v1.AuditRow) string { return term.Stamp(&r.At) }},
		{Head: "BY", Cell: func(r v1.AuditRow) string { return term.Caller(r.App, r.User) }},
		{Head: "FROM", Cell: func(r v1.AuditRow) string { return r.Remote }},
		{Head: "ACTION", Cell: remote.AskedFor, Words: words.Did},
		{Head: "TARGET", Cell: func(r v1.AuditRow) string { return r.Target }},
		{Head: "TARGETS", Cell: func(r v1.AuditRow) string { return strconv.Itoa(r.Targets) }},
		{Head: "OUTCOME", State: true, Cell: remote.AuditOutcome},
		{Head: "ENDPOINT", Wide: true, Cell: func(r v1.AuditRow) string { return r.Action }},
		{Head: "CODE", Wide: true, Cell: func(r v1.AuditRow) string { return strconv.Itoa(r.Code) }},
		{Head: "REQUEST", Wide: true, Cell: func(r v1.AuditRow) string { return r.RequestID }},
		{Head: "MESSAGE", Wide: true, Cell: func(r v1.AuditRow) string { return r.Message }},
		{Head: "DETAIL", Wide: true, Cell: func(r v1.AuditRow) string { return string(r.Detail) }},
	}
}
