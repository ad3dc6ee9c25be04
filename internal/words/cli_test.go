package words_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"drover/internal/words"
)

// parsed calls see for each node of the sources below a directory, without tests.
func parsed(t *testing.T, dir string, see func(place string, n ast.Node)) {
	t.Helper()
	set := token.NewFileSet()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if n != nil {
				see(set.Position(n.Pos()).String(), n)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// constant is the value of an expression of string constants; ok is false for another expression.
func constant(e ast.Expr) (text string, ok bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		a, isText := constant(e.X)
		b, alsoText := constant(e.Y)
		return a + b, isText && alsoText && e.Op == token.ADD
	}
	return "", false
}

// called is the name of the function of a call, without its package.
func called(c *ast.CallExpr) string {
	switch f := c.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

var verb = regexp.MustCompile(`%(\[\d\])?[-+#]?[0-9.]*[a-z]`)

// example is what a format may say with its arguments.
func example(format string, args []ast.Expr) string {
	n, end := 0, 0
	var b strings.Builder
	for _, at := range verb.FindAllStringIndex(format, -1) {
		b.WriteString(format[end:at[0]])
		var arg ast.Expr
		if n < len(args) {
			arg = args[n]
		}
		glued := at[0] > 0 && unicode.IsLetter(rune(format[at[0]-1]))
		b.WriteString(value(format[at[1]-1], arg, glued))
		n, end = n+1, at[1]
	}
	return b.String() + format[end:]
}

// value is a value of an argument. One that is glued to the word before it is empty in the simple case.
func value(verb byte, arg ast.Expr, glued bool) string {
	call, _ := arg.(*ast.CallExpr)
	name, _ := arg.(*ast.Ident)
	switch {
	case glued:
		return ""
	case call != nil && called(call) == "Count":
		many, _ := constant(call.Args[2])
		return "7 " + many
	case name != nil && name.Name == "flag":
		return "--x"
	case name != nil && name.Name == "what":
		return "stop 7 processes on 7 hosts"
	case call != nil && slices.Contains([]string{"OneOf", "Join", "OrList"}, called(call)):
		return "x or x"
	case call != nil && called(call) == "expected":
		return "a number"
	case verb == 'd', verb == 'f', verb == 'g':
		return "7"
	case verb == 'q':
		return `"x"`
	}
	return "x"
}

// own are messages that hold nothing but names, or what another part has said.
var own = regexp.MustCompile(`^[^A-Za-z]*$|^%s: %s\n$|^--[a-z%]+:? %[wv][^A-Za-z]*$|^--[a-z]+: %[wv]$`)

// TestTheCommandLineSpeaksChinese: whatever commands say is in the catalogue. A new message needs its Chinese text in
// messages/zh_CN.po.
func TestTheCommandLineSpeaksChinese(t *testing.T) {
	formats := map[string]int{
		"Say": 1, "Usagef": 0, "NoSuchf": 0, "Errorf": 0, "New": 0, "ok": 1, "warn": 2, "problem": 2,
	}
	seen := 0
	check := func(place, format string, args []ast.Expr) {
		bare := verb.ReplaceAllString(strings.ReplaceAll(format, "\x1b[K", ""), "")
		if seen++; own.MatchString(bare) || own.MatchString(format) {
			return
		}
		said := example(format, args)
		if words.Message(said, words.Chinese) == said {
			t.Errorf("%s: %q is not in messages/zh_CN.po", place, said)
		}
	}
	parsed(t, "../cli", func(place string, n ast.Node) {
		switch n := n.(type) {
		case *ast.CallExpr:
			at, speaks := formats[called(n)]
			if !speaks || len(n.Args) <= at {
				return
			}
			if format, ok := constant(n.Args[at]); ok {
				check(place, format, n.Args[at+1:])
			}
		case *ast.KeyValueExpr:
			if name, ok := n.Key.(*ast.Ident); ok && (name.Name == "Done" || name.Name == "None") {
				if format, ok := constant(n.Value); ok {
					check(place, format, nil)
				}
			}
		}
	})
	if seen < 200 {
		t.Errorf("only %d messages were found", seen)
	}
}

// TestRefusalsInChinese: whatever the API of the server says when it refuses a call is in the group refusal or field
// fault, as far as the source says it in one place.
func TestRefusalsInChinese(t *testing.T) {
	formats := map[string]int{"Problemf": 1, "Invalid": 1, "Busy": 0, "Failure": 0, "Stored": 1}
	// What these say is looked at where somebody calls Failure and Stored.
	said := map[string]bool{
		"cannot %s: try again later": true, "cannot %s: the server's database is away; try again later": true, "there is no %s %q": true, "%s %q exists already": true,
		"cannot %s: %v; free space there; until then drover accepts only stop, kill and unhost": true,
	}
	seen := 0
	parsed(t, "../server/api", func(place string, n ast.Node) {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return
		}
		at, refuses := formats[called(call)]
		if !refuses || len(call.Args) <= at {
			return
		}
		format, ok := constant(call.Args[at])
		if !ok || said[format] || own.MatchString(verb.ReplaceAllString(format, "")) {
			return
		}
		seen++
		refusal := example(format, call.Args[at+1:])
		switch called(call) {
		case "Failure":
			refusal = "cannot " + refusal + ": try again later"
		case "Stored":
			refusal = "there is no " + format + ` "x"`
		}
		if _, whole := words.Sentence(refusal, words.Chinese); !whole {
			t.Errorf("%s: %q is in neither sentences/zh_CN.po nor faults/zh_CN.po", place, refusal)
		}
	})
	if seen < 200 {
		t.Errorf("only %d refusals were found", seen)
	}
	for said, want := range map[string]string{
		`there is no app "x"`:               `没有应用 "x"`,
		`limit: is "0": expected 1 to 1000`: `limit：为 "0"：应为 1 至 1000`,
		"targets[0].name: is empty; host_timeout_seconds: is 0: expected 1 to 600": "targets[0].name：为空；host_timeout_seconds：为 0：应为 1 至 600",
		"cannot list the apps: try again later":                                    "查询应用失败：请稍后重试",
		"cannot list the apps: the server's database is away; try again later":     "查询应用失败：服务器的数据库无法访问；请稍后重试",
		`state: is "x": expected active, held or done`:                             `state：为 "x"：应为 active, held 或 done`,
		`last: is "x": expected 15m, 1h or 24h`:                                    `last：为 "x"：应为 15m, 1h 或 24h`,
		"cursor: a sentence of tomorrow":                                           "cursor：a sentence of tomorrow",
	} {
		if got := words.Message(said, words.Chinese); got != want {
			t.Errorf("%q is %q, want %q", said, got, want)
		}
	}
}

// TestHeadsAndFieldsInChinese: the heads of tables and the names of fields are in columns/zh_CN.po.
func TestHeadsAndFieldsInChinese(t *testing.T) {
	columns, used := forms(t, "column"), map[string]bool{}
	known := func(name string) bool {
		return slices.ContainsFunc(columns, func(c entry) bool { return c.en == name })
	}
	field := func(place string, e ast.Expr) {
		list, ok := e.(*ast.CompositeLit)
		if !ok || len(list.Elts) != 2 {
			return
		}
		if name, ok := constant(list.Elts[0]); ok && !known(name) {
			t.Errorf("%s: the field %q is not in columns/zh_CN.po", place, name)
		}
	}
	isField := func(e ast.Expr) bool {
		s, ok := e.(*ast.SelectorExpr)
		return ok && s.Sel.Name == "Field"
	}
	parsed(t, "../cli", func(place string, n ast.Node) {
		switch n := n.(type) {
		case *ast.BasicLit:
			text, _ := constant(n)
			used[text] = true
		case *ast.KeyValueExpr:
			if name, ok := n.Key.(*ast.Ident); ok && name.Name == "Head" {
				if head, ok := constant(n.Value); ok && !known(head) {
					t.Errorf("%s: the head %q is not in columns/zh_CN.po", place, head)
				}
			}
		case *ast.CompositeLit:
			if list, ok := n.Type.(*ast.ArrayType); ok && isField(list.Elt) {
				for _, e := range n.Elts {
					field(place, e)
				}
			}
			if isField(n.Type) {
				field(place, n)
			}
		}
	})
	for _, c := range columns {
		if !used[c.en] {
			t.Errorf("no table and no text has %q", c.en)
		}
	}
}

// TestNote: only the note that drover writes itself is told in another language.
func TestNote(t *testing.T) {
	own := words.OperatorNote.In(words.English)
	if got := words.Note(own, words.Chinese); got == own || words.Note(own, words.English) != own {
		t.Errorf("the note of the operator is %q", got)
	}
	if got := words.Note("success", words.Chinese); got != "success" {
		t.Errorf("the note of a person is %q", got)
	}
}
