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

// TestHelpInChinese: each paragraph of each command's help, and the headings, are Chinese. The catalogue has no other
// paragraphs.
func TestHelpInChinese(t *testing.T) {
	used := map[string]bool{}
	use := func(command, text string) {
		key := strings.TrimSuffix(strings.Join(strings.Fields(text), " "), ".")
		if _, ok := words.HelpParagraph(text, words.Chinese); !ok && key != "" {
			t.Errorf("%s: the catalogue lacks %q (package words, Help or Long)", command, key)
		}
		used[key] = true
	}
	walk(cli.NewRoot(), func(cmd *cobra.Command) {
		use(cmd.CommandPath(), cmd.Short)
		for paragraph := range strings.SplitSeq(cmd.Long, "\n\n") {
			use(cmd.CommandPath(), paragraph)
		}
		for _, g := range cmd.Groups() {
			use(cmd.CommandPath(), g.Title)
		}
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
	headings := cli.NewRoot().UsageTemplate()
	for _, text := range slices.Concat(words.Help, words.LongProcesses, words.LongServers) {
		en := text.In(words.English)
		if !used[strings.TrimSuffix(en, ".")] && !strings.Contains(headings, en) {
			t.Errorf("no help has %q", en)
		}
	}
	for _, text := range words.Flags {
		if en := text.In(words.English); !used[en] && !strings.Contains(en, "{command}") {
			t.Errorf("no flag has %q", en)
		}
	}
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
	long := cli.NewRoot().Long
	for _, code := range []string{
		"0 done", "1 failed", "2 wrong usage", "3 not running", "4 no such thing",
		"5 not allowed", "6 unreachable", "7 done on some",
	} {
		if !strings.Contains(strings.ReplaceAll(long, "\n", " "), code) {
			t.Errorf("the help does not say %q", code)
		}
	}
}
