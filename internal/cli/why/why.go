// Package why has the command that says what is wrong, since when, and what to do.
package why

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	v1 "drover/api/v1"
	"drover/client"
	pages "drover/docs/why"
	zhpages "drover/docs/zh/why"
	"drover/internal/cli/events"
	"drover/internal/cli/list"
	"drover/internal/cli/remote"
	"drover/internal/cli/selection"
	"drover/internal/cli/term"
	"drover/internal/command"
	"drover/internal/process"
	"drover/internal/spelling"
	"drover/internal/wildcard"
	"drover/internal/words"
)

// NewWhy returns 'drover why'.
func NewWhy() *cobra.Command {
	var s remote.Session
	var f client.WhyFilter
	var sel remote.Choice
	var page string
	cmd := &cobra.Command{
		Use:  "why [NAMESPACE/NAME]",
		Args: term.Args,
		RunE: func(cmd *cobra.Command, args []string) error {
			if page != "" {
				return showPage(cmd, &s, &sel, args, page)
			}
			c, err := sel.Connect(cmd, &s)
			if err != nil {
				return err
			}
			if len(args) > 0 {
				if f.Namespace, f.Name, err = term.SplitID(args[0]); err != nil {
					return selection.SuggestNamespace(cmd.Context(), c, args[0], err)
				}
				f.All = true
			}
			f.Hosts, f.Selector, f.ProcessChoice = sel.Names, sel.Selector, sel.ProcessChoice
			answer, err := c.Why(cmd.Context(), f)
			if err != nil {
				return remote.ExitOf(err)
			}
			if err := whyNothing(cmd.Context(), c, args, &sel, &answer); err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			if s.Form != term.AsText {
				err = term.PrintValue(w, s.Form, answer)
			} else {
				r := newWhyPrinter(&s, w, answer, len(args) > 0)
				err = r.write(cmd.Context(), c)
				r.summarise(cmd, args, f)
				list.SayBreakers(cmd, &s, c, unexplained(f, answer.Findings))
				sayRollouts(cmd, &s, c, f)
			}
			if err != nil {
				return err
			}
			return s.UnlessOld(command.Wrong, verdictOnWhy(answer))
		},
		ValidArgsFunction: remote.First(selection.CompleteProcesses(&s)),
	}
	flags := cmd.Flags()
	sel.QueryFlags(cmd, &s, "only on these hosts")
	flags.StringSliceVar(&f.Causes, "cause", nil, "only findings with these causes, such as exit-status")
	flags.BoolVar(&f.All, "all", false,
		"also list processes that are as they should be, if there is something to explain")
	flags.IntVar(&f.Limit, "limit", 0, "list at most this number of findings, worst first; 0 is 1000")
	flags.StringVar(&page, "page", "", "show the page about this cause instead")
	term.Complete(cmd, "cause", pages.List()...)
	term.Complete(cmd, "page", pages.List()...)
	s.Flags(cmd, term.AsText, term.AsJSON, term.AsYAML)
	term.Paged(cmd, func() bool { return page != "" })
	remote.Watch(&s, cmd)
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(*cobra.Command, []string) error { return checkWhy(&f) })
	return cmd
}

// whyNothing returns an error for an answer about no process, if the command has chosen processes or hosts.
func whyNothing(ctx context.Context, c *client.Client, args []string, sel *remote.Choice, answer *v1.Why) error {
	if answer.Total > 0 || len(answer.Findings) > 0 {
		return nil
	}
	return sel.NoMatch(ctx, c, args)
}

// checkWhy returns an error about a wrong --limit, and about the values of --cause that are not causes.
func checkWhy(f *client.WhyFilter) error {
	var faults []error
	if f.Limit < 0 || f.Limit > MaxFindings {
		faults = append(faults, term.Usagef("--limit %d: expected 0 to %d", f.Limit, MaxFindings))
	}
	for _, id := range f.Causes {
		if _, ok := pages.Page(id); !ok {
			faults = append(faults, term.Usagef("--cause %q: there is no such cause%s", id, nearCause(id)))
		}
	}
	return errors.Join(faults...)
}

