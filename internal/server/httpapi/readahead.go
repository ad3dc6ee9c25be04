package httpapi

import "errors"

// aheadBatch is how many rows one batch holds, and aheadBatches how many batches read may be ahead of write.
const (
	aheadBatch   = 64
	aheadBatches = 2
)

var errWriterEnded = errors.New("the writer has ended")

// readAhead calls write with each row of read, in order, while read continues with the next rows. It uses two
// processors if there are two. It returns when both have ended, with the error of the one that failed first.
func readAhead[T any](read func(fn func(T) error) error, write func(*T) error) error {
	batches := make(chan []T, aheadBatches)
	ended := make(chan struct{}) // closed when write returns or panics
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
