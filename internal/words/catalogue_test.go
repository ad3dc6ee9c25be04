package words_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"drover/internal/words"
	"drover/internal/words/gettext"
	"drover/internal/words/help"
)

// entry is one text of the catalogue and its place. A text of the help is a paragraph, and help is true.
type entry struct {
	place, en, zh string
	help          bool
}

// text is a text of a file with its key.
type text struct {
	gettext.Key
	string
}

// read returns the texts of a file in its order.
func read(t *testing.T, path string) (all []text) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file := gettext.Read(string(data))
	for _, key := range file.Keys() {
		found, _ := file.Text(key)
		all = append(all, text{key, found})
	}
	return all
}

// forms are the texts that are found by their English form: those of some groups, or all.
func forms(t *testing.T, groups ...string) (all []entry) {
	t.Helper()
	for _, dir := range []string{"sentences", "faults", "messages", "columns", "flags", "fields"} {
		for _, e := range read(t, dir+"/zh_CN.po") {
			if len(groups) == 0 || slices.Contains(groups, e.Context) {
				all = append(all, entry{dir + ", " + e.Context, e.ID, e.string, false})
			}
		}
	}
	if len(all) == 0 {
		t.Fatalf("no text is in %q", groups)
	}
	return all
}

// named are the directories of the texts with names.
func named() []string { return []string{"console", "states", "causes", "phrases"} }

// sentenceGroups are the groups of sentences and messages.
func sentenceGroups() []string {
	return []string{
		"doctor", "message", "fault", "sentence", "execution", "refusal", "file fault", "field fault",
	}
}

// catalogue lists every text in the files of the package, and the paragraphs of the help.
func catalogue(t *testing.T) []entry {
	t.Helper()
	all := forms(t)
	for _, dir := range named() {
		english, chinese := read(t, dir+"/en.po"), read(t, dir+"/zh_CN.po")
		for i, e := range english {
			if i < len(chinese) { // TestNamedFilesAgree compares the keys
				all = append(all, entry{dir + ", " + e.Context + ", " + e.ID, e.string, chinese[i].string, false})
			}
		}
	}
	paragraphs := helpTexts(t)
	if len(all) < 2800 || len(paragraphs) < 350 {
		t.Fatalf("only %d texts, and %d paragraphs of the help", len(all), len(paragraphs))
	}
	return append(all, paragraphs...)
}

// helpTexts are the paragraphs of the help without the calls of commands, which are the same in every language.
func helpTexts(t *testing.T) (all []entry) {
	t.Helper()
	english, chinese := read(t, "help/en.po"), read(t, "help/zh_CN.po")
	for i, e := range english {
		if e.ID == help.Example || i >= len(chinese) { // a test of package help compares the keys
			continue
		}
		zh := strings.Split(chinese[i].string, "\n\n")
		for j, paragraph := range strings.Split(e.string, "\n\n") {
			if j < len(zh) { // and the numbers of paragraphs
				all = append(all, entry{e.Context + ", " + e.ID, strings.Join(strings.Fields(paragraph), " "), zh[j], true})
			}
		}
	}
	return all
}

var placeholder = regexp.MustCompile(`\{[a-z]+\}`)

// placeholders are those of a text, without {s}, the ending of an English plural.
func placeholders(text string) []string {
	found := slices.DeleteFunc(placeholder.FindAllString(text, -1), func(p string) bool { return p == "{s}" })
	slices.Sort(found)
	return found
}

func han(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return unicode.Is(unicode.Han, r) })
}

func TestEveryTextIsWholeInEveryLanguage(t *testing.T) {
	keys := strings.NewReplacer("\n  :  ", "\n") // the key that jumps, in the list of keys of the terminal screen
	for _, e := range catalogue(t) {
		if strings.TrimSpace(e.en) == "" || strings.TrimSpace(e.zh) == "" {
			t.Errorf("%s: %q, %q: a language is empty", e.place, e.en, e.zh)
		}
		if en, zh := placeholders(e.en), placeholders(e.zh); !slices.Equal(en, zh) {
			t.Errorf("%s: %q has %v, %q has %v", e.place, e.en, en, e.zh, zh)
		}
		// Sentences are found by their placeholders; nobody looks for a text of the help by its words.
		if !e.help && slices.ContainsFunc(placeholders(e.en), func(p string) bool { return strings.Count(e.en, p) > 1 }) {
			t.Errorf("%s: %q holds a placeholder twice", e.place, e.en)
		}
		if han(e.en) {
			t.Errorf("%s: English %q holds Han characters", e.place, e.en)
		}
		if inParts := regexp.MustCompile(`[\p{Han}，。：；（]\s*[,;:?!](\s|$)`); inParts.MatchString(keys.Replace(e.zh)) {
			t.Errorf("%s: %q has the punctuation of English", e.place, e.zh)
		}
	}
}

