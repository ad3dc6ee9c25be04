package processfile

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTryWrite(t *testing.T) {
	docs, err := Read("x", []byte(`namespace: "1"
processes:
  "on":
    hosts: ["0:10.0.0.1", '*']
    run: |
      set -e
      exec ./x "a: b" # c
    umask: "022"
    groups: []
    environment: {A: "1", B: "true", C: "null", D: "~", E: "", F: " x ", G: "a\nb\n", H: "0x1f", I: "- a", J: "2024-01-01", K: "é\u202e", L: "a\tb", M: "'", N: '"', O: "1e3", P: "#x", Q: "a: b", R: "{}", S: "yes", T: "\u0001"}
    nice: -5
    no_new_privileges: true
    restart: {jitter: 12.5%, give_up_after: never, success_codes: [0, TERM], factor: 1.5}
    log: {max_size: 1000, keep: 1, compress: false}
    limits: {core_size: 0}
    reload: kill -HUP 1
    stop_signals: [INT 1m30s, KILL]
`))
	if err != nil {
		t.Fatal(err)
	}
	text, err := Write(docs)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", text)
	again, err := Read("x", text)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(docs[0].Processes[0].Process, again[0].Processes[0].Process); d != "" {
		t.Error(d)
	}
}
