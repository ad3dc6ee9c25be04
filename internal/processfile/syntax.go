package processfile

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// parse returns the syntax tree of a text, or what makes the text no YAML.
func parse(data []byte) (*ast.File, []Fault) {
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // some editors begin a file with it
	if !utf8.Valid(data) {
		return nil, foreignBytes(data)
	}
	tokens := lexer.Tokenize(string(data))
	if faults := namelessAliases(tokens); len(faults) > 0 {
		return nil, faults
	}
	tree, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err == nil {
		return tree, nil
	}
	fault := Fault{Line: 1, Text: "not valid YAML: " + strings.TrimSpace(err.Error())}
	if at, ok := errors.AsType[syntaxError](err); ok && at.GetToken() != nil {
		fault.Line, fault.Text = syntaxFault(strings.Split(string(data), "\n"), at.GetToken(), at.GetMessage())
	}
	return nil, []Fault{fault}
}

// foreignBytes finds the lines that are not UTF-8. The parser would replace their bytes.
func foreignBytes(data []byte) (faults []Fault) {
	number := 0
	for line := range bytes.Lines(data) {
		if number++; !utf8.Valid(line) {
			faults = append(faults, Fault{Line: number, Text: "holds bytes that are not UTF-8: expected text in UTF-8"})
		}
	}
	return faults
}

// syntaxError is an error of the parser with its place.
type syntaxError interface {
	error
	GetToken() *token.Token
	GetMessage() string
}

// namelessAliases finds each * that stands alone: a pattern of hosts that has no quotes.
func namelessAliases(tokens token.Tokens) (faults []Fault) {
	for _, t := range tokens {
		if t.Type != token.AliasType {
			continue
		}
		next := t.Next
		named := next != nil && next.Position.Line == t.Position.Line && next.Position.Column == t.Position.Column+1
		if named && next.Indicator != token.FlowCollectionIndicator {
			continue
		}
		faults = append(faults, Fault{
			Line: t.Position.Line, Text: `* without quotes is an alias of YAML: put it in quotes: "*"`,
		})
	}
	return faults
}

// syntaxFault returns what is wrong at a token of a text, and in which line.
func syntaxFault(lines []string, t *token.Token, message string) (line int, fault string) {
	line = t.Position.Line
	var before, rest string
	if line >= 1 && line <= len(lines) {
		text := []rune(strings.TrimSuffix(lines[line-1], "\r"))
		column := min(max(t.Position.Column-1, 0), len(text))
		before, rest = string(text[:column]), strings.TrimSpace(string(text[column:]))
	}
	_, more, several := strings.Cut(strings.TrimSpace(t.Origin), "\n")
	switch first := strings.TrimSpace(before) == ""; {
	case t.Type == token.InvalidType && strings.Contains(t.Origin, "\t"):
		return line, "a tab indents the line: use spaces"
	case message == "mapping value is not allowed in this context" && several:
		line += 1 + strings.Count(more, "\n")
		return line, "the line continues the value before it: indent it as the field before it, " +
			"or put | before a value of several lines"
	case message == "mapping value is not allowed in this context" && strings.Contains(rest, ": "):
		return line, fmt.Sprintf("%q has a colon and a space without quotes: put the value in quotes, "+
			"or into the lines below a |", clip(rest))
	case message == "value is not allowed in this context" && first:
		return line, "no line before has this indentation: indent fields that belong together alike"
	case strings.HasPrefix(message, "could not find end character of"):
		return line, fmt.Sprintf("%q begins with a quote and has no quote at its end", clip(rest))
	case message == "sequence end token ']' not found":
		return line, "a list begins with [ and has no ] at its end"
	case strings.HasSuffix(message, "is a reserved character"):
		return line, fmt.Sprintf("%q begins with a character that YAML reserves: put the value in quotes", clip(rest))
	}
	return line, "not valid YAML: " + message
}
