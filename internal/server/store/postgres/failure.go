package postgres

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/jackc/pgx/v5/pgconn"

	"drover/internal/server/store/sqldb"
)

// unavailable adds ErrUnavailable to an error that may be gone at a later attempt.
func unavailable(err error) error {
	if lost(err) {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

// lost reports whether an error says that there is no connection, or none to a server that takes writes. Whatever
// transaction was open in it is undone.
func lost(err error) bool {
	if refusal, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch refusal.Code {
		case "57P01", "57P02", "57P03", // it stops, has crashed, or starts
			"53300", // it has no connection to spare
			"25006": // it is a standby
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

// gone is lost without those errors that the next connection would have too, as there is nobody to connect to.
func gone(err error) bool {
	_, nobody := errors.AsType[*pgconn.ConnectError](err)
	return lost(err) && !nobody
}

// full adds sqldb.ErrFull to an error that says that the server of the database has no room.
func full(err error) error {
	if refusal, ok := errors.AsType[*pgconn.PgError](err); ok && refusal.Code == "53100" {
		return fmt.Errorf("%w (%w)", sqldb.ErrFull, err)
	}
	return err
}

// crossed reports whether a transaction was undone because it was in the way of another one, and should be run again.
func crossed(err error) bool {
	refusal, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (refusal.Code == "40001" || refusal.Code == "40P01")
}