// unexplained returns whether a question is about the process of a breaker, and no finding has that breaker as a cause.
func unexplained(f client.WhyFilter, findings []v1.Finding) func(*v1.Breaker) bool {
	isBreaker := func(c v1.Cause) bool { return c.ID == string(process.CauseBreakerOpen) }
	return func(b *v1.Breaker) bool {
		return (f.Namespace == "" || wildcard.Match(f.Namespace, b.Namespace)) &&
			(f.Name == "" || wildcard.Match(f.Name, b.Name)) &&
			!slices.ContainsFunc(findings, func(f v1.Finding) bool {
				return f.Namespace == b.Namespace && f.Name == b.Name &&
					(isBreaker(f.Cause) || slices.ContainsFunc(f.Further, isBreaker))
			})
	}
}

// sayRollouts tells the rollouts that wait for a person, over processes and hosts that a question is about. No process
// shows them.
func sayRollouts(cmd *cobra.Command, s *remote.Session, c *client.Client, f client.WhyFilter) {
	for r, err := range remote.StoppedRollouts(cmd.Context(), c, f.Hosts, f.Selector) {
		if err != nil {
			return // the answer of the command is complete without them
		}
		about := slices.ContainsFunc(r.Processes, func(id string) bool {
			namespace, name, _ := strings.Cut(id, "/")
			return (f.Namespace == "" || wildcard.Match(f.Namespace, namespace)) &&
				(f.Name == "" || wildcard.Match(f.Name, name))
		})
		if !about {
			continue
		}
		text, command := remote.StoppedText(&r)
		term.Say(cmd, "%s; what to do: %s\n", text, s.AgainIn(command))
	}
}

// MaxFindings is the server's largest number of findings.
const MaxFindings = 1000

// showPage prints the page about a cause, in the words of a process if the arguments name one.
func showPage(cmd *cobra.Command, s *remote.Session, choice *remote.Choice, args []string, id string) error {
	if len(args) == 0 {
		return writePage(cmd, id, func(page string) string { return page })
	}
	c, err := choice.Connect(cmd, s)
	if err != nil {
		return err
	}
	fill, err := wordsOf(cmd.Context(), c, args, choice)
	if err != nil {
		return err
	}
	return writePage(cmd, id, fill)
}

// wordsOf returns a function that puts the name, the account, the directory and the command of a process into the
// commands of a page. Its spec is that of the first of its hosts.
func wordsOf(ctx context.Context, c *client.Client, args []string, choice *remote.Choice) (func(string) string, error) {
	sel := selection.Selection{Choice: *choice}
	found, err := sel.Choose(ctx, c, args, true)
	if err != nil {
		return nil, err
	}
	p := found[0]
	of := map[string]string{"NAMESPACE/NAME": term.ShellWord(p.Namespace + "/" + p.Name)}
	if spec := p.Spec; spec != nil {
		of["USER"], of["DIRECTORY"] = spec.User, cmp.Or(spec.Directory, "/")
		of["START_COMMAND"] = cmp.Or(spec.Run, spec.Start)
	}
	return func(page string) string {
		return pageWords.ReplaceAllStringFunc(page, func(word string) string {
			value := of[word]
			// In a command within quotes, a value with quotes would be another command.
			if value == "" || strings.ContainsAny(value, "'\n`") && word != "NAMESPACE/NAME" {
				return word
			}
			return term.Printable(value)
		})
	}, nil
}

// pageWords matches the words of pages that stand for those of a process.
var pageWords = regexp.MustCompile(`\bNAMESPACE/NAME\b|\b(?:USER|DIRECTORY|START_COMMAND)\b`)

// writePage prints the page about a cause, with the words of a process filled in.
func writePage(cmd *cobra.Command, id string, fill func(page string) string) error {
	text, ok := pages.Page(id)
	if !ok {
		return term.NoSuchf("there is no cause %q%s", id, nearCause(id))
	}
	w := cmd.OutOrStdout()
	if term.Lang(cmd, w) == words.Chinese {
		text = zhpages.Page(id)
	}
	_, err := io.WriteString(w, fill(text))
	return err
}

