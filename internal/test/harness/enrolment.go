package harness

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"drover/internal/wire"
)

// Enrolment is what the agent whose program has its data in dir goes by, from its disk.
func Enrolment(t testing.TB, dir string) wire.Enrolment {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "agent", "enrolment.json"))
	if err != nil {
		t.Fatal(err)
	}
	var e wire.Enrolment
	if err := json.Unmarshal(data, &e); err != nil {
		t.Fatal(err)
	}
	return e
}
