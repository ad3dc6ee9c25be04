package packages_test

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// bill is what a test reads of a CycloneDX document.
type bill struct {
	Format   string `json:"bomFormat"`
	Spec     string `json:"specVersion"`
	Metadata struct {
		Timestamp string
		Component part
	}
	Components   []part
	Dependencies []struct {
		Ref       string
		DependsOn []string
	}
}

type part struct {
	Ref                 string `json:"bom-ref"`
	Type, Name, Version string
	PackageURL          string `json:"purl"`
	Hashes              []struct{ Alg, Content string }
	Licenses            []struct{ License struct{ ID string } }
}

// TestBillsOfMaterials: what the linker has recorded in each program is in its bill, with the version and the license of
// every module, and each artefact carries the bill of its programs.
func TestBillsOfMaterials(t *testing.T) {
	t.Parallel()
	dist := build(t, "1.0.0")
	for name, program := range map[string]string{"drover": binaries.drover, "drover-agent": binaries.agent} {
		text, err := os.ReadFile(filepath.Join(dist, name+"-1.0.0-linux-"+architecture()+".cdx.json"))
		must(t, err)
		var b bill
		must(t, json.Unmarshal(text, &b))
		data, err := os.ReadFile(program)
		must(t, err)
		sum := sha256.Sum256(data)
		main := b.Metadata.Component
		if b.Format != "CycloneDX" || b.Spec != "1.6" || b.Metadata.Timestamp != "2023-11-14T22:13:20Z" ||
			main.Name != name || main.Version != "1.0.0" || licenses(main) != "MIT" || len(main.Hashes) != 1 ||
			main.Hashes[0].Content != hex.EncodeToString(sum[:]) {
			t.Errorf("%s: the bill is %s %s of %+v at %s", name, b.Format, b.Spec, main, b.Metadata.Timestamp)
		}
		b.compare(t, name, program)
		for where, carried := range carriers(t, dist, name) {
			if string(carried) != string(text) {
				t.Errorf("%s carries another bill of %s than dist has: %d bytes, want %d", where, name, len(carried), len(text))
			}
		}
	}
}

// compare fails the test if the bill lists other modules than the program has.
func (b *bill) compare(t *testing.T, name, program string) {
	t.Helper()
	info, err := buildinfo.ReadFile(program)
	must(t, err)
	want := map[string]string{"std": info.GoVersion}
	for _, dep := range info.Deps {
		if dep.Replace != nil {
			dep = dep.Replace
		}
		want[dep.Path] = dep.Version
	}
	if len(want) < 10 || len(b.Components) != len(want) {
		t.Errorf("%s: the bill lists %d modules, the program has %d", name, len(b.Components), len(want))
	}
	for _, c := range b.Components {
		if c.Version != want[c.Name] || c.PackageURL == "" || licenses(c) == "" {
			t.Errorf("%s: the bill says %+v, the program has version %q; a license is expected", name, c, want[c.Name])
		}
		for word := range strings.FieldsSeq(licenses(c)) {
			switch word {
			case "MIT", "BSD-2-Clause", "BSD-3-Clause", "Apache-2.0", "ISC", "0BSD", "blessing", "Unlicense":
			default:
				t.Errorf("%s: %s has the license %s, which the project does not use", name, c.Name, word)
			}
		}
	}
	if len(b.Dependencies) != 1 || b.Dependencies[0].Ref != name || len(b.Dependencies[0].DependsOn) != len(want) {
		t.Errorf("%s: the dependencies are %+v", name, b.Dependencies)
	}
}

func licenses(p part) string {
	var names []string
	for _, l := range p.Licenses {
		names = append(names, l.License.ID)
	}
	return strings.Join(names, " ")
}

// carriers returns the bill of a program in each artefact that has the program.
func carriers(t *testing.T, dist, name string) map[string][]byte {
	t.Helper()
	path := "usr/share/doc/" + name + "/sbom.cdx.json"
	shell := func(command string) []byte {
		cmd := exec.Command("sh", "-ec", command)
		cmd.Dir = dist
		out, err := cmd.Output()
		must(t, err)
		return out
	}
	found := map[string][]byte{
		"the deb": shell("dpkg-deb --fsys-tarfile " + name + "_*.deb | tar -xO ./" + path),
		"the rpm": shell("rpm2cpio " + name + "-1*.rpm | cpio -i --quiet --to-stdout /" + path),
		"the archive": shell("tar -xzOf drover-1.0.0-linux-" + architecture() + ".tar.gz drover-1.0.0-linux-" + architecture() +
			"/doc/" + name + ".cdx.json"),
	}
	if name == "drover" {
		image := readImage(t, dist)
		layer, err := gzip.NewReader(strings.NewReader(string(image.layer)))
		must(t, err)
		for files := tar.NewReader(layer); ; {
			header, err := files.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			must(t, err)
			if header.Name == path {
				found["the image"], err = io.ReadAll(files)
				must(t, err)
			}
		}
		if found["the image"] == nil {
			t.Error("the image has no bill")
		}
	}
	return found
}
