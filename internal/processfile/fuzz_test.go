package processfile_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"drover/internal/processfile"
)

// FuzzReadJSON: whatever is read without a fault is stored and comes back without a fault, as the same.
func FuzzReadJSON(f *testing.F) {
	docs, err := processfile.Read("", readShop(f))
	if err != nil {
		f.Fatal(err)
	}
	for _, d := range processfile.Files(docs) {
		text, err := json.Marshal(d)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	for seed := range uint64(20) {
		p := randomProcess(seed)
		p.Hosts.Names = []string{"a"}
		text, err := json.Marshal(map[string]any{"namespace": "n", "processes": map[string]any{"p": p}})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"namespace":"n","processes":{"p":{"hosts":["a"],"start":"x","process_name":"p","compat":{"op_timeout":5}}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		docs, err := processfile.ReadJSON(text)
		if err != nil {
			return
		}
		for _, d := range docs {
			for _, p := range d.Processes {
				stored := processfile.ToSpec(p.Spec)
				canonical := processfile.FromSpec(&stored)
				if faults := processfile.CheckSpec(canonical); len(faults) > 0 {
					t.Errorf("%s: %v", p.Name, faults)
				}
				again := processfile.ToSpec(canonical)
				if !stored.Same(&again) {
					a, _ := json.Marshal(stored)
					b, _ := json.Marshal(again)
					t.Errorf("%s: stored as\n%s\nand then as\n%s", p.Name, a, b)
				}
			}
		}
	})
}

func readShop(f *testing.F) []byte {
	f.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "shop.yaml"))
	if err != nil {
		f.Fatal(err)
	}
	return data
}
