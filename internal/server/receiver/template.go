package receiver

import (
	"errors"
	"fmt"
	"regexp"
	"text/template"
	syntax "text/template/parse"
)

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