// nearCause suggests causes with a similar spelling.
func nearCause(id string) string {
	if near := spelling.Nearest(id, pages.List()); len(near) > 0 {
		return "; did you mean " + process.OrList(near) + "?"
	}
	return ""
}

// verdictOnWhy is the exit code of an answer, as an error.
func verdictOnWhy(answer v1.Why) error {
	missing := len(answer.Findings) > 0 && answer.Total == 0
	for _, f := range answer.Findings {
		missing = missing && (f.Cause.ID == "process-unknown" || f.Cause.ID == "agent-unknown")
	}
	switch {
	case missing:
		return &command.ExitError{Code: command.NoSuch}
	case answer.Wrong > 0:
		return &command.ExitError{Code: command.Wrong}
	}
	return nil
}

// summarise prints the number of problems, and of findings that are not shown.
func (p *whyPrinter) summarise(cmd *cobra.Command, args []string, f client.WhyFilter) {
	answer, found := p.answer, 0
	var parts []string
	for _, c := range answer.Causes {
		found += c.Count
		parts = append(parts, fmt.Sprintf("%d %s", c.Count, c.ID))
	}
	switch {
	case answer.Wrong == 0 && p.session.Notice != "": // the server's notice says that it does not know
	case answer.Wrong == 0 && len(f.Causes) > 0:
		term.Say(cmd, "no finding has one of these causes (%s)\n", process.Count(answer.Total, "process", "processes"))
	case answer.Wrong == 0 && len(args) > 0:
		term.Say(cmd, "%s: nothing is wrong (%s)\n", args[0], process.Count(answer.Total, "process", "processes"))
	case answer.Wrong == 0 && answer.Total == 0:
		term.Say(cmd, "there are no processes\n")
	case answer.Wrong == 0:
		term.Say(cmd, "nothing is wrong (%s)\n", process.Count(answer.Total, "process", "processes"))
	case len(args) == 0:
		term.Say(cmd, "%d of %s are not as they should be: %s\n", answer.Wrong,
			process.Count(answer.Total, "process", "processes"), strings.Join(parts, ", "))
	}
	if more := found - len(answer.Findings); more > 0 {
		term.Say(cmd, "%d more findings are not shown: choose with NAMESPACE/NAME, --hosts or --cause\n", more)
	}
}

// whyPrinter prints an answer for people.
type whyPrinter struct {
	session  *remote.Session
	out      io.Writer
	lang     words.Lang
	coloured bool
	answer   v1.Why
	// fully says that the command asks about one process: then it prints the last events and the remedy too.
	fully bool
}

func newWhyPrinter(s *remote.Session, w io.Writer, answer v1.Why, fully bool) whyPrinter {
	return whyPrinter{session: s, out: w, lang: s.Lang(w), coloured: s.Coloured(w), answer: answer, fully: fully}
}

func (p *whyPrinter) write(ctx context.Context, c *client.Client) error {
	var b strings.Builder
	for i, g := range foldFindings(p.answer.Findings) {
		if i > 0 {
			b.WriteByte('\n')
		}
		p.finding(&b, g)
		if p.fully {
			if err := p.history(ctx, c, &b, g[0]); err != nil {
				return err
			}
			p.remedy(&b, g[0])
		}
		if _, err := io.WriteString(p.out, b.String()); err != nil {
			return err
		}
		b.Reset()
	}
	return nil
}

// foldFindings groups the findings of one process with the same cause on many hosts, and of many processes on a host
// that is away.
func foldFindings(all []v1.Finding) [][]v1.Finding {
	type key struct{ namespace, name, host, cause string }
	place := map[key]int{}
	var groups [][]v1.Finding
	for _, f := range all {
		k := key{f.Namespace, f.Name, "", f.Cause.ID}
		if f.Cause.ID == "agent-away" || f.Cause.ID == "agent-unknown" {
			k = key{"", "", f.Host.ID, f.Cause.ID}
		}
		i, ok := place[k]
		if !ok {
			i = len(groups)
			place[k] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], f)
	}
	return groups
}

