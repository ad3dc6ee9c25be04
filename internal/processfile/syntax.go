package processfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/scanner"
	"github.com/goccy/go-yaml/token"
)

// parse returns the syntax tree of a text, or what makes the text no YAML.
func parse(data []byte) (*ast.File, []Fault) {
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // some editors begin a file with it
	if i := bytes.IndexByte(data, 0); i >= 0 {
		return nil, []Fault{{
			Line: 1 + bytes.Count(data[:i], []byte("\n")), Text: "holds a NUL byte, so the file is no text: expected text in UTF-8",
		}}
	}
	if !utf8.Valid(data) {
		return nil, foreignBytes(data)
	}
	tokens, fault := tokenize(data)
	if fault != nil {
		return nil, []Fault{*fault}
	}
	if faults := namelessAliases(tokens); len(faults) > 0 {
		return nil, faults
	}
	tree, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err == nil {
		return tree, nil
	}
	fault = &Fault{Line: 1, Text: "not valid YAML: " + strings.TrimSpace(err.Error())}
	if at, ok := errors.AsType[syntaxError](err); ok && at.GetToken() != nil {
		fault.Line, fault.Text = syntaxFault(strings.Split(string(data), "\n"), at.GetToken(), at.GetMessage())
	}
	return nil, []Fault{*fault}
}

// Bounds of a file. The parser calls itself for each level, and some of its steps take time by the square of the number
// of tokens.
const (
	maxNesting = 32
	maxTokens  = 100_000
	// maxSigns is how many characters may be tokens of their own: the lexer may return all of them at once.
	maxSigns = 4 * maxTokens
	// maxBlank is how many lines in a row may be blank: the lexer takes time by the square of their number.
	maxBlank = 200
)

// tokenize returns the tokens of a text, or the bound that the text exceeds. It stops there.
func tokenize(data []byte) (tokens token.Tokens, fault *Fault) {
	tooMany := func(line int) *Fault {
		return &Fault{Line: line, Text: fmt.Sprintf(
			"the file has more than %d tokens, which are names, values and signs: split the file", maxTokens)}
	}
	blank, number, signs := 0, 0, 0
	for line := range bytes.Lines(data) {
		number++
		for _, c := range line {
			if strings.IndexByte("[]{},&*!\n", c) >= 0 {
				signs++
			}
		}
		if signs > maxSigns {
			return nil, tooMany(number)
		}
		if blank++; len(bytes.TrimSpace(line)) > 0 {
			blank = 0
		}
		if blank > maxBlank {
			return nil, &Fault{Line: number, Text: fmt.Sprintf("more than %d lines in a row are blank: remove some", maxBlank)}
		}
	}
	var in scanner.Scanner
	in.Init(string(data))
	var depth nesting
	for n := 0; ; {
		more, err := in.Scan()
		if errors.Is(err, io.EOF) { // any other error is in the tokens, and the parser tells it
			return tokens, nil
		}
		tokens.Add(more...)
		for _, t := range more {
			n++
			switch {
			case depth.after(t) > maxNesting:
				return nil, &Fault{
					Line: t.Position.Line, Text: fmt.Sprintf("values are nested more than %d levels deep", maxNesting),
				}
			case n > maxTokens:
				return nil, tooMany(t.Position.Line)
			}
		}
	}
}

// nesting follows how deep the tokens of a text are nested.
type nesting struct {
	// flow is the number of open brackets and braces. columns are those of the open lists and maps in block style.
	// prefixes counts the anchors, tags and aliases since the last other token.
	flow, prefixes int
	columns        []int
}

// after returns the depth after a token.
func (n *nesting) after(t *token.Token) int {
	prefixes := n.prefixes
	n.prefixes = 0
	switch t.Type { //nolint:exhaustive // no other one changes the depth
	case token.SequenceStartType, token.MappingStartType:
		n.flow++
	case token.SequenceEndType, token.MappingEndType:
		n.flow = max(n.flow-1, 0)
	case token.DocumentHeaderType, token.DocumentEndType:
		*n = nesting{}
	case token.AnchorType, token.TagType, token.AliasType:
		n.prefixes = prefixes + 1
	case token.StringType:
		if before := t.Prev; before != nil && (before.Type == token.AnchorType || before.Type == token.AliasType) {
			n.prefixes = prefixes // it is the name
		}
	case token.SequenceEntryType, token.MappingKeyType:
		n.at(t.Position.Column)
	case token.MappingValueType:
		if key := t.Prev; key != nil && n.flow == 0 {
			n.at(key.Position.Column)
		}
	}
	return n.flow + len(n.columns) + n.prefixes
}

// at notes that a list or a map in block style has a line at a column: those that begin further right have ended.
func (n *nesting) at(column int) {
	i, _ := slices.BinarySearch(n.columns, column)
	n.columns = append(n.columns[:i], column)
}

// mostForeign is how many lines that are not UTF-8 are told: in another encoding all lines are alike.
const mostForeign = 3

// foreignBytes finds the first lines that are not UTF-8. The parser would replace their bytes.
func foreignBytes(data []byte) (faults []Fault) {
	number := 0
	for line := range bytes.Lines(data) {
		if number++; len(faults) == mostForeign {
			break
		}
		if !utf8.Valid(line) {
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
