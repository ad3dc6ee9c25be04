package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"drover/internal/server/store"
)

// PutGroups makes the groups all that each of the hosts has.
func (db *DB) PutGroups(ctx context.Context, hosts []store.GroupHost, groups []store.Group) error {
	err := db.writer.write(ctx, func(ctx context.Context, tx *tx) error {
		for _, h := range hosts {
			if err := putGroups(ctx, tx, h, groups); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("cannot store process groups: %w", err)
	}
	return nil
}

func putGroups(ctx context.Context, tx *tx, h store.GroupHost, groups []store.Group) error {
	if err := tx.exec(ctx, `DELETE FROM groups WHERE namespace = ? AND agent = ?`, h.Namespace, h.Agent); err != nil {
		return err
	}
	for place, g := range groups {
		err := tx.exec(ctx, `INSERT INTO groups (namespace, agent, place, id, cpu_limit, mem_limit, cpu_weight, mem_weight)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, h.Namespace, h.Agent, place, g.ID, g.CPULimit, g.MemLimit, g.CPUWeight, g.MemWeight)
		if err != nil {
			return err
		}
	}
	return nil
}

// GetGroups calls fn for every group of the namespace on the given agents.
func (db *DB) GetGroups(ctx context.Context, namespace string, agents []string, fn func(string, store.Group) error) error {
	list, err := json.Marshal(agents)
	if err != nil {
		return fmt.Errorf("cannot read process groups: %w", err)
	}
	return db.query(ctx, func(rows *sql.Rows) error {
		var agent string
		var g store.Group
		if err := rows.Scan(&agent, &g.ID, &g.CPULimit, &g.MemLimit, &g.CPUWeight, &g.MemWeight); err != nil {
			return fmt.Errorf("cannot read process groups: %w", err)
		}
		return fn(agent, g)
	}, `SELECT g.agent, g.id, g.cpu_limit, g.mem_limit, g.cpu_weight, g.mem_weight
		FROM json_each(?) j CROSS JOIN groups g ON g.namespace = ? AND g.agent = j.value ORDER BY j.key, g.place`,
		string(list), namespace)
}