// shownOfGroup is how many findings of a group are printed one by one.
const shownOfGroup = 5

// finding writes the line with the cause, and its evidence.
func (p *whyPrinter) finding(b *strings.Builder, g []v1.Finding) {
	first := g[0]
	if len(g) == 1 {
		b.WriteString(words.Explained.On.In(p.lang, "process", subjectOf(first), "host", term.Printable(first.Host.ID),
			"text", heading(first.Cause, p.lang)+" ["+first.Cause.ID+"]") + "\n")
		fmt.Fprintf(b, "  %s\n", p.state(first))
		p.evidence(b, "  ", evidenceOf(first.Cause))
		for _, c := range first.Further {
			p.also(b, "  ", c)
			p.evidence(b, "    ", evidenceOf(c))
		}
		return
	}
	title := first.Cause.ID
	if c, ok := p.about(first.Cause.ID); ok {
		title = strings.ToLower(c.Title[:1]) + c.Title[1:]
	}
	if known := words.CauseOf(first.Cause.ID); p.lang != words.English && known != (words.Cause{}) {
		title = known.Title.In(p.lang)
	}
	sameHost := first.Host.ID == g[1].Host.ID
	heading := words.Explained.ManyHosts
	if sameHost {
		heading = words.Explained.ManyProcesses
	}
	b.WriteString(heading.In(p.lang, "process", subjectOf(first), "host", term.Printable(first.Host.ID), "n", len(g),
		"title", title, "id", first.Cause.ID) + "\n")
	for _, f := range g[:min(len(g), shownOfGroup)] {
		which := f.Host.ID
		if sameHost {
			which = f.Namespace + "/" + f.Name
		}
		fmt.Fprintf(b, "  %s: %s\n    %s\n", term.Printable(which), list.CauseText(f.Cause, p.lang), p.state(f))
		for _, c := range f.Further {
			p.also(b, "    ", c)
		}
	}
	if more := len(g) - shownOfGroup; more > 0 {
		b.WriteString("  " + words.Explained.More.In(p.lang, "n", more) + "\n")
	}
}

// subjectOf names the process of a finding.
func subjectOf(f v1.Finding) string {
	return term.Printable(f.Namespace) + "/" + term.Printable(f.Name)
}

// heading is causeText without the output of a program, which evidenceOf has.
func heading(c v1.Cause, lang words.Lang) string {
	c.Text, _ = words.Apart(c.Text)
	return list.CauseText(c, lang)
}

// evidenceOf is the evidence of a cause, and the output of a program that its sentence contains, once.
func evidenceOf(c v1.Cause) []string {
	_, output := words.Apart(c.Text)
	end := output[strings.LastIndexByte(output, '\n')+1:]
	if end == "" || slices.ContainsFunc(c.Evidence, func(e string) bool { return strings.Contains(e, end) }) {
		return c.Evidence
	}
	return append([]string{"it wrote:\n" + output}, c.Evidence...)
}

// also writes a further cause.
func (p *whyPrinter) also(b *strings.Builder, indent string, c v1.Cause) {
	text := words.Explained.Also.In(p.lang, "lasting", list.Lasting(c, p.lang), "id", c.ID, "text", heading(c, p.lang))
	b.WriteString(indent + text + "\n")
}

// state says how severe a finding is, since when, and what it means.
func (p *whyPrinter) state(f v1.Finding) string {
	text := words.Named(f.Severity, p.lang)
	if !f.Wrong && f.Cause.ID == string(process.CauseNotInForce) {
		text = words.Named(f.Severity, p.lang) // the process runs, but not by all of its spec
	} else if !f.Wrong {
		text = words.Explained.Right.In(p.lang)
	} else if p.coloured {
		text = term.PaintAs(f.Severity, text)
	}
	impact, _ := words.Sentence(f.Impact, p.lang)
	return words.Explained.State.In(p.lang, "severity", text, "lasting", list.Lasting(f.Cause, p.lang),
		"impact", term.Printable(term.Local(impact)))
}

