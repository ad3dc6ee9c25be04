package receiver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"text/template"
	syntax "text/template/parse"
	"time"
	"unicode"

	"drover/internal/clip"
	"drover/internal/process"
	"drover/internal/server/alarm"
	"drover/internal/server/store"
)

// Letter is what templates see.
type Letter struct {
	// Count is the number of alarms, and Alarms are the entries that stand for them.
	Count  int
	Alarms []Entry
	// Subject and Text are drover's own words about the alarms, without control characters except line breaks.
	Subject, Text string
}

// Entry is one entry of a letter. Its JSON form is that of the template function json.
type Entry struct {
	Kind     string `json:"kind"`
	Severity string `json:"severity"`
	// Process and Host are empty in an entry of many processes, and Namespace and Process in one of hosts.
	Namespace string    `json:"namespace"`
	Process   string    `json:"process,omitempty"`
	Host      string    `json:"host,omitempty"`
	At        time.Time `json:"at"`
	// Text is for people; Cause is the id of the cause, if it is known.
	Text  string `json:"text"`
	Cause string `json:"cause,omitempty"`
	// Count is how many alarms the entry stands for.
	Count int `json:"count"`
}

// The default templates.
const (
	defaultSubject = `{{with index .Alarms 0}}[drover {{.Severity}}] ` +
		`{{if .Namespace}}{{.Namespace}}/{{.Process}} {{else}}{{with .Host}}{{.}} {{end}}{{end}}{{.Kind}}{{end}}` +
		`{{if gt (len .Alarms) 1}} and {{len (slice .Alarms 1)}} more{{end}}`
	defaultBody = `{{range .Alarms}}{{.At.Format "2006-01-02T15:04:05Z07:00"}} {{.Severity}} {{.Kind}}` +
		`{{if .Namespace}} {{.Namespace}}/{{.Process}}{{end}}{{with .Host}} on {{.}}{{end}}` +
		`{{if gt .Count 1}} ({{.Count}} times){{end}}
  {{.Text}}{{with .Cause}} [{{.}}]{{end}}
{{end}}`
)

// The limits of templates and of what they make, in bytes.
const (
	maxTemplate = 10_000
	maxSubject  = 200
	maxBody     = 256 << 10
)

// CheckTemplates calls fault for each field of a receiver with a template that cannot be used, with the reason. It
// fills the templates with a sample.
func CheckTemplates(to *store.Receiver, fault func(field string, err error)) {
	if to.Subject != "" && to.Kind != store.KindEmail {
		fault("subject", fmt.Errorf("is for receivers of the kind %s: this is a receiver of the kind %s", store.KindEmail,
			to.Kind))
	} else if err := checkTemplate(to.Subject, false); err != nil {
		fault("subject", err)
	}
	if to.Body != "" && to.Kind == store.KindAlertmanager {
		fault("body", fmt.Errorf("is for receivers of the kinds %s and %s: an %s has a form of its own",
			store.KindWebhook, store.KindEmail, store.KindAlertmanager))
	} else if err := checkTemplate(to.Body, to.Kind == store.KindWebhook); err != nil {
		fault("body", err)
	}
}

func checkTemplate(text string, asJSON bool) error {
	if len(text) > maxTemplate {
		return fmt.Errorf("is %d bytes long: expected at most %d", len(text), maxTemplate)
	}
	if text == "" {
		return nil
	}
	// The quotes and the line break find a text that is put into JSON as it is.
	sample := Letter{
		Count: 2, Subject: `the "subject"`, Text: "the \"text\"\n",
		Alarms: []Entry{
			{
				Kind: string(process.EventGivenUp), Severity: "critical", Namespace: `"shop"`, Process: `"cart"`,
				Host: "10.0.0.1", At: time.Unix(0, 0).UTC(), Text: "a \"text\"\nof two lines", Cause: "exited",
				Count: 1,
			},
			{Kind: string(process.EventFlapping), Severity: "warning", Namespace: `"shop"`, Count: 1},
		},
	}
	if asJSON {
		_, err := fillJSON(text, sample)
		return err
	}
	_, err := fill(text, sample, maxBody)
	return err
}

// letterOf makes the letter of folded alarms.
func letterOf(alarms []alarm.Alarm) (letter Letter, err error) {
	for i := range alarms {
		a := &alarms[i]
		n := max(a.Count, 1)
		letter.Count += n
		letter.Alarms = append(letter.Alarms, Entry{
			Kind: string(a.Kind), Severity: string(alarm.SeverityOf(a.Kind)), Namespace: a.Dimension.Group,
			Process: a.Dimension.Name, Host: a.Host, At: time.UnixMilli(a.Timestamp).UTC(), Text: a.Event.Content,
			Cause: string(a.Event.Cause), Count: n,
		})
	}
	if letter.Subject, err = fill(defaultSubject, letter, 2*maxBody); err == nil {
		letter.Text, err = fill(defaultBody, letter, 2*maxBody)
	}
	letter.Text = clip.Marked(letter.Text, maxBody/4, " …")
	return letter, err
}