// TestWordsOfTheGlossary: one word for one thing, also in Chinese.
func TestWordsOfTheGlossary(t *testing.T) {
	for _, rule := range []struct {
		english   string // what the English text speaks of
		forbidden string // what Chinese must not call it
	}{
		{`\breload`, "过载|重新加载|超载"},
		{`\bhosts?\b`, "宿主|机器"},
		{`\binstance`, "副本"},
		{`\brollout`, "滚动发布|推出"},
		{`\bbatch`, "批处理"},
		{`\bkill\b`, "杀死|杀掉"},
		{`\baway\b`, "离开|走开"},
		{`\bgiven up\b`, "放弃了"},
		{`\bcanar`, "金丝雀"},
		{`\bflapping\b`, "拍打|摆动"},
		{`\bagent`, "代理"},
		{`\bproxy`, "代理"},
		{`\barea\b`, "云区域"},
		{`\bnamespace`, "名字空间|名称空间"},
		{`\brevision`, "配置版本|历史版本|修订[^版]"},
		{`\breceiver`, "接收端"},
		{`\bschedule`, "定时任务"},
		{`\baccount`, "账号|帐号"},
		{`\bchecksum|\bsums?\b`, "校验和"},
		{`\bcredential`, "凭证"},
		{`\bflags?\b`, "标志|旗标"},
		{`\bcaller`, "调用者"},
		{`.`, "您|主机个|请求失败了"},
	} {
		english, forbidden := regexp.MustCompile("(?i)"+rule.english), regexp.MustCompile(rule.forbidden)
		for _, e := range catalogue(t) {
			if english.MatchString(e.en) && forbidden.MatchString(e.zh) {
				t.Errorf("%s: %q is %q: the glossary forbids %s", e.place, e.en, e.zh, rule.forbidden)
			}
		}
	}
}

// TestNoTextTwice: a sentence that two entries of a list match has two translations.
func TestNoTextTwice(t *testing.T) {
	for name, list := range map[string][]entry{
		"column": forms(t, "column"), "flag": forms(t, "flag"), "field": forms(t, "field"),
		"sentences and messages": forms(t, sentenceGroups()...),
	} {
		seen := map[string]bool{}
		for _, text := range list {
			en := placeholder.ReplaceAllString(text.en, "{}")
			if seen[en] {
				t.Errorf("%s: %q is there twice", name, text.en)
			}
			seen[en] = true
		}
	}
}

// TestEverySentenceIsFound: each sentence, with values, is translated by its own entry, and not by one before it.
func TestEverySentenceIsFound(t *testing.T) {
	values := strings.NewReplacer("{text}", "success", "{state}", "paused", "{s}", "s", "{flag}", "--one", "{n}", "7",
		"{op}", "stop", "{operation}", "stop", "{command}", "drover stop", "{choices}", "one, two")
	chinese := strings.NewReplacer("{text}", "成功", "{state}", "已暂停 paused", "{flag}", "--one", "{n}", "7",
		"{op}", "stop", "{operation}", "停止", "{command}", "drover stop", "{choices}", "one, two")
	value := func(p string) string { return "V" + strings.Trim(p, "{}") }
	for _, group := range sentenceGroups() {
		if group == "execution" {
			continue // drover looks for these after the sentences, one of which fits one of these, too
		}
		for _, text := range forms(t, group) {
			en := placeholder.ReplaceAllStringFunc(values.Replace(text.en), value)
			want := placeholder.ReplaceAllStringFunc(chinese.Replace(text.zh), value)
			got := words.Message(en, words.Chinese)
			if group == "sentence" {
				got, _ = words.Sentence(en, words.Chinese)
			}
			if got != want {
				t.Errorf("%s: %q is %q, want %q", group, en, got, want)
			}
		}
	}
}

