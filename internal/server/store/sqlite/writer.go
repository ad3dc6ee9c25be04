package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"drover/internal/durable"
	"drover/internal/reserve"
	"drover/internal/server/store/sqldb"
	"drover/internal/server/store/sqlstore/kit"
)

// errClosed is returned by writes after Close.
var errClosed = errors.New("database is closed")

// largestBatch bounds how many writes share a transaction, and so how long the first of them waits.
const largestBatch = 128

// The writer checkpoints the write-ahead log after checkpointRows rows and checkpointPause without a write, because a
// commit would have to wait for a checkpoint. If the log reaches checkpointPages pages, the current commit checkpoints
// it.
const (
	checkpointRows  = 1000
	checkpointPause = 10 * time.Millisecond
	checkpointPages = 16_384
)

// writer runs all writes on one connection. It commits writes that wait at the same time together, with one sync to
// disk. A failed write does not affect the others: the writer undoes it alone. If it cannot, it runs each write again
// alone.
type writer struct {
	conns *sql.DB
	tx    *tx
	watch kit.Watch // nil for none
	log   *slog.Logger
	// reserve holds disk space for urgent writes on a full disk.
	reserve *reserve.Reserve
	// file is the file of the database.
	file durable.Held
	// jobs is unbuffered: the caller holds a job until the writer takes it, so Close strands no job.
	jobs chan *job
	quit chan struct{}
	done sync.WaitGroup
}

// job is one write. Its function may run more than once, and must start from the beginning each time.
type job struct {
	do     func(context.Context, sqldb.Session) error
	urgent bool
	err    chan error
}

func newWriter(
	ctx context.Context, conns *sql.DB, dialect *sqldb.Dialect, watch kit.Watch, room *reserve.Reserve,
	log *slog.Logger,
) (*writer, error) {
	conn, err := conns.Conn(ctx)
	if err != nil {
		return nil, err
	}
	w := &writer{
		conns:   conns,
		tx:      &tx{conn: conn, dialect: dialect, prepared: map[string]*sql.Stmt{}},
		watch:   watch,
		log:     log,
		reserve: room,
		jobs:    make(chan *job),
		quit:    make(chan struct{}),
	}
	w.done.Go(func() { w.run(context.WithoutCancel(ctx)) })
	return w, nil
}

// write runs do in a transaction, and returns when the transaction is on disk or undone. The context has no effect once
// the write begins.
func (w *writer) write(ctx context.Context, do func(context.Context, sqldb.Session) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := w.file.Check(); err != nil {
		return err
	}
	j := &job{do: do, urgent: sqldb.Urgent(ctx), err: make(chan error, 1)}
	select {
	case w.jobs <- j:
		return <-j.err
	case <-ctx.Done():
		return ctx.Err()
	case <-w.quit:
		return errClosed
	}
}

func (w *writer) close() error {
	close(w.quit)
	w.done.Wait()
	return errors.Join(w.tx.close(), w.conns.Close())
}

func (w *writer) run(ctx context.Context) {
	for {
		var batch []*job
		select {
		case j := <-w.jobs:
			batch = append(batch, j)
		case <-w.idle():
			w.checkpoint(ctx)
			continue
		case <-w.quit:
			return
		}
		for waiting := true; waiting && len(batch) < largestBatch; {
			select {
			case j := <-w.jobs:
				batch = append(batch, j)
			default:
				waiting = false
			}
		}
		if len(batch) > 1 && w.reserve.Renew() && w.together(ctx, batch) {
			continue
		}
		for _, j := range batch {
			begun := time.Now()
			err := w.withRoom(ctx, j)
			w.wrote(1, begun, err)
			j.err <- err
		}
	}
}

// wrote reports a transaction to the Watch.
func (w *writer) wrote(writes int, begun time.Time, err error) {
	if w.watch != nil {
		w.watch.Wrote(writes, time.Since(begun), err)
	}
}

// idle returns a channel that receives after checkpointPause without a write. The channel is nil if there is too little
// for a checkpoint.
func (w *writer) idle() <-chan time.Time {
	if w.tx.changed < checkpointRows {
		return nil
	}
	return time.After(checkpointPause)
}

// checkpoint copies the log into the file, except pages that an open read needs. The next checkpoint copies the rest.
func (w *writer) checkpoint(ctx context.Context) {
	w.tx.changed = 0
	err := w.tx.Query(ctx, func(*sql.Rows) error { return nil }, `PRAGMA wal_checkpoint(PASSIVE)`)
	if err != nil {
		w.log.WarnContext(ctx, "cannot checkpoint the write-ahead log", "error", err)
	}
}

// withRoom runs one job alone. On a full disk it releases the reserve if the job is urgent.
func (w *writer) withRoom(ctx context.Context, j *job) error {
	write := func() error {
		err := w.alone(ctx, j)
		if w.isFull(err) {
			return fmt.Errorf("%w (%w)", reserve.ErrFull, err)
		}
		return err
	}
	attempt := w.reserve.Ordinary
	if j.urgent {
		attempt = w.reserve.Urgent
	}
	err := attempt(write)
	if reserve.IsFull(err) {
		return fmt.Errorf("%w (%w)", sqldb.ErrFull, err)
	}
	return err
}

