package postgres

import (
	"context"
	"database/sql"
	"regexp"
	"strconv"
	"strings"

	"drover/internal/server/store/sqldb"
)

// laneLocks distinguishes the locks of lanes from other locks of the database.
const laneLocks = 1819240

// dialect returns the dialect of PostgreSQL.
func dialect() *sqldb.Dialect {
	return &sqldb.Dialect{
		Lists: map[string]string{
			"texts":   list(`value #>> '{}' AS value`),
			"numbers": list(`CAST(value AS bigint) AS value`),
			"pairs":   list(`CAST(value ->> 0 AS bigint) AS a, CAST(value ->> 1 AS bigint) AS b`),
			"names":   list(`value ->> 0 AS a, value ->> 1 AS b`),
			"triples": list(`value ->> 0 AS a, value ->> 1 AS b, value ->> 2 AS c`),
		},
		Rewrite:  rewriter(),
		Match:    "LIKE",
		Pattern:  strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`, `*`, `%`, `?`, `_`).Replace,
		Text:     escape,
		Locked:   ` FOR UPDATE`,
		Skipping: ` FOR UPDATE OF i SKIP LOCKED`,
		// Each task has its own number, and a range of numbers for its requests and items. A sequence needs no lock.
		Numbers: `SELECT num, num << 24, num << 24 FROM nextval('task_numbers') num`,
		LockLanes: `SELECT pg_advisory_xact_lock(` + strconv.Itoa(laneLocks) +
			`, CAST(value AS integer)) FROM numbers(?) j`,
		Clock:  `SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint) * 1000`,
		Origin: origin,
	}
}

// origin returns the numbers of the cluster, the database and a table. A standby has those of its primary; a database
// that was restored from a dump has others. The run is the start of the database's server.
func origin(ctx context.Context, b sqldb.Backend) (name, run string, err error) {
	err = b.Query(ctx, func(rows *sql.Rows) error { return rows.Scan(&name, &run) },
		`SELECT (SELECT system_identifier FROM pg_control_system()) || ' ' ||
			(SELECT oid FROM pg_database WHERE datname = current_database()) || ' ' ||
			CAST(CAST('fleet' AS regclass) AS oid), CAST(pg_postmaster_start_time() AS text)`)
	return name, run, err
}

// list returns a table of a JSON array.
func list(columns string) string {
	return `(SELECT place - 1 AS key, ` + columns +
		` FROM jsonb_array_elements(CAST(CAST(%s AS text) AS jsonb)) WITH ORDINALITY AS l (value, place))`
}

// rewriter returns a function that rewrites a statement for PostgreSQL. It removes hints for SQLite, and rewrites JSON
// paths and parameters.
func rewriter() func(string) string {
	hint := regexp.MustCompile(`\s(NOT INDEXED|INDEXED BY \w+)\b`)
	path := regexp.MustCompile(`((?:\w+\.)?status) ->> '(?:\$\.)?([\w.]+)'`)
	return func(statement string) string {
		statement = hint.ReplaceAllString(statement, "")
		statement = strings.ReplaceAll(statement, "CROSS JOIN", "JOIN")
		statement = path.ReplaceAllStringFunc(statement, func(s string) string {
			parts := path.FindStringSubmatch(s)
			return `CAST(` + parts[1] + ` AS json) #>> '{` + strings.ReplaceAll(parts[2], ".", ",") + `}'`
		})
		return numbered(statement)
	}
}

// numbered writes each parameter as a dollar sign and a number. By SQLite's rule, a bare parameter has the number after
// the greatest number so far.
func numbered(statement string) string {
	var out strings.Builder
	greatest := 0
	for {
		at := strings.IndexAny(statement, "?'")
		if at < 0 {
			return out.String() + statement
		}
		out.WriteString(statement[:at])
		if statement[at] == '\'' { // a literal has no parameters
			end := at + 1 + strings.IndexByte(statement[at+1:], '\'') + 1
			out.WriteString(statement[at:end])
			statement = statement[end:]
			continue
		}
		statement = statement[at+1:]
		digits := len(statement) - len(strings.TrimLeft(statement, "0123456789"))
		n := greatest + 1
		if digits > 0 {
			n, _ = strconv.Atoi(statement[:digits]) // digits are a number
		}
		greatest = max(greatest, n)
		out.WriteString("$" + strconv.Itoa(n))
		statement = statement[digits:]
	}
}
