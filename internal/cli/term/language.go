package term

import (
	"bytes"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"drover/internal/config"
	"drover/internal/words"
)

// languageFlag is --lang.
type languageFlag struct{ words.Lang }

// String implements pflag.Value.
func (f *languageFlag) String() string { return "" }

// Type implements pflag.Value.
func (f *languageFlag) Type() string { return "string" }

// Set implements pflag.Value.
func (f *languageFlag) Set(text string) error {
	l, ok := words.ByTag(text)
	if text == "zh" {
		l, ok = words.Chinese, true
	}
	if !ok {
		return Usagef("expected en or zh")
	}
	f.Lang = l
	return nil
}

// LanguageFlag adds --lang to a command and all commands below it.
func LanguageFlag(root *cobra.Command) {
	root.PersistentFlags().Var(&languageFlag{}, "lang",
		"language: en or zh; on a terminal the default is that of DROVER_LANG or the locale")
	Complete(root, "lang", "en", "zh")
	english := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		lang, out := Lang(cmd, cmd.OutOrStdout()), cmd.OutOrStdout()
		if lang == words.English {
			english(cmd, args)
			return
		}
		translateHelp(cmd, lang)
		var help bytes.Buffer
		cmd.SetOut(&help)
		english(cmd, args)
		cmd.SetOut(out)
		cmd.Print(words.Defaults(help.String(), lang))
	})
}

// ReadLanguage reads --lang wherever it stands, so that an error about a flag before it is in that language, too. The
// command line itself reports a wrong value.
func ReadLanguage(root *cobra.Command, args []string) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	lang := flags.String("lang", "", "")
	if flags.Parse(args) == nil && *lang != "" {
		_ = root.PersistentFlags().Set("lang", *lang)
	}
}

// translateHelp puts the help of a command into a language: headings, lines about commands, and paragraphs.
func translateHelp(cmd *cobra.Command, lang words.Lang) {
	headings := cmd.UsageTemplate()
	for _, t := range words.Help {
		if en := t.In(words.English); strings.HasSuffix(en, ":") || strings.HasSuffix(en, ".") {
			headings = strings.ReplaceAll(headings, en, t.In(lang))
		}
	}
	cmd.SetUsageTemplate(headings)
	for _, g := range cmd.Groups() {
		g.Title, _ = words.HelpParagraph(g.Title, lang)
	}
	for _, c := range cmd.Commands() {
		c.Short, _ = words.HelpParagraph(c.Short, lang)
	}
	cmd.Short, _ = words.HelpParagraph(cmd.Short, lang)
	paragraphs := strings.Split(cmd.Long, "\n\n")
	for i := range paragraphs {
		paragraphs[i], _ = words.HelpParagraph(paragraphs[i], lang)
	}
	cmd.Long = strings.Join(paragraphs, "\n\n")
	for _, flags := range []*pflag.FlagSet{cmd.LocalFlags(), cmd.InheritedFlags()} {
		flags.VisitAll(func(f *pflag.Flag) { f.Usage, _ = words.Flag(f.Usage, lang) })
	}
}

// DescribeCompletions has the answer to a shell that completes a line describe commands and flags in the language of
// the environment. The shell reads the answer, and a person reads the descriptions.
func DescribeCompletions(root *cobra.Command, args []string) {
	lang := words.OfLocale(config.Locale())
	if len(args) == 0 || args[0] != cobra.ShellCompRequestCmd || lang == words.English {
		return
	}
	var describe func(cmd *cobra.Command)
	describe = func(cmd *cobra.Command) {
		cmd.Short, _ = words.HelpParagraph(cmd.Short, lang)
		cmd.InitDefaultHelpFlag()
		for _, flags := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
			flags.VisitAll(func(f *pflag.Flag) { f.Usage, _ = words.Flag(f.Usage, lang) })
		}
		for _, c := range cmd.Commands() {
			describe(c)
		}
	}
	describe(root)
}

// forPerson is a stream whose text a person reads in the end, on a terminal.
type forPerson struct{ io.Writer }

// Lang returns the language of what a command writes to a stream: that of --lang, else on a terminal that of the
// environment. A stream that is no terminal is English, because a program reads it.
func Lang(cmd *cobra.Command, stream any) words.Lang {
	if f := cmd.Root().PersistentFlags().Lookup("lang"); f != nil && f.Changed {
		if chosen, ok := f.Value.(*languageFlag); ok {
			return chosen.Lang
		}
	}
	if _, read := stream.(forPerson); !read && !IsTerminal(stream) {
		return words.English
	}
	return words.OfLocale(config.Locale())
}

// Told is what a command says on a stream, in its language.
func Told(cmd *cobra.Command, stream any, text string) string {
	return words.Message(text, Lang(cmd, stream))
}
