package cli_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"drover/internal/cli"
	"drover/internal/words"
	"drover/internal/words/gettext"
	"drover/internal/words/help"
)

var update = flag.Bool("update", false, "write the help texts to testdata/help")

// TestHelp compares what each command says of itself with testdata/help, so that a change of it is seen.
func TestHelp(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", "/state")
	var names []string
	walk(cli.NewRoot(), func(cmd *cobra.Command) {
		name := strings.ReplaceAll(cmd.CommandPath(), " ", "_") + ".txt"
		names = append(names, name)
		var out bytes.Buffer
		root := cli.NewRoot()
		root.SetOut(&out)
		root.SetArgs(append(strings.Fields(cmd.CommandPath())[1:], "--help"))
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join("testdata", "help", name)
		if *update {
			if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
			return
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), out.String()); d != "" {
			t.Errorf("%s (-want +got; -update writes it anew):\n%s", name, d)
		}
	})
	files, err := os.ReadDir(filepath.Join("testdata", "help"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !slices.Contains(names, f.Name()) {
			t.Errorf("%s is of no command", f.Name())
		}
	}
}

// TestHelpInChinese: each paragraph of each command's help, the headings and the flags are Chinese.
func TestHelpInChinese(t *testing.T) {
	used := map[string]bool{}
	walk(cli.NewRoot(), func(cmd *cobra.Command) {
		cmd.InitDefaultHelpFlag()
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if _, ok := words.Flag(f.Usage, words.Chinese); !ok {
				t.Errorf("%s --%s: the catalogue lacks %q (package words, Flags)", cmd.CommandPath(), f.Name, f.Usage)
			}
			used[f.Usage] = true
		})
		var out bytes.Buffer
		root := cli.NewRoot()
		root.SetOut(&out)
		root.SetArgs(append(strings.Fields(cmd.CommandPath())[1:], "--help", "--lang", "zh"))
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		about, rest, _ := strings.Cut(out.String(), "\n用法：\n  "+cmd.CommandPath())
		if rest == "" || cmd.HasParent() && !strings.Contains(rest, "\n全局选项：\n") {
			t.Errorf("the help of %s lacks a heading:\n%s", cmd.CommandPath(), out.String())
		}
		for paragraph := range strings.SplitSeq(strings.TrimSpace(about), "\n\n") {
			if !han(paragraph) {
				t.Errorf("the help of %s says in English: %s", cmd.CommandPath(), paragraph)
			}
		}
		for flag := range strings.SplitSeq(rest, "\n") {
			about := regexp.MustCompile(`^ {2,6}(?:-[a-zA-Z], )?--[a-z-]+(?: [a-zA-Z]+)?  +(.*)$`).FindStringSubmatch(flag)
			if about != nil && (!han(about[1]) || strings.Contains(about[1], "(default ")) {
				t.Errorf("the help of %s says in English: %s", cmd.CommandPath(), flag)
			}
		}
		for _, english := range []string{"Usage:", "Flags:", "Commands:", "Examples:"} {
			if strings.Contains(out.String(), "\n"+english) {
				t.Errorf("the help of %s has the heading %q", cmd.CommandPath(), english)
			}
		}
	})
	data, err := os.ReadFile(filepath.Join("..", "words", "flags", "zh_CN.po"))
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range gettext.Read(string(data)).Keys() {
		if !used[key.ID] && !strings.Contains(key.ID, "{command}") {
			t.Errorf("no flag has %q", key.ID)
		}
	}
}

// TestHelpFilesFollowTheCommands: the files of package help have a line about each command, and texts of no other
// command, in the order in which the help lists the commands. Their headings are those of package cobra.
func TestHelpFilesFollowTheCommands(t *testing.T) {
	template := cli.NewRoot().UsageTemplate()
	for _, name := range []string{"en.po", "zh_CN.po"} {
		data, err := os.ReadFile(filepath.Join("..", "words", "help", name))
		if err != nil {
			t.Fatal(err)
		}
		texts := gettext.Read(string(data))
		var want, got []string
		listed(cli.NewRoot(), func(cmd *cobra.Command) {
			want = append(want, cmd.CommandPath()+": "+help.Short)
			for _, kind := range []string{help.Long, help.Example} {
				if _, ok := texts.Text(gettext.Key{Context: cmd.CommandPath(), ID: kind}); ok {
					want = append(want, cmd.CommandPath()+": "+kind)
				}
			}
			for _, g := range cmd.Groups() {
				want = append(want, cmd.CommandPath()+": "+help.Group+g.ID)
			}
		})
		for _, m := range regexp.MustCompile(`(?m)^msgctxt "(.*)"\nmsgid "(.*)"$`).FindAllStringSubmatch(string(data), -1) {
			switch heading := strings.ReplaceAll(m[2], `\"`, `"`); m[1] {
			case "shared":
			case "headings":
				if !strings.Contains(template, heading) {
					t.Errorf("%s: no help has the heading %q", name, heading)
				}
				if text, _ := texts.Text(gettext.Key{Context: m[1], ID: heading}); name == "en.po" && text != heading {
					t.Errorf("%s: the heading %q is %q: package cobra has the English headings", name, heading, text)
				}
			default:
				got = append(got, m[1]+": "+m[2])
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-commands +file):\n%s", name, d)
		}
	}
}

// listed calls do for a command and those below it, as the help lists them: by group, and in a group by name.
func listed(cmd *cobra.Command, do func(*cobra.Command)) {
	do(cmd)
	groups := []string{}
	for _, g := range cmd.Groups() {
		groups = append(groups, g.ID)
	}
	for _, id := range append(groups, "") {
		for _, sub := range cmd.Commands() {
			if sub.GroupID == id {
				listed(sub, do)
			}
		}
	}
}

// TestCommandsHaveNoHelpUntilTheyShowIt: the code has no text of the help, and a command that shows none reads no file.
func TestCommandsHaveNoHelpUntilTheyShowIt(t *testing.T) {
	root := cli.NewRoot()
	root.SetOut(&bytes.Buffer{})
	root.SetArgs([]string{"version"})
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	walk(root, func(cmd *cobra.Command) {
		path := strings.Fields(cmd.CommandPath())
		if len(path) > 1 && slices.Contains([]string{"help", "completion"}, path[1]) {
			return // package cobra adds them
		}
		if cmd.Short+cmd.Long+cmd.Example != "" {
			t.Errorf("%s has the texts %q, %q, %q", cmd.CommandPath(), cmd.Short, cmd.Long, cmd.Example)
		}
		for _, g := range cmd.Groups() {
			if g.Title != "" {
				t.Errorf("the group %s has the title %q", g.ID, g.Title)
			}
		}
	})
}

func han(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return unicode.Is(unicode.Han, r) })
}

func walk(cmd *cobra.Command, do func(*cobra.Command)) {
	do(cmd)
	for _, sub := range cmd.Commands() {
		walk(sub, do)
	}
}

// TestHelpTellsExitCodes: scripts rest on them.
func TestHelpTellsExitCodes(t *testing.T) {
	long, _ := help.In(words.English).Of("drover", help.Long)
	for _, code := range []string{
		"0 done", "1 failed", "2 wrong usage", "3 not running", "4 no such thing",
		"5 not allowed", "6 unreachable", "7 done on some",
	} {
		if !strings.Contains(strings.ReplaceAll(long, "\n", " "), code) {
			t.Errorf("the help does not say %q", code)
		}
	}
}
