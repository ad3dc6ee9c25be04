package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	readme     = "README.md"
	readmeOf   = "README.zh-CN.md"
	english    = "docs/"
	chinese    = "docs/zh/"
	causes     = "docs/why/"
	operations = "docs/ops/"
	firstFile  = "docs/process-file.md"
)

var (
	firstLine = regexp.MustCompile(`^<!-- source: (\S+) sha256:([0-9a-f]{16}) -->\n`)
	comments  = regexp.MustCompile(`(?s)<!--.*?-->`)
	// Each measurement writes this part of the README anew, and the Chinese README has a link to it instead.
	figures = regexp.MustCompile(`(?s)<!-- figures: .*<!-- end of figures -->\n`)
)

// finding is something to mend about a Chinese page.
type finding struct {
	page, text string
	fault      bool
}

// compare reads all pages of a repository. The findings are in the order of the pages.
func compare(root string) ([]finding, error) {
	pages, err := expected(root)
	if err != nil {
		return nil, err
	}
	var findings []finding
	for _, page := range pages {
		found, err := compareOne(root, page)
		if err != nil {
			return nil, err
		}
		findings = append(findings, found...)
	}
	return findings, nil
}

// expected returns the Chinese pages that are there, and those that must be: the README, the first process file, the
// pages of operations, and the pages of causes once one of them is there.
func expected(root string) ([]string, error) {
	pages := []string{readmeOf, pageOf(firstFile)}
	err := filepath.WalkDir(filepath.Join(root, chinese), func(file string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || filepath.Ext(file) != ".md" {
			return err
		}
		page, err := filepath.Rel(root, file)
		pages = append(pages, page)
		return err
	})
	if err != nil {
		return nil, err
	}
	dirs := []string{operations}
	if slices.ContainsFunc(pages, func(page string) bool { return strings.HasPrefix(page, pageOf(causes)) }) {
		dirs = append(dirs, causes)
	}
	for _, dir := range dirs {
		sources, err := filepath.Glob(filepath.Join(root, dir, "*.md"))
		if err != nil {
			return nil, err
		}
		for _, file := range sources {
			if source := dir + filepath.Base(file); source != causes+"README.md" {
				pages = append(pages, pageOf(source))
			}
		}
	}
	slices.Sort(pages)
	return slices.Compact(pages), nil
}

// compareOne compares a Chinese page with its source.
func compareOne(root, page string) ([]finding, error) {
	source := sourceOf(page)
	strict := source == readme || source == firstFile || strings.HasPrefix(source, causes)
	text, err := os.ReadFile(filepath.Join(root, page))
	if errors.Is(err, fs.ErrNotExist) {
		return []finding{{page, "is missing: expected " + source + " in Chinese", strict}}, nil
	}
	if err != nil {
		return nil, err
	}
	original, err := os.ReadFile(filepath.Join(root, source))
	if errors.Is(err, fs.ErrNotExist) {
		return []finding{{page, "its source " + source + " does not exist: remove the page", true}}, nil
	}
	if err != nil {
		return nil, err
	}
	var findings []finding
	head := firstLine.FindSubmatch(text)
	switch {
	case head == nil || string(head[1]) != source:
		line := fmt.Sprintf("<!-- source: %s sha256:%s -->", source, sum(original))
		findings = append(findings, finding{page, "expected the first line " + line, true})
	case string(head[2]) != sum(original):
		findings = append(findings, finding{page, source + " has changed since this page was written", strict})
	}
	if text := unequalBlocks(blocks(original), blocks(text)); text != "" {
		findings = append(findings, finding{page, text, strict || head != nil && string(head[2]) == sum(original)})
	}
	for _, word := range slices.Sorted(maps.Keys(rejected())) {
		if bytes.Contains(text, []byte(word)) {
			say := fmt.Sprintf("says %q: the word is %q", word, rejected()[word])
			findings = append(findings, finding{page, say, true})
		}
	}
	return findings, nil
}

// rejected are words that drover has another word for, in pages as in texts (package words).
func rejected() map[string]string {
	return map[string]string{
		"接收端": "接收方", "配置版本": "修订版本", "历史版本": "修订版本", "云区域": "管控区域", "宿主机": "主机",
		"名字空间": "命名空间", "名称空间": "命名空间", "滚动发布": "分批发布", "金丝雀": "灰度", "您": "你",
	}
}

// unequalBlocks says which code block of a Chinese page is the first that differs from its source, or nothing.
func unequalBlocks(of, have []string) string {
	for i := range min(len(of), len(have)) {
		if of[i] != have[i] {
			first, _, _ := strings.Cut(strings.TrimSpace(have[i]), "\n")
			return fmt.Sprintf("code block %d differs from the source (%s)", i+1, first)
		}
	}
	if len(of) != len(have) {
		return fmt.Sprintf("has %d code blocks, and its source has %d", len(have), len(of))
	}
	return ""
}

// blocks returns the fenced blocks that a reader of a page sees, with the language, but without the fences and the
// indentation of the first line.
func blocks(page []byte) []string {
	var found []string
	var current strings.Builder
	inside := false
	for line := range strings.Lines(comments.ReplaceAllString(string(page), "")) {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		switch {
		case fence && inside:
			found = append(found, current.String())
			current.Reset()
			inside = false
		case fence:
			inside = true
			current.WriteString(strings.TrimPrefix(strings.TrimSpace(line), "```") + "\n")
		case inside:
			current.WriteString(line)
		}
	}
	return found
}

// renewSum writes the sum of the source into the first line of a Chinese page.
func renewSum(root, page string) error {
	source := sourceOf(path.Clean(page))
	if source == "" {
		return fmt.Errorf("%s: expected %s or a page in %s", page, readmeOf, chinese)
	}
	original, err := os.ReadFile(filepath.Join(root, source))
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		return err
	}
	head := fmt.Sprintf("<!-- source: %s sha256:%s -->\n", source, sum(original))
	return os.WriteFile(filepath.Join(root, page), append([]byte(head), firstLine.ReplaceAll(text, nil)...), 0o644)
}

// sum returns the first 16 digits of the SHA-256 of an English page, without the figures that benchmarks write.
func sum(page []byte) string {
	digest := sha256.Sum256(figures.ReplaceAll(page, nil))
	return hex.EncodeToString(digest[:8])
}

// sourceOf returns the English page of a Chinese page, or nothing for another file.
func sourceOf(page string) string {
	if page == readmeOf {
		return readme
	}
	if rest, found := strings.CutPrefix(page, chinese); found {
		return english + rest
	}
	return ""
}

// pageOf returns the Chinese page of an English page in docs/.
func pageOf(source string) string { return chinese + strings.TrimPrefix(source, english) }
