package term

import (
	"bytes"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	"drover/internal/command"
	"drover/internal/words"
)

type row struct{ name, state, message string }

// printed is a list in a form, as a command with arguments prints it to what is no terminal.
func printed(t *testing.T, args ...string) string {
	t.Helper()
	var o Output
	list := &cobra.Command{Use: "list", RunE: func(cmd *cobra.Command, _ []string) error {
		Say(cmd, "no events\n")
		return PrintList(cmd, o, []row{
			{"web/网关", "given-up", "pid 7 exit status 3"}, {"web/b", "given-up (stale)", "not ours"}, {"web/c", "odd", ""},
		}, []Column[row]{
			{Head: "NAME", Cell: func(r row) string { return r.name }},
			{Head: "STATE", Cell: func(r row) string { return r.state }, State: true},
			{Head: "MESSAGE", Cell: func(r row) string { return r.message }},
		}, func(r row) string { return r.name })
	}}
	root := &cobra.Command{Use: "drover"}
	LanguageFlag(root)
	root.AddCommand(list)
	o.Flags(list, AsTable, AsWide, AsName, AsCSV)
	list.Flags().StringVar(&o.Colour, "color", "auto", "")
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	if code := command.Main(root, append([]string{"list"}, args...), nil); code != command.Done {
		t.Fatalf("%v: exit code %d: %s", args, code, out.String())
	}
	return out.String()
}

// TestTablesInChinese: columns stand below each other, the id stands beside the first word of a state, and what people
// and programs call things stays.
func TestTablesInChinese(t *testing.T) {
	want := "没有事件\n" +
		"名称      状态                    信息\n" +
		"web/网关  已放弃拉起 given-up     pid 7 退出，退出码 3\n" +
		"web/b     已放弃拉起（数据过期）  not ours\n" +
		"web/c     odd                     -\n"
	got := printed(t, "--lang", "zh")
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	for n, line := range strings.Split(strings.TrimSpace(got), "\n")[1:] {
		before, _, found := strings.Cut(line, []string{"信息", "pid 7", "not ours", "-"}[n])
		if width := ansi.StringWidthWc(before); !found || width != 34 {
			t.Errorf("the last column of %q begins at %d", line, width)
		}
	}
	if got := printed(t, "--lang", "zh", "--color", "always"); !strings.Contains(got, "\x1b[31m已放弃拉起 given-up\x1b[0m") {
		t.Errorf("the colour is lost:\n%q", got)
	}
}

// TestIDsInChinese: the id of an event or an action stands beside its first word. English tables hold ids alone.
func TestIDsInChinese(t *testing.T) {
	columns := []Column[string]{
		{Head: "EVENT", Cell: func(id string) string { return id }, Words: func(id string, l words.Lang) string {
			return words.Kind(id).In(l)
		}},
		{Head: "ACTION", Cell: func(string) string { return "restart, stop" }, Words: words.Did},
	}
	for lang, want := range map[words.Lang]string{
		words.English: "EVENT    ACTION\nstopped  restart, stop\nstopped  restart, stop\nnew      restart, stop\n",
		words.Chinese: "事件            动作\n已停止 stopped  重启、停止 restart, stop\n已停止          重启、停止\nnew             重启、停止\n",
	} {
		var out bytes.Buffer
		table := TableOf(Output{}, &out, columns)
		table.lang = lang
		table.Add(table.Heads()...)
		for _, id := range []string{"stopped", "stopped", "new"} {
			table.Add(Cells(columns, false, id)...)
		}
		if err := table.Write(&out); err != nil || out.String() != want {
			t.Errorf("%s:\n%s%v", lang.Tag(), out.String(), err)
		}
	}
}

// TestCellsOfSeveralThingsInChinese: what stands for several things in one cell is no English either.
func TestCellsOfSeveralThingsInChinese(t *testing.T) {
	var out bytes.Buffer
	columns := []Column[string]{
		{Head: "PROCESS", Cell: func(string) string { return "shop/api and 2 others" }},
		{Head: "CAUSE", Cell: func(string) string { return "revision 2: environment.A, user" }},
	}
	table := TableOf(Output{}, &out, columns)
	table.lang = words.Chinese
	table.Add(Cells(columns, false, "")...)
	if err := table.Write(&out); err != nil || out.String() != "shop/api 及另外 2 个  修订版本 2：environment.A, user\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// TestScriptsReadEnglish: an environment changes nothing for a program, nor does --lang change a form for programs.
func TestScriptsReadEnglish(t *testing.T) {
	for _, name := range []string{"DROVER_LANG", "LC_ALL", "LC_MESSAGES", "LANG"} {
		t.Setenv(name, "zh_CN.UTF-8")
	}
	if got := printed(t); !strings.Contains(got, "no events\nNAME      STATE             MESSAGE\n") ||
		!strings.Contains(got, "pid 7 exit status 3") {
		t.Errorf("not on a terminal:\n%s", got)
	}
	if got := printed(t, "--lang", "zh", "-o", "csv"); !strings.Contains(got, "NAME,STATE,MESSAGE\nweb/网关,given-up,pid 7 exit") {
		t.Errorf("CSV:\n%s", got)
	}
}

// TestCompletionsInChinese: a shell that completes a line shows what flags and commands are for in the language of the
// person, and nothing else changes.
func TestCompletionsInChinese(t *testing.T) {
	complete := func(args ...string) string {
		ps := &cobra.Command{Use: "events", Short: "List the events of processes, or follow them", Run: func(*cobra.Command, []string) {}}
		ps.Flags().Bool("follow", false, "follow new events as they arrive")
		root := &cobra.Command{Use: "drover"}
		LanguageFlag(root)
		root.AddCommand(ps)
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetErr(&out)
		DescribeCompletions(root, args)
		if code := command.Main(root, args, nil); code != command.Done {
			t.Fatalf("%v: exit code %d: %s", args, code, out.String())
		}
		return out.String()
	}
	for _, name := range []string{"DROVER_LANG", "LC_ALL", "LC_MESSAGES", "LANG"} {
		t.Setenv(name, "")
	}
	if got := complete("__complete", "events", "--"); !strings.Contains(got, "--follow\tfollow new events as they arrive") {
		t.Errorf("in English:\n%s", got)
	}
	t.Setenv("LANG", "zh_CN.UTF-8")
	if got := complete("__complete", "events", "--"); !strings.Contains(got, "--follow\t持续显示新事件") || strings.Contains(got, "as they") {
		t.Errorf("flags:\n%s", got)
	}
	if got := complete("__complete", "ev"); !strings.Contains(got, "events\t列出") {
		t.Errorf("commands:\n%s", got)
	}
}

func TestLanguageFlag(t *testing.T) {
	for text, want := range map[string]words.Lang{
		"en": words.English, "zh": words.Chinese, "zh-CN": words.Chinese,
	} {
		var f languageFlag
		if err := f.Set(text); err != nil || f.Lang != want {
			t.Errorf("--lang %s: %s, %v", text, f.Tag(), err)
		}
	}
	for _, text := range []string{"", "fr", "ZH"} {
		if err := (&languageFlag{}).Set(text); err == nil || err.Error() != "expected en or zh" {
			t.Errorf("--lang %q: %v", text, err)
		}
	}
}

func TestCells(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "abc": 3, "中文": 4, "e\u0301": 1, "，": 2, "－": 2, "…": 1, "→": 1, "●": 1, "ｱ": 1,
	} {
		if got := ansi.StringWidthWc(text); got != want {
			t.Errorf("%q takes %d cells, want %d", text, got, want)
		}
	}
}
