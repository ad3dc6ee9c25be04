package postgres

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/jackc/pgx/v5/pgconn"

	"drover/internal/server/store"
	"drover/internal/server/store/sqldb"
)

// away adds store.ErrAway to an error that a later attempt may not have, unless the caller gave up.
func away(ctx context.Context, err error) error {
	if ctx.Err() == nil && !errors.Is(err, store.ErrAway) && (lost(err) || errors.Is(err, errStalled)) {
		return fmt.Errorf("%w: %w", store.ErrAway, err)
	}
	return err
}

// lost reports whether an error means that there is no connection, or no connection to a server that accepts writes.
// The database undoes any open transaction of such a connection.
func lost(err error) bool {
	if refusal, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch refusal.Code {
		case "57P01", "57P02", "57P03", // the server stops, has crashed, or starts
			"53300", // too many connections
			"25006": // the server is a standby
			return true
		}
		return refusal.Code[:2] == "08"
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, pgconn.ErrConnClosed) || errors.Is(err, net.ErrClosed)
}

// gone is lost except for failed attempts to connect, which the next connection would repeat.
func gone(err error) bool {
	_, nobody := errors.AsType[*pgconn.ConnectError](err)
	return lost(err) && !nobody
}

// full adds sqldb.ErrFull to an error that says that the database server's disk is full.
func full(err error) error {
	if refusal, ok := errors.AsType[*pgconn.PgError](err); ok && refusal.Code == "53100" {
		return fmt.Errorf("%w (%w)", sqldb.ErrFull, err)
	}
	return err
}

// crossed reports whether the database undid a transaction because of a conflict with another one, so that a retry may
// succeed.
func crossed(err error) bool {
	refusal, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (refusal.Code == "40001" || refusal.Code == "40P01")
}
