package postgres

import (
	"context"
	"database/sql/driver"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/stdlib"
)

// connector makes connections that convert values to the types of the store's statements.
type connector struct {
	driver.Connector
	stalls *stallDetector
}

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	begun := time.Now()
	inner, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	pgx, ok := inner.(*stdlib.Conn)
	if !ok {
		return nil, fmt.Errorf("the driver has made a %T", inner)
	}
	return &conn{pgx, begun, c.stalls}, nil
}

// conn is a connection that converts flags to numbers, as every database of the store does, and preserves NUL bytes in
// texts.
type conn struct {
	*stdlib.Conn
	begun  time.Time
	stalls *stallDetector
}

// ResetSession is called before a connection is used again. It closes a connection that may lead to a hanging server.
func (c *conn) ResetSession(ctx context.Context) error {
	if c.stalls.covers(c.begun) {
		return driver.ErrBadConn
	}
	return c.Conn.ResetSession(ctx)
}

// CheckNamedValue converts a parameter to one of the few types that columns have.
func (c *conn) CheckNamedValue(v *driver.NamedValue) error {
	value, err := driver.DefaultParameterConverter.ConvertValue(v.Value)
	if err != nil {
		return err
	}
	switch x := value.(type) {
	case bool:
		value = int64(0)
		if x {
			value = int64(1)
		}
	case string:
		value = escape(x)
	case []byte:
		value = escape(string(x))
	}
	v.Value = value
	return nil
}

// QueryContext runs a statement that returns rows.
func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	inner, err := c.Conn.QueryContext(ctx, query, args)
	if err != nil {
		return nil, err
	}
	return &rows{inner}, nil
}

// rows restores the texts as the store wrote them.
type rows struct{ driver.Rows }

// Next reads a row.
func (r *rows) Next(dest []driver.Value) error {
	if err := r.Rows.Next(dest); err != nil {
		return err
	}
	for i, v := range dest {
		if s, ok := v.(string); ok {
			dest[i] = unescape(s)
		}
	}
	return nil
}

// PostgreSQL accepts neither texts with NUL bytes nor texts that are not UTF-8. Names from callers may have NUL bytes,
// and callers get their names back unchanged. So a NUL is stored as two bytes of 1, and a byte of 1 as the bytes 1 and
// 2. This encoding keeps the order of texts.
const (
	mark     = "\x01"
	nul, one = "\x01\x01", "\x01\x02"
)

func escape(s string) string {
	if strings.ContainsAny(s, "\x00\x01") {
		s = strings.NewReplacer("\x00", nul, mark, one).Replace(s)
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

func unescape(s string) string {
	if !strings.Contains(s, mark) {
		return s
	}
	return strings.NewReplacer(nul, "\x00", one, mark).Replace(s)
}
