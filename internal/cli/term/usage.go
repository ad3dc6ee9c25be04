package term

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	xterm "golang.org/x/term"

	"drover/internal/command"
	"drover/internal/config"
	"drover/internal/process"
)

// Noun returns a command that only holds other commands.
func Noun(use string, verbs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Args: cobra.ArbitraryArgs, RunE: command.Subcommands,
		SuggestionsMinimumDistance: 2,
	}
	cmd.AddCommand(verbs...)
	return cmd
}

// Args checks the number of arguments by the usage line of the command: NAME is one argument, NAME|KEY too, [NAME] may
// be missing, and NAME... is one or more. Words from the first flag on do not count.
func Args(cmd *cobra.Command, given []string) error {
	usage, _, _ := strings.Cut(cmd.Use, " --")
	names := strings.Fields(usage)[1:]
	var faults []error
	needed := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return strings.HasPrefix(name, "[") })
	for _, name := range needed[min(len(given), len(needed)):] {
		name, _, _ = strings.Cut(name, "|")
		faults = append(faults, Usagef("%s: %s is missing", cmd.CommandPath(), strings.TrimSuffix(name, "...")))
	}
	if len(faults) > 0 {
		return errors.Join(faults...)
	}
	if n := len(names); len(given) > n && (n == 0 || !strings.Contains(names[n-1], "...")) {
		return Usagef("%s: unexpected argument %q", cmd.CommandPath(), given[n])
	}
	return nil
}

// Usagef is an error of wrong usage.
func Usagef(format string, args ...any) error {
	return &command.UsageError{Err: fmt.Errorf(format, args...)}
}

// NoSuchf is an error about a missing thing.
func NoSuchf(format string, args ...any) error {
	return &command.ExitError{Code: command.NoSuch, Err: fmt.Errorf(format, args...)}
}

// Say prints a message for the operator to stderr, in the operator's language.
func Say(cmd *cobra.Command, format string, args ...any) {
	w := cmd.ErrOrStderr()
	// If stderr is gone, nobody can read the message.
	_, _ = io.WriteString(w, Told(cmd, w, fmt.Sprintf(format, args...)))
}

// OneOf rejects a flag's value that is not in a list.
func OneOf(flag, value string, of ...string) error {
	if slices.Contains(of, value) {
		return nil
	}
	return Usagef("%s %q: expected %s", flag, value, process.OrList(of))
}

// Chain returns the two checks of a command as one, which tells the faults of both.
func Chain(first, second func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	if first == nil {
		return second
	}
	return func(cmd *cobra.Command, args []string) error {
		return errors.Join(first(cmd, args), second(cmd, args))
	}
}

// TellAll has each command of a command line tell all faults at once: those of its arguments, of the values of its
// flags and of its own checks. Beside such faults it tells malformed names of processes. A command whose only faults
// are such names tells them itself, because a server may know what a person means.
func TellAll(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		TellAll(cmd)
	}
	count, check := root.Args, root.PreRunE
	KeepFaults(root)
	root.Args = cobra.ArbitraryArgs
	root.PreRunE = func(cmd *cobra.Command, args []string) error {
		defer release(cmd)
		faults := []error{KeptFaults(cmd), Filled(cmd)}
		if count != nil {
			faults = append(faults, count(cmd, args))
		}
		if check != nil {
			faults = append(faults, check(cmd, args))
		}
		if errors.Join(faults...) == nil {
			return nil
		}
		return errors.Join(append(faults, malformed(cmd, args))...)
	}
}

// keptFault is a flag whose value is read later than the command line: a value that it refuses hides no other fault.
type keptFault struct {
	pflag.Value
	flag  *pflag.Flag
	fault error
}

// Set implements pflag.Value.
func (k *keptFault) Set(text string) error {
	if err := k.Value.Set(text); err != nil {
		k.fault = &command.UsageError{Err: command.WrongValue(k.flag, text, err)}
	}
	return nil
}

// KeepFaults has the flags of a command keep the fault of a value that is not a number, a length of time, or true or
// false, until KeptFaults tells it.
func KeepFaults(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		kind := strings.TrimRight(f.Value.Type(), "12468")
		if slices.Contains([]string{"bool", "int", "uint", "float", "duration"}, kind) {
			f.Value = &keptFault{Value: f.Value, flag: f}
			if f.DefValue == "0s" { // the help shows no default of 0
				f.DefValue = "0"
			}
		}
	})
}

