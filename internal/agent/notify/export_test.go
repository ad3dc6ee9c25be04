package notify

import "os"

// RecordLength and MaxKept are sizes of the file of a stand-in, in bytes.
const (
	RecordLength = recordLength
	MaxKept      = maxKept
)

// StandsIn returns the pid of the stand-in that writes to a file; 0 for none.
func StandsIn(path string) int {
	kept, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return 0
	}
	defer kept.Close() //nolint:errcheck // nothing was written
	return standsIn(kept)
}