// evidence writes each piece of evidence; a piece with many lines becomes a block.
func (p *whyPrinter) evidence(b *strings.Builder, indent string, evidence []string) {
	for _, e := range evidence {
		e, _ = words.Sentence(strings.TrimRight(e, "\n"), p.lang)
		for i, line := range strings.Split(strings.TrimRight(e, "\n"), "\n") {
			deeper := ""
			if i > 0 {
				deeper = "  "
			}
			fmt.Fprintf(b, "%s%s%s\n", indent, deeper, term.Printable(line))
		}
	}
}

// pastEvents is how many of the last events are printed.
const pastEvents = 5

// history writes the last events of a process.
func (p *whyPrinter) history(ctx context.Context, c *client.Client, b *strings.Builder, f v1.Finding) error {
	past, err := client.Collect(c.Events(ctx, client.EventFilter{
		Namespaces: []string{f.Namespace}, Name: f.Name, Hosts: []string{f.Host.ID}, Limit: pastEvents,
	}))
	if err != nil {
		return remote.ExitOf(err)
	}
	if len(past) == 0 {
		return nil
	}
	b.WriteString(words.Explained.Events.In(p.lang) + "\n")
	t := term.Table{}
	for _, e := range past {
		t.Add("  "+term.Stamp(&e.At), e.Kind, events.EventStates(e), events.EventActor(e), term.Local(words.Line(events.EventCause(e), p.lang)))
	}
	return t.Write(b)
}

// remedy writes what to do about a cause, and where to read more.
func (p *whyPrinter) remedy(b *strings.Builder, f v1.Finding) {
	c, ok := p.about(f.Cause.ID)
	if !ok {
		return
	}
	remedy := words.Remedy(f.Cause.ID, f.Cause.Text, c.Remedy, p.lang)
	text := namedCommand.ReplaceAllStringFunc(remedy, func(line string) string {
		return "`" + p.complete(strings.TrimPrefix(strings.Trim(line, "`"), "drover "), f) + "`"
	})
	text = strings.ReplaceAll(text, "`", "'")
	b.WriteString(words.Explained.Remedy.In(p.lang, "remedy", text) + "\n" +
		words.Explained.Page.In(p.lang, "command", p.session.Again("why %s --page %s",
			term.ShellWord(f.Namespace+"/"+f.Name), f.Cause.ID)) + "\n")
}

// namedCommand matches a command of drover in a remedy, taskID a task in a finding.
var (
	namedCommand = regexp.MustCompile("`drover [a-zA-Z ]+(?: --with-after| --take-over)?`")
	taskID       = regexp.MustCompile(`\b(op-[a-z0-9]{12}|GSETASK:\S+)\b`)
)

// complete makes a full command line for a finding from a command that a remedy names.
func (p *whyPrinter) complete(verb string, f v1.Finding) string {
	switch verb {
	case "task watch", "task get":
		if id := taskID.FindString(f.Cause.Text + " " + strings.Join(f.Cause.Evidence, " ")); id != "" {
			return p.session.Again("%s %s", verb, id)
		}
		return p.session.Again("task list")
	case "breaker reset": // it is about all hosts
		return p.session.Again("%s %s", verb, term.ShellWord(f.Namespace+"/"+f.Name))
	default:
		return p.session.Again("%s %s --hosts %s", verb, term.ShellWord(f.Namespace+"/"+f.Name),
			term.ShellWord(f.Host.ID))
	}
}

func (p *whyPrinter) about(id string) (v1.CauseCount, bool) {
	for _, c := range p.answer.Causes {
		if c.ID == id && c.Title != "" {
			return c, true
		}
	}
	return v1.CauseCount{}, false
}
