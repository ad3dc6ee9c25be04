package uplink

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"drover/internal/durable"
	"drover/internal/reserve"
	"drover/internal/wire"
)

const enrolmentFile = "enrolment.json"

// enrolment is the agent's record of its server on disk.
type enrolment struct {
	wire.Enrolment
	// Former are the previous addresses. The agent tries them if the present addresses do not work.
	Former []string `json:"former_urls,omitempty"`
}

// loadEnrolment reads the enrolment that SaveEnrolment wrote, or that the server renewed since.
func loadEnrolment(dir string) (enrolment, error) {
	var e enrolment
	data, err := os.ReadFile(filepath.Join(dir, enrolmentFile))
	if errors.Is(err, fs.ErrNotExist) {
		return e, fmt.Errorf("the agent in %s has not joined a server", dir)
	}
	if err != nil {
		return e, fmt.Errorf("cannot read enrolment: %w", err)
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return e, fmt.Errorf("cannot read enrolment %s: %w", filepath.Join(dir, enrolmentFile), err)
	}
	return e, nil
}

// SaveEnrolment writes the enrolment of an agent that has just joined, whole or not at all.
func SaveEnrolment(dir string, e wire.Enrolment) error {
	return saveEnrolment(dir, enrolment{Enrolment: e})
}

// ReplaceEnrolment is SaveEnrolment for an agent that joins anew at each start. On a full disk it writes into the room
// of the old file, so a crash meanwhile leaves none.
func ReplaceEnrolment(dir string, e wire.Enrolment) error {
	err := SaveEnrolment(dir, e)
	if !reserve.IsFull(err) {
		return err
	}
	if os.Remove(filepath.Join(dir, enrolmentFile)) != nil {
		return err
	}
	return SaveEnrolment(dir, e)
}

func saveEnrolment(dir string, e enrolment) error {
	data, err := json.MarshalIndent(e, "", "  ") //nolint:gosec // without the private key the token is not a secret
	if err != nil {
		return fmt.Errorf("cannot encode enrolment: %w", err)
	}
	if err := durable.Replace(filepath.Join(dir, enrolmentFile), data, 0o600); err != nil {
		return fmt.Errorf("cannot write enrolment: %w", err)
	}
	return nil
}