// composeJSON makes the body of a webhook by its template. An error is for the operator, who has to mend the template.
func composeJSON(to *store.Receiver, alarms []alarm.Alarm) (*message, error) {
	letter, err := letterOf(alarms)
	if err != nil {
		return nil, err
	}
	body, err := fillJSON(to.Body, letter)
	if err != nil {
		return nil, &templateError{err}
	}
	return &message{body: []byte(body)}, nil
}

// templateError says that the template of a receiver fails for the present alarms.
type templateError struct{ err error }

func (e *templateError) Error() string { return "the template of the body " + e.err.Error() }
func (e *templateError) Unwrap() error { return e.err }

// fillJSON executes a template that makes JSON.
func fillJSON(text string, letter Letter) (string, error) {
	body, err := fill(text, letter, maxBody)
	if err != nil {
		return "", err
	}
	var any json.RawMessage
	if err := json.Unmarshal([]byte(body), &any); err != nil {
		return "", fmt.Errorf(`does not make JSON: %w; put a text in as {{json .Text}}, without quotes`, err)
	}
	return body, nil
}

// functions are what a template may call besides the functions of the language.
func functions() template.FuncMap {
	return template.FuncMap{
		"json": func(v any) (string, error) {
			data, err := json.Marshal(v)
			return string(data), err
		},
		"clip": func(most int, text string) string {
			const mark = " …"
			if len(text) <= most {
				return text
			}
			return clip.Head(text, max(most-len(mark), 0)) + mark
		},
	}
}

// bounded is a buffer that takes a limited number of bytes.
type bounded struct {
	bytes.Buffer
	left int
}

var errTooLong = errors.New("the text is too long")

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errTooLong
	}
	return b.Buffer.Write(p)
}

// fill executes a template. The result has no control characters except line breaks and tabs.
func fill(text string, letter Letter, most int) (string, error) {
	t, err := template.New("template").Funcs(functions()).Option("missingkey=error").Parse(text)
	if err != nil {
		return "", fmt.Errorf("is not a template: %w", err)
	}
	if err := checkNodes(t); err != nil {
		return "", err
	}
	out := &bounded{left: most}
	if err := t.Execute(out, letter); err != nil {
		return "", fmt.Errorf("cannot fill the template: %w", err)
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(out.String(), "?")), nil
}

// wide matches a format with a width of its own, which may be of any length.
var wide = regexp.MustCompile(`%[-+# 0]*(\*|\d{3,})|%[^a-zA-Z%]*\.(\*|\d{3,})`)

// checkNodes rejects what makes the work or the memory of a template unbounded: a loop over anything but the alarms,
// another loop inside that loop, an assignment, a template that calls a template, and a format with a large width.
func checkNodes(t *template.Template) error {
	if len(t.Templates()) > 1 {
		return errors.New("defines a template: expected one text")
	}
	return checkList(t.Root, false)
}

func checkList(list *syntax.ListNode, looping bool) error {
	if list == nil {
		return nil
	}
	for _, n := range list.Nodes {
		if err := checkNode(n, looping); err != nil {
			return err
		}
	}
	return nil
}

func checkNode(n syntax.Node, looping bool) error {
	switch n := n.(type) {
	case *syntax.ActionNode:
		return checkPipe(n.Pipe)
	case *syntax.RangeNode:
		if looping || !overAlarms(n.Pipe) {
			return fmt.Errorf("has {{range %s}}: expected only one loop, over .Alarms", n.Pipe)
		}
		return checkBranch(&n.BranchNode, true)
	case *syntax.IfNode:
		return checkBranch(&n.BranchNode, looping)
	case *syntax.WithNode:
		return checkBranch(&n.BranchNode, looping)
	case *syntax.TemplateNode:
		return fmt.Errorf("calls the template %q: expected one text", n.Name)
	}
	return nil
}

// overAlarms reports whether a loop is over the alarms, which are few.
func overAlarms(p *syntax.PipeNode) bool {
	if len(p.Cmds) != 1 || len(p.Cmds[0].Args) != 1 {
		return false
	}
	text := p.Cmds[0].Args[0].String()
	return text == ".Alarms" || text == "$.Alarms"
}

func checkBranch(b *syntax.BranchNode, looping bool) error {
	return errors.Join(checkPipe(b.Pipe), checkList(b.List, looping), checkList(b.ElseList, looping))
}

func checkPipe(p *syntax.PipeNode) error {
	if p == nil {
		return nil
	}
	if p.IsAssign {
		return fmt.Errorf("assigns to a variable: %s", p)
	}
	for _, c := range p.Cmds {
		for i, arg := range c.Args {
			if inner, ok := arg.(*syntax.PipeNode); ok {
				if err := checkPipe(inner); err != nil {
					return err
				}
			}
			name, ok := arg.(*syntax.IdentifierNode)
			if !ok || name.Ident != "printf" {
				continue
			}
			if format, ok := next(c.Args, i).(*syntax.StringNode); !ok || wide.MatchString(format.Text) {
				return fmt.Errorf("has %s: expected a format in quotes, with widths below 100", c)
			}
		}
	}
	return nil
}

// next is the argument after another one; nil if there is none.
func next(args []syntax.Node, i int) syntax.Node {
	if i+1 < len(args) {
		return args[i+1]
	}
	return nil
}
