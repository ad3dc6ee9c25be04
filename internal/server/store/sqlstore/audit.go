package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"drover/internal/server/store"
)

// PutAudit appends rows.
func (db *Store) PutAudit(ctx context.Context, rows ...store.AuditRow) error {
	err := db.write(ctx, func(ctx context.Context, tx tx) error {
		var errs []error
		for i := range rows {
			errs = append(errs, insertAudit(ctx, tx, &rows[i]))
		}
		return errors.Join(errs...)
	})
	if err != nil {
		return fmt.Errorf("cannot store audit rows: %w", err)
	}
	db.watch.Audited(len(rows))
	return nil
}

func insertAudit(ctx context.Context, tx tx, r *store.AuditRow) error {
	detail := sql.NullString{String: string(r.Detail), Valid: r.Detail != nil}
	return tx.exec(ctx,
		`INSERT INTO audit (at, app, "user", remote, request_id, action, target, targets, allowed, code, message,
			detail)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		nanos(r.At), r.App, r.User, r.Remote, r.RequestID, r.Action, r.Target, r.Targets, r.Allowed, r.Code, r.Message,
		detail)
}

// ListAudit returns the rows that match the filter, newest first.
func (db *Store) ListAudit(ctx context.Context, f store.AuditFilter) ([]store.AuditRow, error) {
	w := where{dialect: db.dialect}
	w.when(!f.Since.IsZero(), "at >= ?", nanos(f.Since))
	w.when(!f.Until.IsZero(), "at < ?", nanos(f.Until))
	w.when(f.App != "", "app = ?", f.App)
	w.when(f.User != "", `"user" = ?`, f.User)
	w.when(f.Action != "", "action = ?", f.Action)
	w.when(f.RequestID != "", "request_id = ?", f.RequestID)
	if f.Allowed != nil {
		w.add("allowed = ?", *f.Allowed)
	}
	w.when(f.Before != store.AuditMark{}, "(at, num) < (?, ?)", nanos(f.Before.At), f.Before.Num)
	conditions := ""
	if len(w.text) > 0 {
		conditions = "WHERE " + w.all()
	}
	rows, err := all(ctx, db.query, func(r *sql.Rows) (row store.AuditRow, err error) {
		var at int64
		err = r.Scan(&row.Num, &at, &row.App, &row.User, &row.Remote, &row.RequestID, &row.Action, &row.Target,
			&row.Targets,
			&row.Allowed, &row.Code, &row.Message, (*[]byte)(&row.Detail))
		row.At = moment(at)
		return row, err
	},
		`SELECT num, at, app, "user", remote, request_id, action, target, targets, allowed, code, message, detail
			FROM audit
		`+conditions+` ORDER BY at DESC, num DESC LIMIT ?`, append(w.args, max(f.Limit, 0))...)
	if err != nil {
		return nil, fmt.Errorf("cannot list audit rows: %w", err)
	}
	return rows, nil
}

// PruneAudit removes the oldest rows.
func (db *Store) PruneAudit(ctx context.Context, before time.Time, limit int) (int, error) {
	var pruned int
	err := db.write(ctx, func(ctx context.Context, tx tx) (err error) {
		pruned, err = tx.affect(ctx,
			`DELETE FROM audit WHERE num IN (SELECT num FROM audit WHERE at < ? ORDER BY at LIMIT ?)`,
			nanos(before), max(limit, 0))
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("cannot prune audit rows: %w", err)
	}
	return pruned, nil
}
