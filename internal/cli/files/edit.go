package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/cli/operations"
	"drover/internal/cli/remote"
	"drover/internal/cli/selection"
	"drover/internal/cli/term"
	"drover/internal/command"
	"drover/internal/config"
	"drover/internal/process"
	"drover/internal/processfile"
)

// editCommand is an edit from the stored spec to the apply.
type editCommand struct{ applyCommand }

// NewEdit returns 'drover edit'.
func NewEdit() *cobra.Command {
	var a editCommand
	cmd := &cobra.Command{
		Use:  "edit NAMESPACE/NAME",
		Args: term.Args,
		RunE: func(cmd *cobra.Command, args []string) error { return a.run(cmd, args[0]) },
	}
	cmd.ValidArgsFunction = selection.CompleteProcesses(&a.Session)
	f := cmd.Flags()
	f.BoolVarP(&a.Yes, "yes", "y", false, "do not ask for confirmation")
	f.BoolVar(&a.noRestart, "no-restart", false, "leave a running process running: changes wait for the next start")
	a.messageFlag(cmd)
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(_ *cobra.Command, args []string) error {
		return selection.OnlyOne(args)
	})
	a.WaitingFlags(cmd, term.AsTable, term.AsJSON)
	return cmd
}

func (a *editCommand) run(cmd *cobra.Command, arg string) error {
	namespace, name, err := term.SplitID(arg)
	if err != nil {
		return err
	}
	c, err := a.Client(cmd)
	if err != nil {
		return err
	}
	before, err := a.stored(cmd, c, namespace, name)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "drover-edit-") // 0700
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "process.yaml")
	text, err := a.change(cmd, c, arg, file, before)
	if err != nil && len(text) > 0 && !bytes.Equal(text, before) && os.WriteFile(file, text, 0o600) == nil {
		term.Say(cmd, "your text is in %s\n", file)
		return err
	}
	_ = os.RemoveAll(dir) // the system clears its directory of temporary files
	return err
}

// change lets the person change a text and applies it, until the file is right or the person gives up. It returns the
// last text of the person.
func (a *editCommand) change(cmd *cobra.Command, c *client.Client, arg, file string, before []byte) (
	text []byte, err error,
) {
	shown, last := before, error(nil)
	for {
		text, err = a.open(cmd, file, shown)
		switch {
		case err != nil:
			return text, err
		case bytes.Equal(text, before):
			term.Say(cmd, "nothing to do\n")
			return text, nil
		case last != nil && bytes.Equal(text, withoutFaults(shown)): // the person has given up
			return text, last
		}
		if last = a.applyText(cmd, c, arg, text); last == nil {
			return text, nil
		}
		faults, wrong := errors.AsType[processfile.Faults](last)
		if !wrong {
			return text, last
		}
		shown = withFaults(text, faults, func(said string) string { return term.Told(cmd, cmd.OutOrStdout(), said) })
	}
}

// stored returns the file of a process, and remembers the state of its namespace.
func (a *editCommand) stored(cmd *cobra.Command, c *client.Client, namespace, name string) ([]byte, error) {
	all, tag, err := c.File(cmd.Context(), namespace)
	if refusal, ok := errors.AsType[*v1.Problem](err); err != nil && (!ok || refusal.Status != 404) {
		return nil, remote.ExitOf(err)
	}
	own := []processfile.Document{}
	for _, d := range processfile.Documents(all) {
		d.Processes, d.Revision = operations.Chosen(d.Processes, name), 0
		if len(d.Processes) > 0 {
			own = append(own, d)
		}
	}
	if len(own) == 0 {
		return nil, remote.NoProcess(cmd.Context(), c, []string{namespace + "/" + name}, "", nil)
	}
	a.tag, a.edits = tag, true
	return processfile.Write(own)
}

