package webui

import (
	"context"
	"html/template"
	"net/http"
	"regexp"
	"strings"

	v1 "drover/api/v1"
	pages "drover/docs/why"
	zhpages "drover/docs/zh/why"
	"drover/internal/words"
)

// spoken are the functions of templates for what agents and servers have said, in a language.
func spoken(lang words.Lang) template.FuncMap {
	return template.FuncMap{
		"about":  words.CauseOf,
		"remedy": func(id, sentence string) []span { return spans(words.Remedy(id, sentence, "", lang)) },
		"said":   func(id, text string) string { return visible(words.CauseSentence(id, text, lang)) },
		"sentence": func(text string) string {
			text, _ = words.Sentence(text, lang)
			return visible(text)
		},
	}
}

// cause shows the page about a cause.
func (v *view) cause(context.Context) error {
	id := v.r.PathValue("id")
	text, ok := pages.Page(id)
	if !ok {
		return &v1.Problem{Status: http.StatusNotFound}
	}
	if v.lang == words.Chinese {
		text = zhpages.Page(id)
	}
	v.render(http.StatusOK, "why", map[string]any{
		"Blocks": blocks(text), "Command": "drover why --page " + quote(id),
	})
	return nil
}

// block is a part of a page about a cause: a title, a heading, a paragraph, a list or lines of code.
type block struct {
	Kind  string
	Spans []span
	Items [][]span
	Code  string
}

// span is a piece of text, or of code.
type span struct {
	Text string
	Code bool
}

// link matches a link of Markdown. Pages about causes link to documents, which the console does not serve.
var link = regexp.MustCompile(`\[([^\]]+)\]\([^)]+\)`)

// blocks reads a page about a cause: the part of Markdown that these pages use.
func blocks(text string) (all []block) {
	for i, part := range strings.Split(text, "```\n") {
		if i%2 == 1 {
			all = append(all, block{Kind: "code", Code: strings.TrimSuffix(part, "\n")})
			continue
		}
		all = append(all, proseBlocks(part)...)
	}
	return all
}

func proseBlocks(text string) (all []block) {
	for part := range strings.SplitSeq(text, "\n\n") {
		part = strings.Trim(part, "\n")
		title, isTitle := strings.CutPrefix(part, "# ")
		heading, isHeading := strings.CutPrefix(part, "## ")
		switch {
		case part == "":
		case isTitle:
			all = append(all, block{Kind: "title", Spans: spans(title)})
		case isHeading:
			all = append(all, block{Kind: "heading", Spans: spans(heading)})
		case strings.HasPrefix(part, "- "):
			b := block{Kind: "list"}
			for item := range strings.SplitSeq(part[2:], "\n- ") {
				b.Items = append(b.Items, spans(item))
			}
			all = append(all, b)
		default:
			all = append(all, block{Kind: "text", Spans: spans(part)})
		}
	}
	return all
}

// spans splits a text at its backquotes.
func spans(text string) (all []span) {
	text = strings.Join(strings.Fields(link.ReplaceAllString(text, "$1")), " ")
	for i, part := range strings.Split(text, "`") {
		if part != "" {
			all = append(all, span{part, i%2 == 1})
		}
	}
	return all
}
