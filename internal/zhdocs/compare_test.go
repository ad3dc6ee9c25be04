package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tree writes pages into a new directory, with the first lines that they need.
func tree(t *testing.T, pages map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range pages {
		if source := sourceOf(name); source != "" && !strings.HasPrefix(text, "bare") {
			text = fmt.Sprintf("<!-- source: %s sha256:%s -->\n", source, sum([]byte(pages[source]))) + text
		}
		put(t, root, name, text)
	}
	return root
}

func put(t *testing.T, root, name, text string) {
	t.Helper()
	file := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// pages is a repository in which nothing lags.
func pages() map[string]string {
	return map[string]string{
		"README.md":               "# drover\n```\nmake run\n```\n<!-- figures: made -->\n1 ms\n<!-- end of figures -->\n",
		"README.zh-CN.md":         "# drover，中文\n```\nmake run\n```\n",
		"docs/process-file.md":    "# A file\n",
		"docs/zh/process-file.md": "# 文件\n",
		"docs/ops/join.md":        "# Join\n<!-- the tests\n```sh host\nfalse\n```\n-->\n  ```sh host\n  true\n  ```\n",
		"docs/zh/ops/join.md":     "# 接入\n  ```sh host\n  true\n  ```\n",
		"docs/why/README.md":      "# Causes\n",
		"docs/why/crashed.md":     "# Crashed\n",
		"docs/why/exited.md":      "# Exited\n",
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(root string)
		want   []string // "fault" or "notice", the page, and a part of the text
	}{
		"nothing lags": {change: func(string) {}},
		"measured anew": {change: func(root string) {
			put(t, root, "README.md", strings.Replace(pages()["README.md"], "1 ms", "2 ms", 1))
		}},
		"the README lags": {
			change: func(root string) { put(t, root, "README.md", pages()["README.md"]+"More.\n") },
			want:   []string{"fault README.zh-CN.md: README.md has changed"},
		},
		"the first process file lags": {
			change: func(root string) { put(t, root, "docs/process-file.md", "# Another\n") },
			want:   []string{"fault docs/zh/process-file.md: docs/process-file.md has changed"},
		},
		"another page lags": {
			change: func(root string) { put(t, root, "docs/ops/join.md", "# Join\n```sh host\nfalse\n```\n") },
			want: []string{
				"notice docs/zh/ops/join.md: docs/ops/join.md has changed",
				"notice docs/zh/ops/join.md: code block 1 differs",
			},
		},
		"a block is edited in Chinese only": {
			change: func(root string) {
				text := "<!-- source: docs/ops/join.md sha256:" + sum([]byte(pages()["docs/ops/join.md"])) + " -->\n"
				put(t, root, "docs/zh/ops/join.md", text)
			},
			want: []string{"fault docs/zh/ops/join.md: has 0 code blocks, and its source has 1"},
		},
		"a page says nothing of its source": {
			change: func(root string) { put(t, root, "docs/zh/process-file.md", "# 文件\n") },
			want:   []string{"fault docs/zh/process-file.md: expected the first line <!-- source: docs/process-file.md sha256:"},
		},
		"another word for a thing": {
			change: func(root string) {
				text, source := "# 接收端\n", "# Exited\n"
				put(t, root, "docs/zh/why/crashed.md", "<!-- source: docs/why/crashed.md sha256:"+sum([]byte("# Crashed\n"))+" -->\n")
				put(t, root, "docs/zh/why/exited.md", "<!-- source: docs/why/exited.md sha256:"+sum([]byte(source))+" -->\n"+text)
			},
			want: []string{`fault docs/zh/why/exited.md: says "接收端": the word is "接收方"`},
		},
		"the source is gone": {
			change: func(root string) { put(t, root, "docs/zh/old.md", "# 旧\n") },
			want:   []string{"fault docs/zh/old.md: its source docs/old.md does not exist"},
		},
		"pages are missing": {
			change: func(root string) {
				put(t, root, "docs/ops/new.md", "# New\n")
				put(t, root, "docs/zh/why/exited.md", "<!-- source: docs/why/exited.md sha256:"+sum([]byte("# Exited\n"))+" -->\n")
			},
			want: []string{
				"notice docs/zh/ops/new.md: is missing",
				"fault docs/zh/why/crashed.md: is missing",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := tree(t, pages())
			c.change(root)
			findings, err := compare(root)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range findings {
				kind := "notice "
				if f.fault {
					kind = "fault "
				}
				got = append(got, kind+f.page+": "+f.text)
			}
			if !slices.EqualFunc(got, c.want, strings.HasPrefix) {
				t.Errorf("got %q\nwant %q", got, c.want)
			}
		})
	}
}

func TestRenew(t *testing.T) {
	t.Parallel()
	root := tree(t, pages())
	put(t, root, "README.md", pages()["README.md"]+"More.\n")
	put(t, root, "docs/zh/process-file.md", "# 文件\n")
	for _, page := range []string{readmeOf, "./docs/zh/process-file.md"} {
		if err := renewSum(root, page); err != nil {
			t.Fatal(err)
		}
	}
	if findings, err := compare(root); err != nil || len(findings) > 0 {
		t.Errorf("after the renewal: %v, %v", findings, err)
	}
	if err := renewSum(root, "docs/ops/join.md"); err == nil {
		t.Error("an English page was renewed")
	}
}
