package people

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"drover/internal/server/store"
	"drover/internal/server/store/sqlstore/kit"
)

// PutAudit appends rows.
func (db *People) PutAudit(ctx context.Context, rows ...store.AuditRow) error {
	err := db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		var errs []error
		for i := range rows {
			errs = append(errs, InsertAudit(ctx, tx, &rows[i]))
		}
		return errors.Join(errs...)
	})
	if err != nil {
		return fmt.Errorf("cannot store audit rows: %w", err)
	}
	db.Watch.Audited(len(rows))
	return nil
}

// InsertAudit stores a row of the audit log in a transaction.
func InsertAudit(ctx context.Context, tx kit.Tx, r *store.AuditRow) error {
	detail := sql.NullString{String: string(r.Detail), Valid: r.Detail != nil}
	return tx.Exec(ctx,
		`INSERT INTO audit (at, app, "user", remote, request_id, action, target, targets, allowed, code, message,
			detail)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		kit.Nanos(r.At), r.App, r.User, r.Remote, r.RequestID, r.Action, r.Target, r.Targets, r.Allowed, r.Code,
		r.Message,
		detail)
}

// ListAudit returns the rows that match the filter, newest first.
func (db *People) ListAudit(ctx context.Context, f store.AuditFilter) ([]store.AuditRow, error) {
	w := kit.Where{Dialect: db.Dialect}
	w.When(!f.Since.IsZero(), "at >= ?", kit.Nanos(f.Since))
	w.When(!f.Until.IsZero(), "at < ?", kit.Nanos(f.Until))
	w.When(f.App != "", "app = ?", f.App)
	w.When(f.User != "", `"user" = ?`, f.User)
	w.When(f.Action != "", "action = ?", f.Action)
	for _, action := range f.Without {
		w.Add("action <> ?", action)
	}
	w.When(f.RequestID != "", "request_id = ?", f.RequestID)
	w.When(f.Remote != "", "remote = ?", f.Remote)
	if f.Allowed != nil {
		w.Add("allowed = ?", *f.Allowed)
	}
	w.When(f.Before != store.AuditMark{}, "(at, num) < (?, ?)", kit.Nanos(f.Before.At), f.Before.Num)
	conditions := ""
	if len(w.Text) > 0 {
		conditions = "WHERE " + w.All()
	}
	rows, err := kit.All(ctx, db.Query, func(r *sql.Rows) (row store.AuditRow, err error) {
		var at int64
		err = r.Scan(&row.Num, &at, &row.App, &row.User, &row.Remote, &row.RequestID, &row.Action, &row.Target,
			&row.Targets,
			&row.Allowed, &row.Code, &row.Message, (*[]byte)(&row.Detail))
		row.At = kit.Moment(at)
		return row, err
	},
		`SELECT num, at, app, "user", remote, request_id, action, target, targets, allowed, code, message, detail
			FROM audit
		`+conditions+` ORDER BY at DESC, num DESC LIMIT ?`, append(w.Args, max(f.Limit, 0))...)
	if err != nil {
		return nil, fmt.Errorf("cannot list audit rows: %w", err)
	}
	return rows, nil
}

// PruneAudit removes the oldest rows.
func (db *People) PruneAudit(ctx context.Context, before time.Time, limit int) (int, error) {
	var pruned int
	err := db.Write(ctx, func(ctx context.Context, tx kit.Tx) (err error) {
		pruned, err = tx.Affect(ctx,
			`DELETE FROM audit WHERE num IN (SELECT num FROM audit WHERE at < ? ORDER BY at LIMIT ?)`,
			kit.Nanos(before), max(limit, 0))
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("cannot prune audit rows: %w", err)
	}
	return pruned, nil
}
