package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
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
	where, args := auditConditions(f)
	var rows []store.AuditRow
	err := db.query(ctx, func(r *sql.Rows) error {
		var row store.AuditRow
		var at int64
		err := r.Scan(&row.Num, &at, &row.App, &row.User, &row.Remote, &row.RequestID, &row.Action, &row.Target,
			&row.Targets,
			&row.Allowed, &row.Code, &row.Message, (*[]byte)(&row.Detail))
		row.At = moment(at)
		rows = append(rows, row)
		return err
	},
		`SELECT num, at, app, "user", remote, request_id, action, target, targets, allowed, code, message, detail
			FROM audit
		`+where+` ORDER BY at DESC, num DESC LIMIT ?`, append(args, max(f.Limit, 0))...)
	if err != nil {
		return nil, fmt.Errorf("cannot list audit rows: %w", err)
	}
	return rows, nil
}

// auditConditions returns the WHERE clause of a filter. There are as many texts of it as combinations of fields, so
// each can be kept prepared.
func auditConditions(f store.AuditFilter) (string, []any) {
	var parts []string
	var args []any
	where := func(wanted bool, part string, values ...any) {
		if wanted {
			parts, args = append(parts, part), append(args, values...)
		}
	}
	where(!f.Since.IsZero(), "at >= ?", nanos(f.Since))
	where(!f.Until.IsZero(), "at < ?", nanos(f.Until))
	where(f.App != "", "app = ?", f.App)
	where(f.User != "", `"user" = ?`, f.User)
	where(f.Action != "", "action = ?", f.Action)
	where(f.RequestID != "", "request_id = ?", f.RequestID)
	if f.Allowed != nil && *f.Allowed {
		where(true, "allowed = 1")
	} else {
		where(f.Allowed != nil, "allowed = 0")
	}
	where(f.Before != store.AuditMark{}, "(at, num) < (?, ?)", nanos(f.Before.At), f.Before.Num)
	if len(parts) == 0 {
		return "", nil
	}
	return "WHERE " + strings.Join(parts, " AND "), args
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
