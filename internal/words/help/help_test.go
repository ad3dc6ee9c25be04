package help_test

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drover/internal/words"
	"drover/internal/words/gettext"
	"drover/internal/words/help"
)

// content returns a file.
func content(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// keys returns the keys of a file in its order, as its lines have them.
func keys(t *testing.T, file string) (all []gettext.Key) {
	t.Helper()
	context := ""
	for line := range strings.Lines(file) {
		name, quoted, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name != "msgctxt" && name != "msgid" {
			continue
		}
		text, err := strconv.Unquote(quoted)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if name == "msgctxt" {
			context = text
		} else if text != "" {
			all = append(all, gettext.Key{Context: context, ID: text})
		}
	}
	if len(all) < 300 {
		t.Fatalf("only %d texts", len(all))
	}
	return all
}

// TestFilesAreWhole: each file has the header that tools for translators need, each key once, and a text for each key.
func TestFilesAreWhole(t *testing.T) {
	line := regexp.MustCompile(`^(#.*|(msgctxt|msgid|msgstr) ".*"|".*"|)$`)
	for name, language := range map[string]string{"en.po": "en", "zh_CN.po": "zh_CN"} {
		file := content(t, name)
		for _, header := range []string{"Language: " + language, "Content-Type: text/plain; charset=UTF-8"} {
			if !strings.Contains(file, `"`+header+`\n"`) {
				t.Errorf("%s: the header lacks %q", name, header)
			}
		}
		n := 0
		for text := range strings.SplitSeq(file, "\n") {
			if n++; !line.MatchString(text) || strings.HasPrefix(text, "#,") || strings.HasPrefix(text, "#~") {
				t.Errorf("%s:%d: %q: expected msgctxt, msgid, msgstr, a text in quotes or a comment, no entry that is "+
					"fuzzy, obsolete or plural", name, n, text)
			}
		}
		seen, texts := map[gettext.Key]bool{}, gettext.Read(file)
		for _, key := range keys(t, file) {
			if seen[key] {
				t.Errorf("%s: %v is there twice", name, key)
			}
			seen[key] = true
			if text := texts[key]; text == "" || strings.Trim(text, "\n") != text {
				t.Errorf("%s: %v is %q: expected a text that neither begins nor ends with an empty line", name, key, text)
			}
		}
		if len(texts) != len(seen) {
			t.Errorf("%s: %d keys, but %d texts", name, len(seen), len(texts))
		}
	}
}

// TestLanguagesAgree: each file has the same texts in the same order, and each text the same placeholders, and as many
// paragraphs, which are Chinese in the Chinese file. Calls of commands are the same.
func TestLanguagesAgree(t *testing.T) {
	english, chinese := content(t, "en.po"), content(t, "zh_CN.po")
	if d := cmp.Diff(keys(t, english), keys(t, chinese)); d != "" {
		t.Errorf("zh_CN.po has other texts, or another order (-en.po +zh_CN.po):\n%s", d)
	}
	en, zh := gettext.Read(english), gettext.Read(chinese)
	for key, text := range en {
		if a, b := placeholders(text), placeholders(zh[key]); !slices.Equal(a, b) {
			t.Errorf("%v has the placeholders %q, in Chinese %q", key, a, b)
		}
		if a, b := strings.Count(text, "\n\n"), strings.Count(zh[key], "\n\n"); a != b {
			t.Errorf("%v has %d paragraphs, in Chinese %d", key, a+1, b+1)
		}
		for paragraph := range strings.SplitSeq(placeholder.ReplaceAllString(zh[key], ""), "\n\n") {
			if !strings.HasPrefix(key.ID, help.Example) && strings.TrimSpace(paragraph) != "" && !han.MatchString(paragraph) {
				t.Errorf("%v says in English: %s", key, paragraph)
			}
		}
		if key.ID == help.Example && text != zh[key] {
			t.Errorf("%v differs in Chinese", key)
		}
	}
}

var placeholder, han = regexp.MustCompile(`\{[a-z]+\}`), regexp.MustCompile(`\p{Han}`)

func placeholders(text string) []string {
	found := placeholder.FindAllString(text, -1)
	slices.Sort(found)
	return found
}

// TestPlaceholders: a placeholder stands for a text that several commands share, or for the command. Each shared text
// is used, and no placeholder is left.
func TestPlaceholders(t *testing.T) {
	texts, used := gettext.Read(content(t, "en.po")), map[string]bool{}
	for key, text := range texts {
		if key.Context != "shared" {
			for _, p := range placeholders(text) {
				used[strings.Trim(p, "{}")] = true
			}
		}
		for _, l := range []words.Lang{words.English, words.Chinese} {
			if got, ok := help.In(l).Of(key.Context, key.ID); !ok || placeholder.MatchString(got) {
				t.Errorf("%s: %v is %q, %t", l.Tag(), key, got, ok)
			}
		}
	}
	shared := 0
	for key := range texts {
		if key.Context == "shared" {
			if shared++; !used[key.ID] {
				t.Errorf("no text has {%s}", key.ID)
			}
		}
	}
	if shared == 0 {
		t.Error("no text is shared: then this test proves nothing")
	}
	const want = "  drover stop web/nginx\n"
	if got, _ := help.In(words.Chinese).Of("drover stop", help.Example); !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want %q first", got, want)
	}
}

// TestHeadings: a heading that ends with another one stays whole.
func TestHeadings(t *testing.T) {
	const template = "Global Flags:\n{{.Flags}}\nFlags:\nUsage:\n"
	if got := help.In(words.Chinese).Headings(template); got != "全局选项：\n{{.Flags}}\n选项：\n用法：\n" {
		t.Errorf("got %q", got)
	}
	if got := help.In(words.English).Headings(template); got != template {
		t.Errorf("English: %q", got)
	}
}
