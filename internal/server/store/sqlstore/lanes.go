package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"iter"
)

// laneLocks is how many locks the hosts share: so many writers can be at work on items side by side, and one that needs
// all has few to take.
const laneLocks = 64

// lockLanes keeps others, until the transaction ends, from adding or ending items of some agents; an empty agent stands
// for all. Without that, the one who ends the first item of a lane and the one who adds the next might not see each
// other, and nobody would wake it.
func (db *Store) lockLanes(ctx context.Context, tx tx, agents iter.Seq[string]) error {
	if db.dialect.LockLanes == "" {
		return nil
	}
	var wanted [laneLocks]bool
	for agent := range agents {
		wanted[uint64(hash(agent))%laneLocks] = true
		if agent == "" {
			for i := range wanted {
				wanted[i] = true
			}
			break
		}
	}
	var locks []int // in one order for all, so that no two wait for each other
	for i, w := range wanted {
		if w {
			locks = append(locks, i)
		}
	}
	if len(locks) == 0 {
		return nil
	}
	list, err := json.Marshal(locks)
	if err != nil {
		return err
	}
	return tx.query(ctx, func(*sql.Rows) error { return nil }, db.dialect.LockLanes, string(list))
}
