package uplink

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"drover/internal/durable"
	"drover/internal/wire"
)

const enrolmentFile = "enrolment.json"

// enrolment is what an agent has on its disk of the server that it belongs to.
type enrolment struct {
	wire.Enrolment
	// Former are the addresses that counted before the present ones. They are tried when those lead nowhere.
	Former []string `json:"former_urls,omitempty"`
}

// loadEnrolment reads what SaveEnrolment has written, or what the server has sent since.
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

func saveEnrolment(dir string, e enrolment) error {
	data, err := json.MarshalIndent(e, "", "  ") //nolint:gosec // the token is no secret without the private key
	if err != nil {
		return fmt.Errorf("cannot encode enrolment: %w", err)
	}
	if err := durable.Replace(filepath.Join(dir, enrolmentFile), data, 0o600); err != nil {
		return fmt.Errorf("cannot write enrolment: %w", err)
	}
	return nil
}
