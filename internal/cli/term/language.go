package term

import (
	"bytes"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"drover/internal/config"
	"drover/internal/words"
	"drover/internal/words/help"
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

// LanguageFlag adds --lang to a command and all commands below it, and gives them the help of package help when they
// show it.
func LanguageFlag(root *cobra.Command) {
	root.PersistentFlags().Var(&languageFlag{}, "lang",
		"language: en or zh; on a terminal the default is that of DROVER_LANG or the locale")
	Complete(root, "lang", "en", "zh")
	english := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		lang, out := Lang(cmd, cmd.OutOrStdout()), cmd.OutOrStdout()
		describeList(cmd, lang)
		if lang == words.English {
			english(cmd, args)
			return
		}
		translateCobra(cmd, lang)
		var said bytes.Buffer
		cmd.SetOut(&said)
		english(cmd, args)
		cmd.SetOut(out)
		cmd.Print(words.Defaults(said.String(), lang))
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

// describeList gives a command its help in a language, and the commands in the list of that help their lines.
func describeList(cmd *cobra.Command, lang words.Lang) {
	describe(cmd, lang)
	for _, c := range cmd.Commands() {
		describe(c, lang)
	}
}

// describe gives a command its help in a language. A command without texts, which package cobra adds, stays as it is.
func describe(cmd *cobra.Command, lang words.Lang) {
	texts, path := help.In(lang), cmd.CommandPath()
	fields := map[string]*string{help.Short: &cmd.Short, help.Long: &cmd.Long, help.Example: &cmd.Example}
	for kind, field := range fields {
		if text, ok := texts.Of(path, kind); ok {
			*field = text
		}
	}
	for _, g := range cmd.Groups() {
		g.Title, _ = texts.Of(path, help.Group+g.ID)
	}
}

// DescribeAll gives a command and all commands below it their help in a language. Without it the commands have their
// help only when they show it.
func DescribeAll(root *cobra.Command, lang words.Lang) {
	describe(root, lang)
	for _, c := range root.Commands() {
		DescribeAll(c, lang)
	}
}

// translateCobra puts what package cobra and the flags add to the help of a command into a language.
func translateCobra(cmd *cobra.Command, lang words.Lang) {
	cmd.SetUsageTemplate(help.In(lang).Headings(cmd.UsageTemplate()))
	for _, flags := range []*pflag.FlagSet{cmd.LocalFlags(), cmd.InheritedFlags()} {
		flags.VisitAll(func(f *pflag.Flag) { f.Usage, _ = words.Flag(f.Usage, lang) })
	}
}

// DescribeCompletions has the answer to a shell that completes a line describe commands and flags in the language of
// the environment. The shell reads the answer, and a person reads the descriptions.
func DescribeCompletions(root *cobra.Command, args []string) {
	if len(args) == 0 || args[0] != cobra.ShellCompRequestCmd {
		return
	}
	lang := words.OfLocale(config.Locale())
	DescribeAll(root, lang)
	if lang != words.English {
		translateFlags(root, lang)
	}
}

// translateFlags puts the flags of a command and of all commands below it into a language.
func translateFlags(cmd *cobra.Command, lang words.Lang) {
	cmd.InitDefaultHelpFlag()
	for _, flags := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
		flags.VisitAll(func(f *pflag.Flag) { f.Usage, _ = words.Flag(f.Usage, lang) })
	}
	for _, c := range cmd.Commands() {
		translateFlags(c, lang)
	}
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
