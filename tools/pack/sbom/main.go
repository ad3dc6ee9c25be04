// Command sbom writes the bill of materials of a Go program as CycloneDX JSON 1.6, from what the linker has recorded in
// the program:
//
//	sbom -version VERSION -license FILE -goroot DIR -modcache DIR PROGRAM >FILE
//
// It lists the main module, the standard library and every module that is linked, each with its version, its checksum
// of go.sum and its license. Licenses are read from the module cache; a module that is not there has none.
// SOURCE_DATE_EPOCH dates the document, so the same program gives the same bytes.
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"golang.org/x/mod/module"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("sbom", flag.ContinueOnError)
	version := flags.String("version", "", "version of the program")
	license := flags.String("license", "", "file with the license of the program")
	goroot := flags.String("goroot", "", "directory of Go, as 'go env GOROOT' says")
	modcache := flags.String("modcache", "", "directory of modules, as 'go env GOMODCACHE' says")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 || *version == "" || *license == "" || *goroot == "" || *modcache == "" {
		return errors.New("expected -version, -license, -goroot, -modcache and a program")
	}
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64) //nolint:forbidigo // it is how builds are dated
	if err != nil {
		return errors.New("SOURCE_DATE_EPOCH: expected seconds since 1970")
	}
	bom, err := describe(flags.Arg(0), *version, *license, *goroot, *modcache)
	if err != nil {
		return err
	}
	bom.Metadata.Timestamp = time.Unix(seconds, 0).UTC().Format(time.RFC3339)
	return cdx.NewBOMEncoder(out, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6)
}

// describe returns the bill of a program.
func describe(program, version, license, goroot, modcache string) (*cdx.BOM, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	name := filepath.Base(program)
	sum := sha256.Sum256(data)
	root := &cdx.Component{
		BOMRef: name, Type: cdx.ComponentTypeApplication, Name: name, Version: version,
		Hashes:     &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
		Properties: settings(info), Licenses: licensesOf(license),
	}
	components := []cdx.Component{{
		BOMRef: "std", Type: cdx.ComponentTypeLibrary, Name: "std", Version: info.GoVersion,
		PackageURL: "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go"),
		Licenses:   licensesOf(filepath.Join(goroot, "LICENSE")),
	}}
	refs := []string{"std"}
	for _, dep := range info.Deps {
		c, err := component(dep, modcache)
		if err != nil {
			return nil, err
		}
		components, refs = append(components, c), append(refs, c.BOMRef)
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: root}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: name, Dependencies: &refs}}
	return bom, nil
}

// settings returns how the program was built.
func settings(info *debug.BuildInfo) *[]cdx.Property {
	list := []cdx.Property{{Name: "go:path", Value: info.Path}}
	for _, s := range info.Settings {
		list = append(list, cdx.Property{Name: "go:" + s.Key, Value: s.Value})
	}
	return &list
}

// component returns what the bill says of a module.
func component(dep *debug.Module, cache string) (cdx.Component, error) {
	used := dep
	if dep.Replace != nil {
		used = dep.Replace
	}
	url := "pkg:golang/" + used.Path + "@" + used.Version
	c := cdx.Component{
		BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: used.Path, Version: used.Version, PackageURL: url,
	}
	if sum, found := strings.CutPrefix(used.Sum, "h1:"); found {
		raw, err := base64.StdEncoding.DecodeString(sum)
		if err != nil {
			return c, fmt.Errorf("checksum of %s: %w", used.Path, err)
		}
		c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(raw)}}
	}
	path, err := module.EscapePath(used.Path)
	if err != nil {
		return c, err
	}
	version, err := module.EscapeVersion(used.Version)
	if err != nil {
		return c, err
	}
	c.Licenses = licensesOf(filepath.Join(cache, path+"@"+version, "*"))
	return c, nil
}
