package specstore

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"go.etcd.io/bbolt"
)

// errDamaged is why a file cannot be used.
var errDamaged = errors.New("the file is damaged")

// guarded runs fn, which reads a file that may be damaged. The library maps the file and panics at a page that makes no
// sense, and reading beyond the end of one that was cut off is a fault: both become errors.
func guarded(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("%w: %v", errDamaged, cause)
		}
	}()
	return fn()
}

// check reads every page that is in use, so that a damaged file is found now and not in the middle of an operation.
func check(db *bbolt.DB) error {
	return guarded(func() error {
		return db.View(func(tx *bbolt.Tx) error {
			info, err := os.Stat(db.Path())
			if err != nil {
				return err
			}
			if info.Size() < tx.Size() {
				return fmt.Errorf("%w: %d of its %d bytes are there", errDamaged, info.Size(), tx.Size())
			}
			return tx.ForEach(func(_ []byte, b *bbolt.Bucket) error {
				return b.ForEach(func(_, _ []byte) error { return nil })
			})
		})
	})
}
