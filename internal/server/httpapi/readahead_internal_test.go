package httpapi

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
)

func TestReadAhead(t *testing.T) {
	rows := func(n int, last error) func(func(int) error) error {
		return func(fn func(int) error) error {
			for i := range n {
				if err := fn(i); err != nil {
					return err
				}
			}
			return last
		}
	}
	wrong := errors.New("wrong")
	for name, tt := range map[string]struct {
		read    func(func(int) error) error
		failAt  int // -1 for never
		written int
		want    error
	}{
		"nothing":                  {rows(0, nil), -1, 0, nil},
		"one":                      {rows(1, nil), -1, 1, nil},
		"a batch":                  {rows(aheadBatch, nil), -1, aheadBatch, nil},
		"many":                     {rows(10*aheadBatch+1, nil), -1, 10*aheadBatch + 1, nil},
		"nothing can be read":      {rows(0, wrong), -1, 0, wrong},
		"reading ends early":       {rows(2*aheadBatch+3, wrong), -1, 2 * aheadBatch, wrong},
		"writing fails at once":    {rows(10*aheadBatch, nil), 0, 0, wrong},
		"writing fails at the end": {rows(10*aheadBatch, nil), 10*aheadBatch - 1, 10*aheadBatch - 1, wrong},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // which fails if the reader is left behind
				var got []int
				err := readAhead(tt.read, func(i *int) error {
					if *i == tt.failAt {
						return wrong
					}
					got = append(got, *i)
					return nil
				})
				if !errors.Is(err, tt.want) || len(got) != tt.written || !slices.IsSorted(got) {
					t.Errorf("%d rows, error %v; want %d, %v", len(got), err, tt.written, tt.want)
				}
			})
		})
	}
}

// TestReadAheadOfAPanic: the reader does not outlive the call.
func TestReadAheadOfAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer func() {
			if recover() == nil {
				t.Error("the panic is gone")
			}
		}()
		_ = readAhead(func(fn func(int) error) error {
			for {
				if err := fn(1); err != nil {
					return err
				}
			}
		}, func(*int) error { panic("odd") })
	})
}