// open lets the person change a text, and returns the text also if the editor fails. The file is for its owner alone,
// because it may have secrets.
func (a *editCommand) open(cmd *cobra.Command, file string, text []byte) ([]byte, error) {
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	a.Bound(false) // --timeout must not limit the person
	defer a.Bound(true)
	editor := config.Editor()
	// As git does: the setting may have arguments.
	run := exec.CommandContext(cmd.Context(), "/bin/sh", "-c", editor+` "$1"`, editor, file)
	run.Stdin, run.Stdout, run.Stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	failed := run.Run()
	changed, err := os.ReadFile(file)
	if failed != nil {
		err = fmt.Errorf("nothing was done: the editor %s failed: %w", editor, failed)
	}
	return withoutFaults(changed), err
}

// applyText applies a changed file. The error is that of a wrong file if drover has done nothing because of it.
func (a *editCommand) applyText(cmd *cobra.Command, c *client.Client, arg string, text []byte) error {
	if len(bytes.TrimSpace(text)) == 0 {
		return &command.ExitError{Code: command.Failed, Err: errors.New("nothing was done: the file is empty")}
	}
	docs, err := processfile.Read("", text)
	faults, _ := errors.AsType[processfile.Faults](err)
	for _, d := range docs {
		for _, p := range d.Processes {
			base, _ := process.CutCopy(p.Name)
			if other := d.Namespace + "/" + p.Name; other != arg && d.Namespace+"/"+base != arg {
				faults = append(faults, processfile.Fault{
					Line: p.Line, Path: "processes." + p.Name,
					Text: fmt.Sprintf("is %s: expected %s alone", other, arg),
				})
			}
		}
	}
	if err == nil && !slices.ContainsFunc(docs, func(d processfile.Document) bool { return len(d.Processes) > 0 }) {
		faults = append(faults, processfile.Fault{Path: "processes", Text: "has no process: expected " + arg})
	}
	if len(faults) > 0 {
		return wrongFile(further(cmd.Context(), c, docs, faults))
	}
	return a.carry(cmd, c, docs)
}

// faultMark begins the lines that drover puts above a wrong file.
const faultMark = "#! "

// withFaults puts faults above a text, in the language of told. The lines of the faults count without them.
func withFaults(text []byte, faults processfile.Faults, told func(said string) string) []byte {
	var out bytes.Buffer
	out.WriteString(faultMark +
		told("drover has done nothing. Correct the file, or leave it as it is to give up.") + "\n")
	faults = slices.Clone(faults)
	above := len(faults) + 1
	for _, f := range faults {
		if f.Line > 0 {
			f.Line += above
		}
		out.WriteString(faultMark + told(strings.ReplaceAll(f.Error(), "\n", " ")) + "\n")
	}
	out.Write(text)
	return out.Bytes()
}

// withoutFaults removes the lines of withFaults.
func withoutFaults(text []byte) []byte {
	var out bytes.Buffer
	for line := range bytes.Lines(text) {
		if !bytes.HasPrefix(line, []byte(faultMark)) {
			out.Write(line)
		}
	}
	return out.Bytes()
}

// further adds to the faults of files those that the server finds in their outlines, if it answers.
func further(
	ctx context.Context, c *client.Client, outlines []processfile.Document, faults processfile.Faults,
) processfile.Faults {
	ctx, cancel := context.WithTimeout(ctx, operations.AskForFaults)
	defer cancel()
	return faults.Further(outlines, func(file v1.File, peers []string) []v1.FieldError {
		_, _, err := c.Plan(ctx, file, client.ApplyOptions{Peers: peers})
		return foundBy(err)
	})
}

// foundBy returns the faults that a server has found in a file.
func foundBy(err error) []v1.FieldError {
	refusal, ok := errors.AsType[*v1.Problem](err)
	if !ok || refusal.Status != http.StatusUnprocessableEntity {
		return nil
	}
	return refusal.Fields
}

// wrongFile is the error of faults in files; nil without faults.
func wrongFile(faults processfile.Faults) error {
	if len(faults) == 0 {
		return nil
	}
	return &command.ExitError{Code: command.Usage, Err: faults}
}
