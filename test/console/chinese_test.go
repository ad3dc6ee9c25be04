package console_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"drover/internal/test/harness"
)

// TestNoEnglishOnChinesePages: what drover itself says on a page is Chinese. Names, ids, commands, code and what
// processes write stay as they are.
func TestNoEnglishOnChinesePages(t *testing.T) {
	t.Parallel()
	place := harness.NewPlace(t, binaries.drover)
	place.Apply(file)
	harness.Eventually(t, "shop/bad to be given up", func() bool { return place.State("bad") == "given-up" })
	b := newBrowser(t, place)
	b.language = "zh-CN,zh;q=0.9"
	b.signIn()
	for _, page := range []string{
		"/ui/", "/ui/processes", "/ui/processes/shop/bad", "/ui/processes/shop/bad/at/0:127.0.0.1", "/ui/hosts",
		"/ui/tasks", "/ui/rollouts", "/ui/events", "/ui/why/exit-status", "/ui/nothing",
	} {
		p := b.get(page)
		if !strings.Contains(p.text, `<html lang="zh-CN">`) {
			t.Errorf("%s: %.200s", page, p.text)
		}
		if english := englishIn(p.text); len(english) > 0 {
			t.Errorf("%s says %q", page, english)
		}
	}
	b.wants(b.get("/ui/why/exit-status"), 200, "<h1>异常退出 [exit-status]</h1>", "<code>drover retry NAMESPACE/NAME</code>")
	b.wants(b.get("/ui/processes/shop/bad/at/0:127.0.0.1"), 200, "次启动都没有维持住，已放弃拉起；pid ", "退出码 3",
		`href="/ui/why/exit-status"`, "处理方法", "退出前输出：")
	b.wants(b.get("/ui/"), 200, "异常退出", "排除错误，然后执行 <code>drover retry</code>。")
	b.wants(b.get("/ui/why/weather"), 404, "没有这个名称的内容")
	b.wants(b.get("/ui/tasks/op-none"), 404, "没有任务")
	b.language = "en"
	b.wants(b.get("/ui/why/exit-status"), 200, "<h1>Ended with an error [exit-status]</h1>",
		"<pre tabindex=\"0\">drover why NAMESPACE/NAME\n")
	b.wants(b.get("/ui/processes/shop/bad/at/0:127.0.0.1"), 200, "that did not last", "exit status 3")
}

// What is no word of drover on a page: what it does not show, what is code, and what stands between bdi for its
// direction if it holds no Han character.
var (
	unshown = regexp.MustCompile(`(?s)<head>.*?</head>|<code[^>]*>.*?</code>|<kbd>.*?</kbd>|<pre.*?</pre>|<script.*?</script>`)
	data    = regexp.MustCompile(`(?s)<bdi[^>]*>[^<]*</bdi>`)
	tag     = regexp.MustCompile(`(?s)<[^>]*>`)
	word    = regexp.MustCompile(`[A-Za-z][a-z]{2,}(?: [a-z]+)+`)
)

// englishIn returns what reads like English on a page: two words or more.
func englishIn(page string) []string {
	page = unshown.ReplaceAllString(page, " ")
	page = data.ReplaceAllStringFunc(page, func(text string) string {
		if strings.ContainsFunc(text, func(r rune) bool { return unicode.Is(unicode.Han, r) }) {
			return text
		}
		return " "
	})
	found := word.FindAllString(tag.ReplaceAllString(page, "\n"), -1)
	slices.Sort(found)
	return slices.Compact(found)
}
