package webui

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/processfile"
	"drover/internal/words"
)

// applyForm is the input of a person in the form of an apply.
type applyForm struct {
	Namespace, Text, Reason string
	// Tag and Revision are the state of the namespace that the text was made for; empty and 0 if there is none.
	Tag      string
	Revision int64
	// NoRestart leaves running processes as they are. Prune removes what the file lacks.
	NoRestart, Prune bool
}

// applied is the content of the page about an applyForm.
type applied struct {
	applyForm
	Problem string
	Faults  processfile.Faults
	Plan    *planned
	// Newer is set if somebody else has changed the namespace since. Diff is what has changed.
	Newer *newer
	// Wrong is set if the typed number was wrong.
	Wrong   bool
	Command string
	// ReasonAt is the expression that demands a reason, and NoReason tells that it is missing.
	ReasonAt string
	NoReason bool
}

// planned is a plan that waits for a confirmation.
type planned struct {
	Changes  []planRow
	Rollouts []v1.Rollout
	// Steps is the number of changes, Restarts the number of restarts among them. Hosts counts the hosts.
	Steps, Restarts, Hosts int
	Typed                  bool
	hosts                  []string
}

// newer is a change by another person since the form was made.
type newer struct {
	User, Message string
	Number        int64
	Changes       []planRow
}

// planRow is a change as the page shows it.
type planRow struct {
	v1.Change
	Mark, Class, Name string
}

// pageOfApply shows a form with the processes of a namespace.
func (v *view) pageOfApply(ctx context.Context) error {
	f := applyForm{Namespace: v.r.URL.Query().Get("ns")}
	var problem string
	if f.Namespace != "" {
		file, tag, err := v.client.File(ctx, f.Namespace)
		switch known, ok := errors.AsType[*v1.Problem](err); {
		case err == nil:
			text, err := processfile.Write(processfile.Documents(file))
			if err != nil {
				return err
			}
			f.Text, f.Tag, f.Revision = string(text), tag, file.Revision
		case ok && known.Status == http.StatusNotFound:
			problem = words.Apply.NoneStored.In(v.lang, "ns", f.Namespace)
			f.Text = "namespace: " + f.Namespace + "\nprocesses:\n"
		default:
			return err
		}
	}
	v.showApply(http.StatusOK, &applied{applyForm: f, Problem: problem})
	return nil
}

// readFile parses the text of the form within the memory that the API has for parsing, and notes its faults.
func (v *view) readFile(ctx context.Context, a *applied) ([]processfile.Document, error) {
	release, err := v.Parse(ctx, v.who.App, []byte(a.Text))
	if err != nil {
		return nil, &v1.Problem{Status: http.StatusTooManyRequests, Title: "Too Many Requests", Detail: err.Error()}
	}
	defer release()
	docs, err := processfile.Read("", []byte(a.Text))
	a.Faults, _ = errors.AsType[processfile.Faults](err)
	return docs, nil
}

func (v *view) showApply(status int, a *applied) {
	a.Command = a.command()
	v.render(status, "apply", a)
}

// Back is the page with the namespace of the form.
func (f *applyForm) Back() string {
	if f.Namespace == "" {
		return path("apply")
	}
	return path("apply") + "?ns=" + url.QueryEscape(f.Namespace)
}

// command is the command that does the same.
func (f *applyForm) command() string {
	text := "drover apply -f FILE"
	if f.NoRestart {
		text += " --no-restart"
	}
	if f.Prune {
		text += " --prune"
	}
	if f.Reason != "" {
		text += " -m " + quote(f.Reason)
	}
	return text
}

