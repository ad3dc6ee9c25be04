package specstore

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"go.etcd.io/bbolt"
)

// errDamaged says that a file is damaged.
var errDamaged = errors.New("the file is damaged")

// guarded runs fn, which reads a file that may be damaged, and turns panics and faults into errors. The library maps
// the file and panics at a corrupt page. A read beyond the end of a truncated file is a fault.
func guarded(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("%w: %v", errDamaged, cause)
		}
	}()
	return fn()
}

// check reads every page in use, so that drover finds damage now and not in the middle of an operation.
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
