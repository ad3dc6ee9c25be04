package postgres

import "time"

// Patience has the database be waited for no longer than d.
func Patience(d time.Duration) Option { return func(o *options) { o.patience = d } }