// apply shows the plan of a file, and carries it out once it is confirmed.
func (v *view) apply(ctx context.Context) error {
	if !v.who.Admin && len(v.who.Grants) == 0 { // before it parses any input
		return &v1.Problem{
			Status: http.StatusForbidden, Title: "Forbidden", Detail: v.who.Who() + " has no rights",
		}
	}
	if err := v.r.ParseForm(); err != nil {
		return &v1.Problem{Status: http.StatusBadRequest}
	}
	in := v.r.PostForm
	a := &applied{applyForm: applyForm{
		Namespace: in.Get("ns"), Text: strings.ReplaceAll(in.Get("text"), "\r\n", "\n"), Reason: in.Get("reason"),
		Tag:       in.Get("tag"),
		NoRestart: in.Get("no_restart") != "", Prune: in.Get("prune") != "",
	}}
	a.Revision, _ = strconv.ParseInt(in.Get("revision"), 10, 64) // 0 is no revision
	docs, err := v.readFile(ctx, a)
	if err != nil {
		return err
	}
	files := processfile.Files(docs)
	if len(a.Faults) > 0 {
		a.Faults = a.Faults.Further(docs, func(file v1.File, peers []string) []v1.FieldError {
			_, _, err := v.client.Plan(ctx, file, client.ApplyOptions{Peers: peers})
			refusal, refused := errors.AsType[*v1.Problem](err)
			if !refused || refusal.Status != http.StatusUnprocessableEntity {
				return nil
			}
			return refusal.Fields
		})
		v.showApply(http.StatusUnprocessableEntity, a)
		return nil
	}
	if len(files) != 1 {
		a.Problem = words.Apply.OneNamespace.In(v.lang)
		v.showApply(http.StatusUnprocessableEntity, a)
		return nil
	}
	if files[0].Namespace != a.Namespace { // the text was for another namespace, or for none
		a.Namespace, a.Tag, a.Revision = files[0].Namespace, "", 0
	}
	if in.Get("step") == "again" {
		a.Tag = ""
	}
	plan, tag, err := v.client.Plan(ctx, files[0], a.options())
	if err != nil {
		return v.notPlanned(ctx, a, docs, err)
	}
	a.Plan, a.Tag = v.planOf(&plan), tag
	if in.Get("step") == "again" {
		if err := v.renewBase(ctx, a); err != nil {
			return err
		}
	}
	if sure, err := v.confirmed(ctx, a); err != nil {
		return err
	} else if !sure {
		v.showApply(http.StatusOK, a)
		return nil
	}
	if a.Plan.Steps > recentAbove && !v.recent() {
		v.signInAgain()
		return nil
	}
	done, err := v.client.Apply(ctx, files[0], a.options())
	if err != nil {
		return v.notPlanned(ctx, a, docs, err)
	}
	http.Redirect(v.w, v.r, followUp(&done), http.StatusSeeOther)
	return nil
}

// confirmed reports whether the form confirms its plan, with a reason where one is needed.
func (v *view) confirmed(ctx context.Context, a *applied) (sure bool, err error) {
	in := v.r.PostForm
	if a.ReasonAt, err = v.reasonOn(ctx, a.Plan.hosts); err != nil || in.Get("step") != "confirm" {
		return false, err
	}
	typed := in.Get("confirm")
	a.Wrong = (typed != "yes" || a.Plan.Typed) && (!a.Plan.Typed || typed != strconv.Itoa(a.Plan.Steps))
	a.NoReason = !a.Wrong && a.ReasonAt != "" && !v.hasReason()
	return !a.Wrong && !a.NoReason && a.Plan.Steps > 0, nil
}

// followUp is the page of what an apply has begun.
func followUp(done *v1.Plan) string {
	switch {
	case len(done.Rollouts) == 1:
		return path("rollouts", done.Rollouts[0].ID)
	case len(done.Rollouts) > 1:
		return path("rollouts")
	case done.Operation != nil:
		return path("tasks", done.Operation.ID)
	default:
		return path("tasks")
	}
}

func (f *applyForm) options() client.ApplyOptions {
	o := client.ApplyOptions{NoRestart: f.NoRestart, Message: f.Reason, Tag: f.Tag}
	if f.Prune {
		o.Prune = client.PruneOwn
	}
	return o
}

// renewBase has a form be for the present state of its namespace.
func (v *view) renewBase(ctx context.Context, a *applied) error {
	file, _, err := v.client.File(ctx, a.Namespace)
	if known, ok := errors.AsType[*v1.Problem](err); ok && known.Status == http.StatusNotFound {
		return nil
	}
	a.Revision = file.Revision
	return err
}

