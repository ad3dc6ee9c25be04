// Package postgres keeps the server's state in PostgreSQL, which any number of servers can share. It owns the
// connections, the schema and the recovery from a lost connection or database server; package sqlstore owns the
// statements. Only the configuration of the connections holds the password: neither errors nor the log show the given
// URL.
package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"golang.org/x/sys/unix"

	"drover/internal/server/store/sqldb"
	"drover/internal/server/store/sqlstore"
	"drover/internal/server/store/sqlstore/kit"
)

//go:embed migrations/*.sql
var migrations embed.FS

// beginMigration takes a lock, with an arbitrary number, until the transaction ends.
const beginMigration = `BEGIN; SELECT pg_advisory_xact_lock(1819241)`

const (
	// connections bounds how many connections a server has, for reads and writes.
	connections = 24
	// patience bounds how long a write may take, and how long a read waits for the next data of the database. It ends
	// the waits for a database that has stopped answering.
	patience = 30 * time.Second
	// deadAfter is how long a connection may be silent while an answer is due, before the peer counts as gone.
	deadAfter = 20 * time.Second
	// connectTimeout bounds an attempt at one address, unless the URL says otherwise.
	connectTimeout = 5 * time.Second
	// oldest is the oldest version of PostgreSQL, in the form of server_version_num, that supports all statements.
	oldest = 130000
)

// DB is an open database: the store, in PostgreSQL.
type DB struct {
	*sqlstore.Store
	backend *backend
}

// Option changes how a database is opened.
type Option func(*options)

type options struct {
	watch    kit.Watch
	patience time.Duration
}

// WatchedBy reports what is stored to w.
func WatchedBy(w kit.Watch) Option { return func(o *options) { o.watch = w } }

// Is reports whether a name of a database is the URL of one for Open.
func Is(name string) bool {
	return strings.HasPrefix(name, "postgres://") || strings.HasPrefix(name, "postgresql://")
}

// Open connects to the database of a URL and brings its schema up to date. Of several servers only the first does this,
// while the others wait. Open fails with store.ErrAway if waiting may help. Every other error is permanent: a schema
// newer than its own, a wrong password or name, or a database that cannot hold the data. The caller must call Close.
//
// The URL may have several hosts and the parameters of libpq; target_session_attrs=read-write finds the primary of
// several servers. Open takes missing values from PGPASSWORD, PGPASSFILE and similar variables.
func Open(ctx context.Context, url string, log *slog.Logger, chosen ...Option) (*DB, error) {
	cfg, err := parse(url)
	if err != nil {
		return nil, err
	}
	wanted := options{patience: patience}
	for _, o := range chosen {
		o(&wanted)
	}
	silence := &stallDetector{}
	pool := sql.OpenDB(connector{stdlib.GetConnector(*cfg), silence})
	pool.SetMaxOpenConns(connections)
	pool.SetMaxIdleConns(connections)
	pool.SetConnMaxIdleTime(5 * time.Minute)
	b := &backend{
		pool: pool, dialect: dialect(), watch: wanted.watch, batcher: newWriteBatcher(), log: log,
		patience: wanted.patience, stalls: silence,
	}
	if err := b.prepare(ctx, log.With("database", addressesOf(cfg))); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot open database %s: %w", addressesOf(cfg), away(ctx, err)), pool.Close())
	}
	return &DB{Store: sqlstore.New(b, wanted.watch), backend: b}, nil
}

// parse reads a URL. Its errors do not quote the URL, because an invalid URL may have a password anywhere.
func parse(url string) (*pgx.ConnConfig, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return nil,
			errors.New("cannot read the URL of the database (not shown here, because it may hold a password): " +
				"it should be like postgres://USER@HOST:5432/NAME?sslmode=verify-full")
	}
	cfg.RuntimeParams["application_name"] = "drover"
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = connectTimeout
	}
	dialer := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: deadAfter / 2,
		Interval: deadAfter / 8, Count: 4,
	}}
	cfg.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dialer.DialContext(ctx, network, address)
		if tcp, ok := c.(*net.TCPConn); ok && err == nil {
			err = giveUp(tcp)
		}
		return c, err
	}
	return cfg, nil
}

// giveUp makes the kernel close a connection whose peer accepts no data for deadAfter.
func giveUp(c *net.TCPConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	err = raw.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(deadAfter.Milliseconds()))
	})
	return errors.Join(err, set)
}

// addressesOf returns the addresses of a database, without user name and password.
func addressesOf(cfg *pgx.ConnConfig) string {
	hosts := []string{net.JoinHostPort(cfg.Host, fmt.Sprint(cfg.Port))}
	for _, f := range cfg.Fallbacks {
		if h := net.JoinHostPort(f.Host, fmt.Sprint(f.Port)); h != hosts[len(hosts)-1] { // not the same without TLS
			hosts = append(hosts, h)
		}
	}
	return "postgres://" + strings.Join(hosts, ",") + "/" + cfg.Database
}

// WithoutPassword returns a URL without user name and password, for people.
func WithoutPassword(url string) string {
	cfg, err := parse(url)
	if err != nil {
		return "postgres://…"
	}
	return addressesOf(cfg)
}

// prepare checks that the database can hold the store, and brings its schema up to date.
func (b *backend) prepare(ctx context.Context, log *slog.Logger) error {
	conn, err := b.pool.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // returns it to the pool
	var version int
	var encoding string
	err = conn.QueryRowContext(ctx,
		`SELECT current_setting('server_version_num')::int, current_setting('server_encoding')`).Scan(&version,
		&encoding)
	switch {
	case err != nil:
		return err
	case version < oldest:
		return fmt.Errorf("PostgreSQL is version %d: drover needs version %d or later", version/10000, oldest/10000)
	case encoding != "UTF8":
		return fmt.Errorf(
			"its encoding is %s: drover needs UTF8; create the database with ENCODING 'UTF8' TEMPLATE template0",
			encoding)
	}
	return sqldb.Migrate(ctx, conn, beginMigration, migrations, "migrations", log)
}
