// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// namesPage is the page that `make generate` writes.
const namesPage = "docs/reference/api/names.md"

var (
	reasonName     = regexp.MustCompile(`^([rR]eason|Condition)[A-Z]`)
	camelCase      = regexp.MustCompile(`^[A-Z][A-Za-z]+$`)
	annotationName = regexp.MustCompile(`^([a-z]+\.)?kubernetsn\.io/[a-z-]*$`)
	// elsewhere are reasons in objects of Kubernetes and of the multicluster inventory.
	elsewhere = map[string]bool{"Federator": true, "NotReported": true}
	// prefixes are the beginnings of names that programs complete.
	prefixes = map[string]bool{"kubernetsn.io/": true}
)

// constantStrings calls visit for the constants with a string in the product's Go files, and for fields Reason with one.
func constantStrings(t *testing.T, visit func(file, name, value string)) {
	t.Helper()
	for name := range readTree(t).paths {
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") ||
			!regexp.MustCompile(`^(api|cmd|federator|internal|kubevirt)/`).MatchString(name) || strings.Contains(name, "/test") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, read(t, name), parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		visitString := func(identifier string, value ast.Expr) {
			if literal, ok := value.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				text, err := strconv.Unquote(literal.Value)
				if err != nil {
					t.Fatal(err)
				}
				visit(name, identifier, text)
			}
		}
		ast.Inspect(file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.ValueSpec:
				for i, value := range node.Values {
					visitString(node.Names[i].Name, value)
				}
			case *ast.KeyValueExpr:
				if key, ok := node.Key.(*ast.Ident); ok && key.Name == "Reason" {
					visitString("reasonField", node.Value)
				}
			}
			return true
		})
	}
}

func TestReferenceHasConditionsReasonsAndAnnotations(t *testing.T) {
	page := read(t, namesPage)
	count := 0
	constantStrings(t, func(file, name, value string) {
		reason := reasonName.MatchString(name) && camelCase.MatchString(value) && !elsewhere[value]
		if !reason && (!annotationName.MatchString(value) || prefixes[value]) {
			return
		}
		count++
		if !strings.Contains(page, "\n| `"+value+"` |") {
			t.Errorf("%s: %s, %q, is not in %s: add a comment to it, and the file to scripts/generate.sh", file, name, value, namesPage)
		}
	})
	if count < 100 {
		t.Errorf("%d names found, want more", count)
	}
}
