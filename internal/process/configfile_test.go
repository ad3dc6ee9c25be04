package process_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drover/internal/process"
	"drover/internal/spec"
)

func TestConfigFiles(t *testing.T) {
	const sum, other = "d41d8cd98f00b204e9800998ecf8427e", "900150983cd24fb0d6963f7d28e17f72"
	file := func(path, md5 string) spec.ConfigFile { return spec.ConfigFile{Path: path, MD5: md5} }
	var many []spec.ConfigFile
	for i := range 257 {
		many = append(many, file(fmt.Sprintf("/etc/%d", i), sum))
	}
	for _, c := range []struct {
		files []spec.ConfigFile
		want  []string
	}{
		{[]spec.ConfigFile{
			file("/a", sum), file("/b", strings.ToUpper(sum)), file("/c", ""),
			file("/a", strings.ToUpper(sum)),
		}, nil},
		{
			[]spec.ConfigFile{file("/a", sum), file("/b", "x")},
			[]string{`spec.configmap[1].md5 is "x": expected 32 hexadecimal digits, or nothing`},
		},
		{
			[]spec.ConfigFile{file("/a", sum[1:]+"g")},
			[]string{
				`spec.configmap[0].md5 is "41d8cd98f00b204e9800998ecf8427eg": expected 32 hexadecimal digits, or nothing`,
			},
		},
		{[]spec.ConfigFile{file("etc/a", sum), file("", sum)}, []string{
			`spec.configmap[0].path "etc/a" is not absolute: expected a path that begins with /`,
			"spec.configmap[1].path is empty",
		}},
		{
			[]spec.ConfigFile{file("/a", sum), file("/a", other)},
			[]string{`spec.configmap[1].path "/a" is named twice, with different checksums`},
		},
		{many, []string{"spec.configmap names 257 files: expected at most 256"}},
	} {
		s := &process.Spec{
			ProcessName: "nginx",
			Directory:   "/opt",
			User:        "www",
			ConfigFiles: c.files,
			Compat:      &spec.Compat{},
		}
		var got []string
		for _, f := range process.Faults(s, process.Start) {
			got = append(got, f.Text)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Error(diff)
		}
		if got := process.Faults(s, process.Stop); got != nil {
			t.Errorf("a stop is refused for %v", got)
		}
	}
}