// KeptFaults returns the faults that the flags of a command keep.
func KeptFaults(cmd *cobra.Command) error {
	var faults []error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if kept, ok := f.Value.(*keptFault); ok {
			faults = append(faults, kept.fault)
		}
	})
	return errors.Join(faults...)
}

// Given reports whether a flag is given with a value that it could read.
func Given(cmd *cobra.Command, name string) bool {
	kept, ok := cmd.Flags().Lookup(name).Value.(*keptFault)
	return cmd.Flags().Changed(name) && (!ok || kept.fault == nil)
}

// release ends the keeping: what sets a flag later gets the fault of its value.
func release(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if kept, ok := f.Value.(*keptFault); ok {
			f.Value = kept.Value
		}
	})
}

// malformed returns an error about the arguments that the usage line calls NAMESPACE/NAME, and that are none.
func malformed(cmd *cobra.Command, args []string) error {
	usage, _, _ := strings.Cut(cmd.Use, " --")
	places := strings.Fields(usage)[1:]
	var faults []error
	for i, arg := range args {
		last := len(places) - 1
		if i > last && (last < 0 || !strings.Contains(places[last], "...")) {
			break
		}
		if strings.Trim(places[min(i, last)], "[].") == "NAMESPACE/NAME" {
			_, _, err := SplitID(arg)
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}

// SplitID splits NAMESPACE/NAME.
func SplitID(arg string) (namespace, name string, err error) {
	namespace, name, found := strings.Cut(arg, "/")
	if !found || namespace == "" || name == "" {
		if strings.Contains(arg, ",") {
			return "", "", Usagef("%q is not a process: expected NAMESPACE/NAME; spaces separate several", arg)
		}
		return "", "", Usagef("%q is not a process: expected NAMESPACE/NAME", arg)
	}
	return namespace, name, nil
}

// SplitIDs returns an error about each argument that is not NAMESPACE/NAME.
func SplitIDs(args []string) error {
	var faults []error
	for _, arg := range args {
		_, _, err := SplitID(arg)
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// Filled rejects flags that are given an empty value, as a script does with an empty variable: to take it for none
// would choose everything. Flags that only describe something may be empty, and so may those of a change.
func Filled(cmd *cobra.Command) error {
	if cmd.Name() == "change" {
		return nil
	}
	var needed, empty []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		list, isList := f.Value.(pflag.SliceValue)
		switch {
		case slices.Contains([]string{"message", "note", "id"}, f.Name):
		case f.Name == "selector" || f.Name == "process-label": // their faults have a place
		case isList && (len(list.GetSlice()) == 0 || slices.Contains(list.GetSlice(), "")),
			f.Value.Type() == "string" && f.Value.String() == "":
			if strings.Contains(cmd.Use, "--"+f.Name+" ") { // the command needs it
				needed = append(needed, f.Name)
			} else {
				empty = append(empty, f.Name)
			}
		}
	})
	return errors.Join(emptyNeeded(needed), emptyFlags(empty))
}

func emptyNeeded(names []string) error {
	switch len(names) {
	case 0:
		return nil
	case 1:
		return Usagef("--%s is empty: give a value", names[0])
	}
	return Usagef("--%s are empty: give values", strings.Join(names, ", --"))
}

func emptyFlags(names []string) error {
	switch len(names) {
	case 0:
		return nil
	case 1:
		return Usagef("--%s is empty: give a value, or leave the flag out", names[0])
	}
	return Usagef("--%s are empty: give values, or leave the flags out", strings.Join(names, ", --"))
}

// Complete offers fixed values for a flag.
func Complete(cmd *cobra.Command, flag string, values ...string) {
	// It fails only for a missing flag, which the completion test would find.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// TypeAbove is the number of processes or changes above which a person types the number to confirm.
const TypeAbove = 20

// IsTerminal reports whether a stream of a command is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && xterm.IsTerminal(int(f.Fd()))
}

// Rewritable reports whether a line on the stream can be written over.
func Rewritable(w io.Writer) bool {
	_, dumb := config.PlainTerminal()
	return !dumb && IsTerminal(w)
}