// TestSentencesAreWritten: every word of a sentence, and most pairs of words, stand in the sources of the product. Some
// pairs do not, because the sources put sentences together.
func TestSentencesAreWritten(t *testing.T) {
	var all strings.Builder
	for _, dir := range []string{
		"../agent", "../process", "../server", "../why", "../cli", "../command",
		"../processfile", "../selector", "../crontab", "../pattern", "../../api", "../../client",
	} {
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			data, err := os.ReadFile(path)
			all.Write(data)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	written := map[string]bool{}
	pairs := func(text string, yield func(word, pair string)) {
		before := ""
		for _, word := range regexp.MustCompile(`[A-Za-z]+`).FindAllString(text, -1) {
			yield(word, before+" "+word)
			before = word
		}
	}
	pairs(all.String(), func(word, pair string) { written[word], written[pair] = true, true })
	for _, text := range forms(t, sentenceGroups()...) {
		if slices.ContainsFunc([]string{"unknown flag", "unknown shorthand", "flag needs"},
			func(cobra string) bool { return strings.HasPrefix(text.en, cobra) }) {
			continue // package cobra says it
		}
		found, n := 0, 0
		for _, part := range placeholder.Split(text.en, -1) {
			pairs(part, func(word, pair string) {
				if !written[word] && len(word) > 3 {
					t.Errorf("%q: no source says %q", text.en, word)
				}
				if n++; written[pair] || strings.HasPrefix(pair, " ") {
					found++
				}
			})
		}
		if found*2 < n {
			t.Errorf("no source says %q", text.en)
		}
	}
}

// TestDeathsInChinese translates what agents have said about real deaths (test/why).
func TestDeathsInChinese(t *testing.T) {
	data, err := os.ReadFile("../../test/why/testdata/deaths.txt")
	if err != nil {
		t.Fatal(err)
	}
	first := regexp.MustCompile(`(?m)^\S+/\S+ on \S+: (.*) \[[a-z-]+\]$`)
	found := first.FindAllStringSubmatch(string(data), -1)
	if len(found) < 25 {
		t.Fatalf("only %d deaths", len(found))
	}
	for _, m := range found {
		if text, whole := words.Sentence(m[1], words.Chinese); !whole {
			t.Errorf("%q stays %q", m[1], text)
		}
	}
}

func TestCauseSentence(t *testing.T) {
	for _, c := range []struct{ id, english, want string }{
		{"exit-status", "pid 7 exit status 3 at T", "pid 7 退出，退出码 3，时间 T"},
		{"exit-status", "a text of tomorrow", "异常退出：a text of tomorrow"},
		{"exit-status", "", "进程自行退出，退出码不为 0。"},
		{"meteor", "a text of tomorrow", "a text of tomorrow"},
		{
			"crashed", "given up after 1 start that did not last; pid 7 killed by signal 11 (SIGSEGV), core dumped at T",
			"1 次启动都没有维持住，已放弃拉起；pid 7 被信号 11 (SIGSEGV) 终止，已生成 core 文件，时间 T",
		},
		{
			"agent-away", "the agent of the host has been away for 4m2s; as of T the process was running",
			"该主机的 Agent 已失联 4 分钟 2 秒；T 时进程状态为 运行中 running",
		},
		{
			"command-failed", "run failed: exit status 8; output: [a; b {text}]", "run 失败：退出码 8: a; b {text}",
		},
	} {
		if got := words.CauseSentence(c.id, c.english, words.Chinese); got != c.want {
			t.Errorf("%q is %q, want %q", c.english, got, c.want)
		}
		english := strings.NewReplacer("4m2s", "4 minutes 2 seconds", "; output: [", ": ", "}]", "}").Replace(c.english)
		if got := words.CauseSentence(c.id, c.english, words.English); got != english && english != "" {
			t.Errorf("English %q is %q", c.english, got)
		}
	}
}

// TestApart: a person reads the cause in drover's words, and then what the program has written.
func TestApart(t *testing.T) {
	for _, c := range []struct{ wire, text, output string }{
		{
			`restart process (web) failed, for post-check status not alive: pid 3817 exit status 127; run: "pyton3" was not ` +
				`found; output: [pyton3: 10: exec: [x]; not found]`,
			`restart failed: run: "pyton3" was not found; pid 3817 exit status 127`, "pyton3: 10: exec: [x]; not found",
		},
		{
			"given up after 2 starts that did not last; start process (a b) failed, for post-check status not alive",
			"given up after 2 starts that did not last; start failed: not alive", "",
		},
		{
			"Script exit code non-zero. Error msessage: [one\ntwo] (stop_cmd: exit status 3); drover sent SIGTERM",
			"the stop command failed: exit status 3; drover sent SIGTERM", "one\ntwo",
		},
		{
			"start_cmd timed out after 3s; drover ended it with all processes that it had started. Output: [a]",
			"start_cmd timed out after 3s; drover ended it with all processes that it had started", "a",
		},
		{
			"agent not found or offline: it was sent the operation and has not answered; it may have begun, and never begins later",
			"the agent does not answer: the operation has begun already, or never begins", "",
		},
		{"its last output:\nfailed; output: [a]", "its last output:\nfailed; output: [a]", ""},
		{"pid 7 exit status 3", "pid 7 exit status 3", ""},
	} {
		if text, output := words.Apart(c.wire); text != c.text || output != c.output {
			t.Errorf("%q is %q with the output %q", c.wire, text, output)
		}
		if _, whole := words.Sentence(c.wire, words.Chinese); !whole && !strings.HasPrefix(c.text, "its last") {
			t.Errorf("%q has no Chinese", c.wire)
		}
	}
}

// TestLengthsOfTime: a person reads them in words. The outputs of programs keep theirs.
func TestLengthsOfTime(t *testing.T) {
	for _, c := range []struct{ said, english, chinese string }{
		{"relaunched more than 3 times in 10m0s", "relaunched more than 3 times in 10 minutes", "10 分钟内拉起超过 3 次"},
		{
			"next start at 2026-11-20T10:29:00Z, attempt 2 of 5", "next start at 2026-11-20T10:29:00Z, attempt 2 of 5",
			"将于 2026-11-20T10:29:00Z 再次启动（第 2 次，共 5 次）",
		},
		{
			"given up after 2 starts that did not last; run failed: exit status 8; output: [took 10m0s]",
			"given up after 2 starts that did not last; run failed: exit status 8\ntook 10m0s",
			"2 次启动都没有维持住，已放弃拉起；run 失败：退出码 8\ntook 10m0s",
		},
		{"a text of tomorrow in 10m0s", "a text of tomorrow in 10m0s", "a text of tomorrow in 10m0s"},
	} {
		for l, want := range map[words.Lang]string{words.English: c.english, words.Chinese: c.chinese} {
			if got, _ := words.Sentence(c.said, l); got != want {
				t.Errorf("%q is %q, want %q", c.said, got, want)
			}
		}
	}
	for text, want := range map[string]string{
		"2d3h": "2 天 3 小时", "1d": "1 天", "1.5s": "1.5 秒", "300ms": "300 毫秒", "0s": "0 秒", "0": "0", "10:02": "10:02",
		"2d": "2 天", "d": "d", "-5s": "-5s",
	} {
		if got := words.Span(text, words.Chinese); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

// TestDifferenceFromAFile: who made it stands in parentheses.
func TestDifferenceFromAFile(t *testing.T) {
	const english = "somebody has removed the process on this host (operation by shop/anna, 2026-11-22 10:02:11 UTC)"
	const want = "有人移除了这台主机上的该进程（operation，shop/anna，2026-11-22 10:02:11 UTC）"
	if got, whole := words.Sentence(english, words.Chinese); got != want || !whole {
		t.Errorf("got %q (%v), want %q", got, whole, want)
	}
}

func TestMessage(t *testing.T) {
	for english, want := range map[string]string{
		"restart: 1 ok, 0 failed, 0 running (op-1)\n":                  "restart：1 成功，0 失败，0 执行中（op-1）\n",
		"\r\x1b[Kstop: 1/2 ok, 0 failed, 1 running":                    "\r\x1b[Kstop：1/2 成功，0 失败，1 执行中",
		"stop 2 processes on 1 host? [y/N] ":                           "stop：1 台主机上的 2 个进程？[y/N] ",
		"stop 21 processes on 1 host? Type the number 21 to confirm: ": "stop：1 台主机上的 21 个进程？请输入数量 21 以确认： ",
		"  and 2 other messages\nno events\n":                          "  还有 2 种其他信息\n没有事件\n",
		"nobody says this":                                             "nobody says this",
		"":                                                             "",
	} {
		if got := words.Message(english, words.Chinese); got != want {
			t.Errorf("%q is %q, want %q", english, got, want)
		}
		if got := words.Message(english, words.English); got != english {
			t.Errorf("English %q is %q", english, got)
		}
	}
}

func TestOfLocale(t *testing.T) {
	for locale, want := range map[string]words.Lang{
		"": words.English, "C": words.English, "POSIX": words.English, "en_GB.UTF-8": words.English,
		"de_DE.UTF-8": words.English, "zh_CN.UTF-8": words.Chinese, "zh_CN.utf8": words.Chinese, "zh": words.Chinese,
		"zh_TW": words.Chinese, "zh-CN": words.Chinese, "zh_CN.GB18030": words.English,
		"zh_CN.UTF-8@pinyin": words.Chinese,
	} {
		if got := words.OfLocale(locale); got != want {
			t.Errorf("%q is %s, want %s", locale, got.Tag(), want.Tag())
		}
	}
}

// TestStatesStandBesideTheirWords: what a person reads leads to what a person types.
func TestStatesStandBesideTheirWords(t *testing.T) {
	for _, id := range words.IDs("state") {
		want := fmt.Sprintf("%s %s", words.State(id).In(words.Chinese), id)
		if got := words.Named(id, words.Chinese); got != want || words.Named(id, words.English) != id {
			t.Errorf("%s is %q, want %q", id, got, want)
		}
	}
}
