package processfile_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
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
				stored := processfile.Canonical(p.Spec)
				canonical := *stored.Unnumbered()
				if faults := processfile.CheckSpec(canonical); len(faults) > 0 {
					t.Errorf("%s: %v", p.Name, faults)
				}
				again := processfile.Canonical(canonical)
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

// costly are texts that would take much memory or time without bounds.
func costly() map[string]string {
	var keys strings.Builder
	for i := range 150_000 {
		fmt.Fprintf(&keys, "k%d: 1\n", i)
	}
	deep := ""
	for i := range 60 {
		deep += strings.Repeat(" ", i) + "a:\n"
	}
	return map[string]string{
		"brackets":    strings.Repeat("[", 120_000),
		"braces":      strings.Repeat("{a: ", 40_000),
		"maps":        deep,
		"lists":       strings.Repeat("- ", 60_000),
		"keys":        strings.Repeat("? ", 60_000),
		"tags":        strings.Repeat("!a ", 40_000),
		"anchors":     strings.Repeat("&a ", 40_000),
		"lines":       keys.String(),
		"documents":   strings.Repeat("---\na\n", 60_000),
		"blank":       "a: >\n" + strings.Repeat("\n", 200_000) + " b",
		"blank lines": "a: |\n b\n" + strings.Repeat("\r\n", 200_000),
		"values":      "a: [" + strings.Repeat("a,", 100_000) + "]",
	}
}

// FuzzRead: no text takes more memory than the bounds allow, whatever it is.
func FuzzRead(f *testing.F) {
	f.Add("namespace: shop\nprocesses:\n  api:\n    run: sleep 1\n    hosts: [a]\n")
	for _, text := range costly() {
		f.Add(text[:min(len(text), 2000)])
	}
	f.Fuzz(func(t *testing.T, text string) { _ = within(t, text, 16<<20+int64(len(text))*4<<10) })
}

// within reads a text, and looks how much memory that takes.
func within(t *testing.T, text string, most int64) (err error) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = processfile.Read("", []byte(text))
	runtime.ReadMemStats(&after)
	if took := int64(after.TotalAlloc - before.TotalAlloc); took > most {
		t.Errorf("%.40q, %d bytes: took %d MB, want at most %d", text, len(text), took>>20, most>>20)
	}
	return err
}

// TestCostlyFiles: a text that would cost much is refused before the parser reads it.
func TestCostlyFiles(t *testing.T) {
	for what, text := range costly() {
		err := within(t, text, 160<<20)
		faults, ok := errors.AsType[processfile.Faults](err)
		if !ok || len(faults) != 1 || !strings.Contains(faults[0].Text, "more than ") {
			t.Errorf("%s: %.300v", what, err)
		}
	}
	deep := "namespace: shop\nprocesses:\n  api: {run: sleep 1, hosts: [a], labels: {a: b}}\n"
	if _, err := processfile.Read("", []byte(deep)); err != nil {
		t.Errorf("a plain file: %v", err)
	}
}
