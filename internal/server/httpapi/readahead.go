package httpapi

import "errors"

// aheadBatch is how many rows are handed over at a time, and aheadBatches how many times reading is ahead.
const (
	aheadBatch   = 64
	aheadBatches = 2
)

var errWriterEnded = errors.New("the writer has ended")

// readAhead calls write with each row that read gives, in order, while read goes on with those that follow: it takes
// two processors where there are two. It returns when both have ended, with the error of the one that failed first.
func readAhead[T any](read func(fn func(T) error) error, write func(*T) error) error {
	batches := make(chan []T, aheadBatches)
	ended := make(chan struct{}) // write fails, or panics
	failed := make(chan error, 1)
	go func() {
		defer close(batches)
		var batch []T
		hand := func() error {
			select {
			case batches <- batch:
				batch = nil
				return nil
			case <-ended:
				return errWriterEnded
			}
		}
		err := read(func(row T) error {
			if batch = append(batch, row); len(batch) < aheadBatch {
				return nil
			}
			return hand()
		})
		if err == nil {
			err = hand()
		}
		failed <- err
	}()
	written := func() error {
		defer close(ended)
		for batch := range batches {
			for i := range batch {
				if err := write(&batch[i]); err != nil {
					return err
				}
			}
		}
		return nil
	}()
	if err := <-failed; written == nil {
		return err
	}
	return written
}