// notPlanned shows why the server has rejected a file: at the lines of its faults, or with what somebody else has
// changed. Other errors it returns.
func (v *view) notPlanned(ctx context.Context, a *applied, docs []processfile.Document, err error) error {
	known, ok := errors.AsType[*v1.Problem](err)
	if !ok {
		return err
	}
	a.Plan = nil
	switch status := known.Status; {
	case status == http.StatusUnprocessableEntity:
		if a.Faults = processfile.Place(docs, a.Namespace, known.Fields); len(a.Faults) == 0 {
			a.Problem = v.refusal(known)
		}
	case status == http.StatusPreconditionFailed:
		a.Problem = v.refusal(known)
		if a.Newer, err = v.newer(ctx, &a.applyForm); err != nil {
			return err
		}
	case status >= http.StatusInternalServerError:
		return err
	default:
		a.Problem = v.refusal(known)
	}
	v.showApply(known.Status, a)
	return nil
}

// newer returns what has changed in a namespace since the revision of a form.
func (v *view) newer(ctx context.Context, f *applyForm) (*newer, error) {
	last, _, err := some(v.client.Revisions(ctx, f.Namespace, 1), 1)
	if err != nil {
		return nil, err
	}
	n := &newer{}
	if len(last) > 0 {
		n.User, n.Message, n.Number = cmp.Or(last[0].User, last[0].App), last[0].Message, last[0].Number
	}
	if f.Revision == 0 || f.Revision == n.Number {
		return n, nil
	}
	diff, err := v.client.Compare(ctx, f.Namespace, f.Revision, n.Number)
	if known, ok := errors.AsType[*v1.Problem](err); ok && known.Status == http.StatusNotFound {
		return n, nil // the server forgets old revisions
	}
	n.Changes = rowsOf(&diff)
	return n, err
}

// reasonOn is reasonFor of an apply that changes something on hosts.
func (v *view) reasonOn(ctx context.Context, hosts []string) (string, error) {
	for _, at := range v.ReasonAt {
		for part := range slices.Chunk(hosts, mostAsked) {
			found, err := client.Collect(v.client.Hosts(ctx, client.HostFilter{Hosts: part, Selector: at, Limit: 1}))
			if err != nil || len(found) > 0 {
				return at, err
			}
		}
	}
	return "", nil
}

// mostAsked is the largest number of hosts that one call names.
const mostAsked = 500

// planOf counts a plan.
func (v *view) planOf(p *v1.Plan) *planned {
	out := &planned{Changes: rowsOf(p), Rollouts: p.Rollouts}
	hosts := map[string]bool{}
	for _, c := range p.Changes {
		n := processfile.Steps(&c)
		if n == 0 {
			continue
		}
		out.Steps += n
		if strings.HasPrefix(c.Op, v1.OpRestart) {
			out.Restarts += n
		}
		for _, h := range c.Hosts {
			hosts[h] = true
		}
	}
	out.hosts = slices.Sorted(maps.Keys(hosts))
	out.Hosts, out.Typed = len(hosts), out.Steps > v.typeAbove()
	return out
}

// rowsOf returns the changes of a plan with their marks, which are those of drover diff.
func rowsOf(p *v1.Plan) []planRow {
	marks := map[string][2]string{
		"create": {"+", "good"}, "change": {"~", "busy"}, "remove": {"-", "bad"}, "none": {"=", "idle"},
		"kept": {"!", "warn"},
	}
	rows := make([]planRow, len(p.Changes))
	for i, c := range p.Changes {
		m := marks[c.Action]
		name := p.Namespace + "/" + c.Process + processfile.Numbers(c.Copies)
		rows[i] = planRow{Change: c, Mark: m[0], Class: m[1], Name: name}
	}
	return rows
}

// fieldValue is a value of a field as the page shows it; a dash is the default.
func fieldValue(value any) string {
	switch x := value.(type) {
	case nil:
		return "–"
	case string:
		return x
	}
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(text)
}