// isFull reports whether a write failed because the disk is full. SQLite returns either that error or a failed write of
// a file.
func (w *writer) isFull(err error) bool {
	failure, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return false
	}
	code := failure.Code() & 0xff
	return code == sqlite3.SQLITE_FULL || code == sqlite3.SQLITE_IOERR && !w.reserve.Room()
}

// alone runs one job in its own transaction.
func (w *writer) alone(ctx context.Context, j *job) error {
	if err := w.tx.control(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	err := j.do(ctx, w.tx)
	if err == nil {
		err = w.tx.control(ctx, "COMMIT")
	}
	if err != nil {
		w.rollback(ctx)
	}
	return err
}

// together runs the jobs in one transaction and answers them. If the transaction as a whole fails, together returns
// false; it has changed nothing and answered no job.
func (w *writer) together(ctx context.Context, batch []*job) bool {
	begun := time.Now()
	if err := w.tx.control(ctx, "BEGIN IMMEDIATE"); err != nil {
		return false
	}
	errs := make([]error, len(batch))
	for i, j := range batch {
		var broken bool
		if errs[i], broken = w.nested(ctx, j); broken {
			w.rollback(ctx)
			return false
		}
	}
	if err := w.tx.control(ctx, "COMMIT"); err != nil {
		w.log.WarnContext(ctx, "shared transaction failed, retrying its writes one by one", "writes", len(batch),
			"error", err)
		w.rollback(ctx)
		return false
	}
	w.wrote(len(batch), begun, nil)
	for i, j := range batch {
		j.err <- errs[i]
	}
	return true
}

// nested runs one job of a shared transaction; broken is set if the transaction did not survive the job.
//
//nolint:revive,staticcheck // the job's error is the subject, not the call's
func (w *writer) nested(ctx context.Context, j *job) (err error, broken bool) {
	if err := w.tx.control(ctx, "SAVEPOINT job"); err != nil {
		return err, true
	}
	err = j.do(ctx, w.tx)
	if w.isFull(err) { // alone, it may use the reserve
		return err, true
	}
	if err != nil {
		// SQLite ends the whole transaction on some errors, such as a full disk: then the savepoint is gone too.
		if undo := w.tx.control(ctx, "ROLLBACK TO job"); undo != nil {
			return err, true
		}
	}
	return err, w.tx.control(ctx, "RELEASE job") != nil
}

// rollback ends a failed transaction. SQLite may have ended it already, which makes ROLLBACK fail.
func (w *writer) rollback(ctx context.Context) {
	if err := w.tx.control(ctx, "ROLLBACK"); err != nil {
		w.log.DebugContext(ctx, "transaction was already rolled back", "error", err)
	}
}

// tx is the writing connection; while a job runs, it is inside a transaction. The context of a job never ends: every
// statement is short, and an interrupted statement would have to be undone.
type tx struct {
	conn     *sql.Conn
	dialect  *sqldb.Dialect
	prepared map[string]*sql.Stmt
	// changed is about how many rows were written since the last checkpoint.
	changed int
}

func (t *tx) statement(ctx context.Context, text string) (*sql.Stmt, error) {
	if s, ok := t.prepared[text]; ok {
		return s, nil
	}
	s, err := t.conn.PrepareContext(ctx, t.dialect.Spell(text))
	if err != nil {
		return nil, fmt.Errorf("cannot prepare statement: %w", err)
	}
	t.prepared[text] = s
	return s, nil
}

// Exec runs a statement that returns no rows, and returns the number of changed rows.
func (t *tx) Exec(ctx context.Context, statement string, args ...any) (int, error) {
	s, err := t.statement(ctx, statement) //nolint:sqlclosecheck // kept, and closed with the database
	if err != nil {
		return 0, err
	}
	result, err := s.ExecContext(ctx, args...)
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	t.changed += int(n)
	return int(n), err
}

// Query calls scan for each row that the statement returns.
func (t *tx) Query(ctx context.Context, scan func(*sql.Rows) error, statement string, args ...any) error {
	s, err := t.statement(ctx, statement) //nolint:sqlclosecheck // kept, and closed with the database
	if err != nil {
		return err
	}
	return sqldb.Each(func() (*sql.Rows, error) { return s.QueryContext(ctx, args...) }, func(rows *sql.Rows) error {
		t.changed++ // usually a change returns these rows
		return scan(rows)
	})
}

// control runs a transaction statement.
func (t *tx) control(ctx context.Context, statement string) error {
	if _, err := t.Exec(ctx, statement); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}

func (t *tx) close() error {
	var errs []error
	for _, s := range t.prepared {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, t.conn.Close())...)
}
