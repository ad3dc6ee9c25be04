package contract_test

import (
	"testing"

	"drover/internal/test/examples"
	"drover/internal/test/harness"
	"drover/internal/test/openapi"
)

// TestExamples plays every case of api/examples.
func TestExamples(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	cases, err := examples.Load("../../api/examples")
	if err != nil {
		t.Fatal(err)
	}
	p := examples.NewPlayer(openapi.NewClient(t, caller()), s.URL, cases, map[string]string{
		"${app_code}": harness.AppCode, "${app_secret}": harness.AppSecret, "${user}": "root",
		"${dir}": harness.Workdir(t),
	})
	live := 0
	for _, c := range cases {
		if c.Request.Live {
			live++
		}
		t.Run(c.Name, func(t *testing.T) { p.Play(t, c.Name) })
	}
	if p.Played() != len(cases) || live < 20 {
		t.Errorf("played %d of %d cases, %d of them live", p.Played(), len(cases), live)
	}
}
