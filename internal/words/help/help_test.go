package help_test

import (
	"os"
	"regexp"
	"slices"
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

// keys returns the keys of a file in its order.
func keys(t *testing.T, file string) (all []gettext.Key) {
	t.Helper()
	all = gettext.Read(file).Keys()
	if len(all) < 300 {
		t.Fatalf("only %d texts", len(all))
	}
	return all
}

// texts returns the texts of a file by their keys.
func texts(content string) map[gettext.Key]string {
	file, all := gettext.Read(content), map[gettext.Key]string{}
	for _, key := range file.Keys() {
		all[key], _ = file.Text(key)
	}
	return all
}

// TestLanguagesAgree: each file has the same texts in the same order, and each text the same placeholders, and as many
// paragraphs, which are Chinese in the Chinese file. Calls of commands are the same.
func TestLanguagesAgree(t *testing.T) {
	english, chinese := content(t, "en.po"), content(t, "zh_CN.po")
	if d := cmp.Diff(keys(t, english), keys(t, chinese)); d != "" {
		t.Errorf("zh_CN.po has other texts, or another order (-en.po +zh_CN.po):\n%s", d)
	}
	en, zh := texts(english), texts(chinese)
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
	english, used := texts(content(t, "en.po")), map[string]bool{}
	for key, text := range english {
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
	for key := range english {
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
