package fleet

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"drover/internal/server/store"
	"drover/internal/server/store/sqlstore/kit"
)

// UseProxyToken joins a proxy.
func (db *Fleet) UseProxyToken(ctx context.Context, p store.Proxy,
	check func(t store.JoinToken, again bool) error,
) error {
	err := db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		err := db.countUse(ctx, tx, p.Token, check, `SELECT EXISTS (SELECT 1 FROM proxies WHERE key = ? AND token = ?)`,
			p.Key, p.Token)
		if err != nil {
			return err
		}
		err = restore(ctx, tx, p.Key,
			`SELECT EXISTS (SELECT 1 FROM agents WHERE key = ?1) OR EXISTS (SELECT 1 FROM proxies WHERE key = ?1
				AND area <> ?2)
			OR EXISTS (SELECT 1 FROM removed_agents WHERE key = ?1 AND (role <> 'proxy' OR area <> ?2))`, p.Key, p.Area)
		if err != nil {
			return err
		}
		if err := tx.Exec(ctx, `DELETE FROM proxies WHERE key = ?`, p.Key); err != nil {
			return err
		}
		return kit.Inserted(tx.Affect(ctx,
			`INSERT INTO proxies (key, area, name, advertise, build, token, created, sealing)
				VALUES (?, ?, ?, ?, ?, ?, ?, ?)
				ON CONFLICT DO NOTHING`,
			p.Key, p.Area, p.Name, p.Advertise, p.Build, p.Token, kit.Nanos(p.Created), p.Sealing))
	})
	if err != nil {
		return fmt.Errorf("cannot use token %q: %w", p.Token, err)
	}
	return nil
}

// ListProxies returns all proxies.
func (db *Fleet) ListProxies(ctx context.Context) ([]store.Proxy, error) {
	list, err := kit.All(ctx, db.Query, func(rows *sql.Rows) (store.Proxy, error) {
		var p store.Proxy
		var created int64
		err := rows.Scan(&p.Key, &p.Area, &p.Name, &p.Advertise, &p.Build, &p.Token, &created, &p.Sealing)
		p.Created = kit.Moment(created)
		return p, err
	}, `SELECT key, area, name, advertise, build, token, created, sealing FROM proxies ORDER BY area, name`)
	if err != nil {
		return nil, fmt.Errorf("cannot list proxies: %w", err)
	}
	return list, nil
}

// ResealProxy stores the sealing keys of a proxy.
func (db *Fleet) ResealProxy(ctx context.Context, key, before, after string) error {
	err := db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		return kit.Affected(tx.Affect(ctx, `UPDATE proxies SET sealing = ? WHERE key = ? AND sealing = ?`, after, key, before))
	})
	if err != nil {
		return fmt.Errorf("cannot store the sealing keys of proxy %s: %w", key, err)
	}
	return nil
}

// RemoveProxy deletes a proxy.
func (db *Fleet) RemoveProxy(ctx context.Context, key string, at time.Time) error {
	err := db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		err := tx.Exec(ctx,
			`INSERT INTO removed_agents (key, at, role, area) SELECT key, ?, 'proxy', area FROM proxies WHERE key = ?
			ON CONFLICT (key) DO UPDATE SET role = excluded.role, area = excluded.area`, kit.Nanos(at), key)
		if err != nil {
			return err
		}
		return kit.Affected(tx.Affect(ctx, `DELETE FROM proxies WHERE key = ?`, key))
	})
	if err != nil {
		return fmt.Errorf("cannot remove proxy %s: %w", key, err)
	}
	return nil
}
