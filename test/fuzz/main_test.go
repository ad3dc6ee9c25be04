// Package fuzz_test sends calls of GSE and JOB, mutated at random, to the built binary, and judges every answer. What a
// well-formed call does is in packages contract_test and lifecycle_test.
package fuzz_test

import (
	"os"
	"testing"

	"drover/internal/test/harness"
)

var binaries struct{ drover string }

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, map[string]*string{"./cmd/drover": &binaries.drover}))
}
